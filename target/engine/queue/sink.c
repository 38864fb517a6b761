/* SPDX-License-Identifier: BSD-3-Clause */
/* See sink.h. */
#include <string.h>

#include "target/engine/poller/poller.h"
#include "target/engine/queue/queue.h"
#include "target/engine/queue/sink.h"
#include "target/engine/record/target.h"

enum {
	FAILURES_BURST = 5,
};

struct domain *sinks_domain(struct queue *queue)
{
	if (queue->sinks.domain.pd)
		return &queue->sinks.domain;
	return &queue->target->devices[queue->pd->device->index].domain;
}

static int say_no_memory(struct queue *queue, int r, size_t n_bytes)
{
	char what[160];
	const char *hint = mr_explain(r, n_bytes, what, sizeof(what));

	if (log_limit_pass(&queue->target->device_failures, FAILURES_BURST))
		log_err("%s: %s%s%s", queue->pd->device->name, what, *hint ? "; " : "", hint);
	return r;
}

/* An admin queue moves no data of namespaces: the small arena is enough. */
static int register_memory(struct queue *queue)
{
	const struct poller *poller = queue->poller;
	char *base = queue->qid == 0 ? poller->admin.base : poller->memory.base;
	size_t n_bytes = poller->memory.n_bytes - (size_t)(base - (char *)poller->memory.base);
	int r = mr_open(&queue->sinks.domain, base, n_bytes, MR_LOCAL, &queue->sinks.memory);

	queue->lkey = queue->sinks.memory.lkey;
	return r < 0 ? say_no_memory(queue, r, n_bytes) : 0;
}

int sinks_open(struct queue *queue)
{
	struct device *device = queue->pd->device;
	int r;

	queue->lkey = queue->pd->mr.lkey;
	if (!device->limits.is_iwarp)
		return 0;
	r = domain_open(device, &queue->sinks.domain);
	return r < 0 ? r : register_memory(queue);
}

void sinks_close(struct queue *queue)
{
	mr_close(&queue->sinks.memory);
	domain_close(&queue->sinks.domain);
}

int sink_open(struct queue *queue, struct sge *sge, struct mr *sink)
{
	int error = mr_open(&queue->sinks.domain, sge->addr, sge->length, MR_SINK, sink);

	if (error == 0) {
		sge->lkey = sink->lkey;
		return 0;
	}
	if (log_limit_pass(&queue->poller->complaints, FAILURES_BURST))
		log_warn("%s: cannot register %u bytes to fetch a host's data: %s",
			 queue->pd->device->name, sge->length, strerror(-error));
	return error;
}
