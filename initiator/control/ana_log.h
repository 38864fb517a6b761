/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asymmetric Namespace Access (Base 2.0, 8.1) as a host uses it: the state of its namespace on this
 * path, from log page 0Ch.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/wire/nvme.h"

struct controller;

enum {
	/* Of 4 KiB, all attempts together: a page with more groups, or that does not stop changing,
	 * is rejected. */
	ANA_LOG_READS_MAX = 64,
};

/* A walk through the page, piece by piece. */
struct ana_cursor {
	uint32_t group;	       /* wanted */
	uint64_t at;	       /* where the next piece begins; 0: with the header */
	unsigned n_left;       /* descriptors */
	uint64_t change_count; /* from the header */
	unsigned state;	       /* enum nvme_ana_state, once found; 0: it has none that is known */
};

enum ana_walk {
	ANA_WALK_FOUND,
	ANA_WALK_MORE, /* read from cursor->at on */
	ANA_WALK_END,  /* the group is not there */
};

/* In a controller. Thread: control. */
struct ana_log {
	struct ana_cursor cursor;
	unsigned n_reads;
	unsigned state_before;
	void (*done)(struct controller *c);
};

/* Reads the page for the group of c->ns into c->ana_state, 0 if it is unknown; then done, not
 * from inside. Unmasks the event. done is not called if the association is lost before. */
void ana_log_read(struct controller *c, void (*done)(struct controller *c));

/* The target does not serve I/O on this path for now. */
static inline bool ana_must_wait(unsigned state)
{
	return state == NVME_ANA_STATE_INACCESSIBLE || state == NVME_ANA_STATE_CHANGE;
}
