/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asymmetric Namespace Access (Base 2.0, 8.1) as a host sees it: in which state its namespace is on
 * this path, as log page 0Ch tells.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/wire/nvme.h"

struct controller;

enum {
	ANA_LOG_READS_MAX = 64, /* of 4 KiB: a page with more groups is not believed */
};

/* A walk through the page, piece by piece. */
struct ana_cursor {
	uint32_t group;	 /* wanted */
	uint64_t at;	 /* where the next piece begins; 0: with the header */
	unsigned n_left; /* descriptors */
	unsigned state;	 /* enum nvme_ana_state, once found; 0: it has none that is known */
};

enum ana_walk {
	ANA_WALK_FOUND,
	ANA_WALK_MORE, /* read from cursor->at on */
	ANA_WALK_END,  /* the group is not there */
};

/* Pure; nothing of the page is trusted. data: n bytes of it from cursor->at on, 64 or more. */
enum ana_walk ana_log_walk(struct ana_cursor *cursor, const void *data, size_t n);

/* In a controller. Thread: control. */
struct ana_log {
	struct ana_cursor cursor;
	unsigned n_reads;
	unsigned state_before;
	void (*done)(struct controller *c);
};

/* Reads the page for the group of c->ns into c->ana_state, which is 0 when it cannot be told; then
 * done, not from inside. Unmasks the event. Not called when the association is lost before. */
void ana_log_read(struct controller *c, void (*done)(struct controller *c));

/* I/O is not served on this path for now. */
static inline bool ana_must_wait(unsigned state)
{
	return state == NVME_ANA_STATE_INACCESSIBLE || state == NVME_ANA_STATE_CHANGE;
}
