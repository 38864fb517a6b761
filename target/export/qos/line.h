/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chooses the next flow under a rate: start-time fair queueing. Each flow has a tag, which grows by
 * what its commands cost, as time of the rate. The flow with the lowest tag is next. So flows share
 * bytes where bytes are short and commands where commands are short, whatever their depth and the
 * size of their commands.
 *
 * Each poller has a line, and the lines keep the order together: a line whose first flow is ahead
 * of another line's takes nothing from the bucket until that one has caught up, up to a batch. A
 * flow that returns soon continues from its tag (struct flow_past), so leaving a line gains
 * nothing. Pure except for its atomics; the caller provides the time.
 */
#pragma once

#include "base/list.h"
#include "target/export/qos/bucket.h"
#include "target/export/qos/fair.h"
#include "target/store/limits.h"

enum {
	PASTS = 8, /* rates that a flow has tags for */
};

/* Others wait, and know how long. */
#define LINE_IS_LONG UINT64_MAX

/* A rate, and what its lines share. */
struct rate {
	/* Thread: any */
	struct bucket bucket;
	_Atomic uint64_t id;	 /* changes with the rate: a tag counts time of one rate */
	_Atomic uint64_t served; /* the highest tag served so far */
	/* the lowest tag of each line; UINT64_MAX: it is empty */
	_Atomic uint64_t first[POLLERS_MAX];
};

struct line {
	/* Thread: its poller */
	_Alignas(64) struct list node; /* poller->throttled, while it is not empty */
	struct fair waiters;
	struct purse purse;
	struct rate *rate;
	unsigned index; /* index of its poller */
	uint64_t id;	/* the rate->id of its tags */
};

/* The tags of a flow in lines that it has left. Zeroed: none. Thread: its poller */
struct flow_past {
	struct {
		uint64_t id, tag;
	} at[PASTS];
	unsigned n_forgotten;
};

/* Control. No limit yet. lines: POLLERS_MAX of them, one for each poller. */
void rate_init(struct rate *rate, struct line *lines);
/* Control. From now on n tokens a second, at most BUCKET_RATE_MAX; 0: no limit. */
void rate_set(struct rate *rate, uint64_t n, uint64_t burst_ns, uint64_t now_ns);

/* For an entry that is not in the line yet: pays for tokens (at most 2^32), unless others go first.
 * past is that of its flow. 0: paid. Otherwise the time until the first of the line tries. */
uint64_t line_pay_at_once(struct line *line, struct flow_past *past, uint64_t n_tokens,
			  uint64_t now_ns);
/* The first entry of a line that is not empty pays, and leaves the line. Returns the same. */
uint64_t line_pay_first(struct line *line, struct flow_past *past, uint64_t n_tokens,
			uint64_t now_ns);
/* Adds the entry as the last of its flow. */
void line_add(struct line *line, struct fair_entry *entry, const void *flow,
	      const struct flow_past *past);
/* Removes the entry before its turn. */
void line_leave(struct line *line, struct fair_entry *entry);
