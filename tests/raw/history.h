/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A history: what several hosts did and saw at once, with a number for the begin and the end of
 * each operation, and its judge. Hosts are processes that share the history; one judges it
 * afterwards.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	HISTORY_HOSTS = 4,
	HISTORY_BLOCKS = 8,
	/* Under the reservation; then the reservation itself: its holder has SEEN a generation. */
	HISTORY_FENCED = HISTORY_BLOCKS,
	HISTORY_RESERVATION,
	HISTORY_PLACES,
};

enum outcome {
	NOTHING, /* it did not take place */
	SEEN,	 /* value was read */
	WRITTEN, /* value took the place of old */
	UNKNOWN, /* the same, or nothing: the connection was lost */
};

struct op {
	uint32_t begin,
		end; /* numbers of the clock, from 1; 0: it was not begun, or not finished */
	uint32_t block;
	uint32_t old, value;
	uint8_t outcome; /* enum outcome */
	bool is_plain;	 /* a Write alone: old means nothing */
};

struct history {
	_Atomic uint32_t clock;
	uint32_t n_each, n[HISTORY_HOSTS];
	struct op ops[]; /* n_each of each host */
};

/*
 * Each block was a register, 0 at first, and the operation at index i wrote value i + 1. Fails the
 * test, after at most O(n log n), if the operations cannot have taken place one after the other.
 */
void history_judge_registers(const struct history *history);
/* The values of HISTORY_FENCED were generations, less than n_values: fails the test if a younger
 * one was read, or was held, before an operation with an older one began. */
void history_judge_generations(const struct history *history, uint32_t n_values);
