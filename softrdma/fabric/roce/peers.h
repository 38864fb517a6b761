/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by all queue pairs from one address of this host to one of another. Any thread; the locks
 * are leaves.
 *
 * Their packets leave from a random UDP port, which the other host remembers. No third host learns
 * it: what it is sent itself has another one.
 */
#pragma once

#include <infiniband/verbs.h>
#include <pthread.h>

#include "softrdma/fabric/roce/ip_id.h"
#include "softrdma/fabric/roce/window.h"

struct roce_peer {
	struct roce_peer *next;
	union ibv_gid local, gid;
	int sock;	      /* owned; -1: there is none */
	uint16_t source_port; /* of sock */
	unsigned refs;	      /* guarded by the list's lock */
	pthread_mutex_t lock; /* guards what follows */
	struct roce_window window;
	struct roce_ip_id ip_id;
	uint64_t srtt_ns;
};

/* A reference, or NULL without memory. scope: local's interface. */
struct roce_peer *roce_peer_get(const union ibv_gid *local, uint32_t scope,
				const union ibv_gid *gid);
void roce_peer_put(struct roce_peer *p); /* accepts NULL */
/* In a forked child. */
void roce_peers_forget(void);
