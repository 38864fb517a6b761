/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is remotely accessible of the target, which is little. On iWARP the data of an RDMA READ
 * travels to a key that the peer may as well RDMA WRITE to (RFC 5040, 5.2). So there a queue has a
 * protection domain of its own, in which no other queue's memory can be reached, and each READ has
 * a key of its own, for the bytes that it brings: it is gone before these are looked at. All else
 * is registered without any remote right. Other devices need none of this, and have none of it.
 */
#pragma once

#include "transport/device.h"

struct queue;
struct request;
struct sge;

/* Of a queue. */
struct sinks {
	/* Thread: control makes and frees; in between its poller */
	struct domain domain; /* pd is NULL where it has none of its own */
	struct mr memory;     /* its poller's, without remote rights */
};

/* Control. Before the queue pair is made; sets queue->lkey. 0 or -errno (said). */
int sinks_open(struct queue *queue);
/* Control, when the queue pair is gone. Accepts what was never opened. */
void sinks_close(struct queue *queue);
/* The domain of the queue's queue pair. */
struct domain *sinks_domain(struct queue *queue);

/* Poller. A key for what this READ brings, into sge->lkey. 0 or -errno (said). */
int sink_open(struct request *r, struct sge *sge);
/* Poller. The READ is over, or was flushed; accepts that there is no key. */
void sink_close(struct request *r);
