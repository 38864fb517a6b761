/* SPDX-License-Identifier: BSD-3-Clause */
/* Responses on their way. Everything here runs on the queue's poller. */
#pragma once

#include "target/request.h"

/* What is left of a request once its response is posted: the device still reads from
 * here. */
struct response {
	/* Thread: poller */
	struct queue *queue;
	struct list node; /* queue->free_responses; with a buffer, poller->sending */
	struct work send_work;
	struct nvme_cqe *cqe; /* inline_cqe, or registered memory */
	struct nvme_cqe inline_cqe;
	struct buffer buffer; /* owned: data of a read on its way */
	uint64_t posted_ns;   /* when that began */
	uint64_t timed_from;  /* ticks at that time, of a sampled Read; else 0 */
	struct namespace *ns; /* its data is on its way */
	struct pass pass;     /* so is it still inside */
};

/* Slots that its response takes: 2 with data to the host, else 1. */
unsigned response_n_slots(const struct request *r);
/* Slots are there. Takes over the buffer and, for direct data, the namespace. */
void response_post(struct request *r);
