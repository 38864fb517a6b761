/* SPDX-License-Identifier: BSD-3-Clause */
/* What hosts have done since rblkd was started, also over queues that are gone. Control thread. */
#pragma once

#include "target/engine/queue.h"
#include "target/export/stats.h"

struct connection;

enum {
	/* Hosts without a queue that are remembered; the longest gone of more are added up. */
	HOSTS_REMEMBERED = 128,
};

struct host_stats {
	/* Thread: control */
	struct list node;		/* target->host_stats, who came last last */
	char nqn[NVMF_NQN_MAX + 1];	/* may be "" */
	bool is_rest;			/* those that are not remembered */
	unsigned n_queues;		/* that count for it now */
	uint64_t n_connects;		/* queues it has had */
	struct queue_counters counters; /* of queues that are gone */
	struct io_stats io[STATS_CLASSES];
};

/* 0 or -ENOMEM. */
int host_stats_init(struct target *target);
void host_stats_deinit(struct target *target); /* accepts a zeroed one */
/* The connection counts for this host from now on. */
void host_stats_attach(struct connection *c, const char *hostnqn);
/* It is about to be freed; its poller has let go of it. Accepts one that has no host. */
void host_stats_detach(struct connection *c);
/* Its NQN, or words in parentheses. */
const char *host_stats_label(const struct host_stats *host);
/* Everything: of queues that are gone and of those that are there. */
void host_stats_sum(const struct target *target, const struct host_stats *host,
		    struct host_stats *ret_sum);
