/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sinks of RDMA READs: the only memory of the target that is ever remotely accessible. On iWARP the
 * data of an RDMA READ travels to a key that the peer can also RDMA WRITE to (RFC 5040, 5.2). So on
 * iWARP a queue has a protection domain of its own, which reaches no other queue's memory. Each
 * READ has a key of its own for the bytes that it brings, and the key is gone before rblkd looks at
 * them. All other memory is registered without remote rights. Other devices need no sinks and have
 * none.
 */
#pragma once

struct domain;
struct mr;
struct queue;
struct sge;

/* Control. Before the queue pair is created; sets queue->lkey. 0 or -errno (logged). */
int sinks_open(struct queue *queue);
/* Control, once the queue pair is gone. Accepts what was never opened. */
void sinks_close(struct queue *queue);
/* The domain for the queue's queue pair. */
struct domain *sinks_domain(struct queue *queue);

/* Poller. Makes a key for the data of a READ of the queue, in sge->lkey. The caller closes *sink
 * when the READ has completed or was flushed. 0 or -errno (logged). */
int sink_open(struct queue *queue, struct sge *sge, struct mr *sink);
