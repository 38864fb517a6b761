/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The connections of a process, and which of them a MAD belongs to. A connection counts only for
 * MADs between its own two addresses. Pure, and not thread safe: one lock of the caller's guards
 * it. The caller owns the entries, and removes them before it frees them.
 */
#pragma once

#include "softrdma/cm/ib_cm.h"

enum {
	IB_CM_BY_LOCAL_ID,
	IB_CM_BY_REMOTE_ID,
	IB_CM_BY_REMOTE_QPN,
	IB_CM_N_INDEXES,
	IB_CM_N_BUCKETS = 256,
};

struct ib_cm_ends {
	uint8_t local[16], remote[16]; /* GIDs, whichever way a MAD goes */
};

struct ib_cm_entry {
	struct ib_cm cm;
	struct ib_cm_ends ends;
	struct {
		struct ib_cm_entry *next, **link; /* link != NULL: listed */
		uint32_t key;
	} chains[IB_CM_N_INDEXES];
};

struct ib_cm_table {
	struct ib_cm_entry *heads[IB_CM_N_INDEXES][IB_CM_N_BUCKETS];
	unsigned n;
};

/* Lists the entry under what is known by now: its own id; the peer's id and queue pair. Again,
 * after the REP has told the latter. */
void ib_cm_table_add(struct ib_cm_table *t, struct ib_cm_entry *e);
void ib_cm_table_remove(struct ib_cm_table *t, struct ib_cm_entry *e);
/* The connection with that id of this side, or NULL. */
struct ib_cm_entry *ib_cm_table_by_id(const struct ib_cm_table *t, uint32_t local_id);
/* A communication id from 32 random bits, in the class that (mask, value) demand of its first byte:
 * 0 if it is in use, or 0 itself, and the caller tries other bits. */
uint32_t ib_cm_table_id(const struct ib_cm_table *t, uint32_t random, uint8_t mask, uint8_t value);
/* The connection that m belongs to, or NULL. For a REQ: the one that an earlier copy of it made. */
struct ib_cm_entry *ib_cm_table_find(const struct ib_cm_table *t, const struct ib_cm_ends *ends,
				     const struct mad *m);
/*
 * A connection other than `but` that is alive here on the peer's queue pair that a REQ or REP
 * names: it is stale, because a queue pair has one connection. One in timewait does not count:
 * packets of its past go to a queue pair of this side that the new connection does not use.
 */
struct ib_cm_entry *ib_cm_table_stale(const struct ib_cm_table *t, const struct ib_cm_ends *ends,
				      const struct mad *m, const struct ib_cm_entry *but);
