/* SPDX-License-Identifier: BSD-3-Clause */
/* What all queue pairs to one address share. Any thread; the locks are leaves. */
#pragma once

#include <infiniband/verbs.h>
#include <pthread.h>

#include "softrdma/fabric/roce/ip_id.h"
#include "softrdma/fabric/roce/window.h"

struct roce_peer {
	struct roce_peer *next;
	union ibv_gid gid;
	unsigned refs;	      /* guarded by the list's lock */
	pthread_mutex_t lock; /* guards all below */
	struct roce_window window;
	struct roce_ip_id ip_id;
	uint64_t srtt_ns;
};

/* A reference, or NULL without memory. */
struct roce_peer *roce_peer_get(const union ibv_gid *gid);
void roce_peer_put(struct roce_peer *p); /* accepts NULL */
/* In a forked child. */
void roce_peers_forget(void);
