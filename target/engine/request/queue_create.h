/* SPDX-License-Identifier: BSD-3-Clause */
/* Creates and frees queues (queue.h). Control thread. */
#pragma once

#include <stdint.h>

struct device;
struct poller;
struct queue;
struct rdma_cm_id;

/* In one mapping, with requests and responses for n_entries commands. NULL without memory. */
struct queue *queue_create(struct poller *poller, const struct device *device, uint16_t qid,
			   unsigned n_entries);
/* 0; or -errno, and the queue can only be freed. */
int queue_make_qp(struct queue *queue, struct rdma_cm_id *id, unsigned max_reads);
/* For a queue that is over or was never attached. The caller calls qp_deinit first. */
void queue_destroy(struct queue *queue);
