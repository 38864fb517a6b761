/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A host's record begins when its first queue joins an association. When a queue is freed, its
 * counts go to the record. Hosts may have any name, so only HOSTS_REMEMBERED records of hosts
 * without a queue are kept. One record without a name adds up the others, and also counts a host
 * when there is no memory for its record.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "target/association/connection_impl.h"
#include "target/association/host_stats.h"

static void add_counters(struct queue_counters *into, const struct queue_counters *from)
{
	into->n_commands += counter_get(&from->n_commands);
	into->n_reads += counter_get(&from->n_reads);
	into->n_writes += counter_get(&from->n_writes);
	into->read_bytes += counter_get(&from->read_bytes);
	into->written_bytes += counter_get(&from->written_bytes);
	into->n_errors += counter_get(&from->n_errors);
}

static void add(struct host_stats *into, const struct queue_counters *counters,
		const struct io_stats *io)
{
	add_counters(&into->counters, counters);
	for (unsigned i = 0; i < STATS_CLASSES; i++)
		io_stats_merge(&into->io[i], &io[i]);
}

static struct host_stats *host_at(struct list *node)
{
	return list_entry(node, struct host_stats, node);
}

int host_stats_init(struct target *target)
{
	list_init(&target->host_stats);
	target->other_hosts = calloc(1, sizeof(*target->other_hosts));
	if (!target->other_hosts)
		return -ENOMEM;
	target->other_hosts->is_rest = true;
	return 0;
}

void host_stats_deinit(struct target *target)
{
	struct list *node;

	while (target->host_stats.next && (node = list_take_first(&target->host_stats)))
		free(host_at(node));
	free(target->other_hosts);
	target->other_hosts = NULL;
}

static struct host_stats *find(struct target *target, const char *nqn)
{
	list_for_each (node, &target->host_stats)
		if (!strcmp(host_at(node)->nqn, nqn))
			return host_at(node);
	return NULL;
}

/* Forgets hosts without a queue, the one that connected first before the others. */
static void forget_some(struct target *target)
{
	unsigned n_gone = 0;

	list_for_each (node, &target->host_stats) {
		n_gone += !host_at(node)->n_queues;
	}
	list_for_each_safe (node, &target->host_stats) {
		struct host_stats *host = host_at(node);

		if (n_gone <= HOSTS_REMEMBERED)
			break;
		if (host->n_queues)
			continue;
		target->other_hosts->n_connects += host->n_connects;
		add(target->other_hosts, &host->counters, host->io);
		list_remove(&host->node);
		free(host);
		n_gone--;
	}
}

void host_stats_attach(struct connection *c, const char *hostnqn)
{
	struct target *target = c->target;
	struct host_stats *host = find(target, hostnqn);

	check(!c->host_stats);
	if (!host && (host = calloc(1, sizeof(*host)))) {
		snprintf(host->nqn, sizeof(host->nqn), "%s", hostnqn);
		list_init(&host->node);
	}
	if (!host)
		host = target->other_hosts;
	else {
		list_remove(&host->node);
		list_add_tail(&target->host_stats, &host->node);
	}
	host->n_queues++;
	host->n_connects++;
	c->host_stats = host;
}

void host_stats_detach(struct connection *c)
{
	struct host_stats *host = c->host_stats;

	if (!host)
		return;
	add(host, &c->queue->counters, c->queue->io);
	check(host->n_queues > 0);
	host->n_queues--;
	c->host_stats = NULL;
	forget_some(c->target);
}

const char *host_stats_label(const struct host_stats *host)
{
	return host->is_rest ? "(others)" : *host->nqn ? host->nqn : "(nameless)";
}

void host_stats_sum(const struct target *target, const struct host_stats *host,
		    struct host_stats *ret_sum)
{
	*ret_sum = *host;
	list_for_each (node, &target->connections) {
		const struct connection *c = list_entry(node, struct connection, node);

		if (c->host_stats == host)
			add(ret_sum, &c->queue->counters, c->queue->io);
	}
}
