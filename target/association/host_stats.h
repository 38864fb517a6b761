/* SPDX-License-Identifier: BSD-3-Clause */
/* The statistics of hosts since rblkd started, including freed queues. Control thread. */
#pragma once

#include "target/engine/queue/queue.h"
#include "target/export/stats.h"

struct connection;

enum {
	/* Records of hosts without a queue; beyond that the oldest are added up in one. */
	HOSTS_REMEMBERED = 128,
};

struct host_stats {
	/* Thread: control */
	struct list node;		/* target->host_stats, by last connect */
	char nqn[NVMF_NQN_MAX + 1];	/* may be "" */
	bool is_rest;			/* adds up hosts that have no record */
	unsigned n_queues;		/* that count for it now */
	uint64_t n_connects;		/* queues it has had */
	struct queue_counters counters; /* of freed queues */
	struct io_stats io[STATS_CLASSES];
};

/* 0 or -ENOMEM. */
int host_stats_init(struct target *target);
void host_stats_deinit(struct target *target); /* accepts a zeroed one */
/* The connection counts for this host from now on. */
void host_stats_attach(struct connection *c, const char *hostnqn);
/* Before the connection is freed, once its poller has released it. Accepts one without a host. */
void host_stats_detach(struct connection *c);
/* Its NQN, or a description in parentheses. */
const char *host_stats_label(const struct host_stats *host);
/* The sum of freed and current queues. */
void host_stats_sum(const struct target *target, const struct host_stats *host,
		    struct host_stats *ret_sum);
