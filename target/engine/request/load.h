/* SPDX-License-Identifier: BSD-3-Clause */
/* How much of what others need a queue has at the moment, and for how long. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct queue;

struct load {
	unsigned n_commands;  /* received and not answered; AERs, which wait for events, aside */
	uint64_t oldest_ns;   /* how long the oldest of them is here */
	size_t buffer_bytes;  /* of the poller's memory */
	uint64_t takes_no_ns; /* how long its host has not taken the data of a response */
};

/* Poller of the queue, or control when the queue is over. */
void load_measure(const struct queue *queue, struct load *ret_load);
