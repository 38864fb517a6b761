/* SPDX-License-Identifier: BSD-3-Clause */
/* Making and freeing queues (queue.h). Control thread. */
#pragma once

#include "target/engine/queue.h"

/* In one mapping, with requests and responses for n_entries commands. NULL without memory. */
struct queue *queue_create(struct poller *poller, const struct device *device, uint16_t qid,
			   unsigned n_entries);
/* 0; or -errno, and the queue can only be freed. */
int queue_make_qp(struct queue *queue, struct rdma_cm_id *id, unsigned max_reads);
/* It is over, or was never attached. Not its queue pair: qp_deinit comes before. */
void queue_destroy(struct queue *queue);
