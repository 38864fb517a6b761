/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which flow is next under a rate: start-time fair queueing. Each flow has a tag, which moves on by
 * what its commands cost, as time of the rate; the flow with the lowest is next. So flows share
 * bytes where bytes are what is short and commands where these are, whatever their depth and the
 * size of their commands.
 *
 * Pollers have a line each and keep the order together: a line whose first is ahead of another
 * line's first takes nothing from the bucket until that one has caught up, up to a batch. A flow
 * that comes back soon goes on where it was (struct flow_past): leaving the line is no way to be
 * served twice. Pure but for its atomics; the clock is the caller's.
 */
#pragma once

#include "base/list.h"
#include "target/export/qos/bucket.h"
#include "target/export/qos/fair.h"

enum {
	LINES_MAX = 8, /* one a poller */
	PASTS = 8,     /* rates that a flow is remembered at */
};

/* Others wait, and know how long. */
#define LINE_IS_LONG UINT64_MAX

/* A rate, and what lines share. */
struct rate {
	/* Thread: any */
	struct bucket bucket;
	_Atomic uint64_t id;	 /* another after each change: tags are time of one rate */
	_Atomic uint64_t served; /* the highest tag that was served */
	_Atomic uint64_t first[LINES_MAX]; /* each line's lowest tag; UINT64_MAX: it is empty */
};

struct line {
	/* Thread: its poller */
	_Alignas(64) struct list node; /* poller->throttled, while it is not empty */
	struct fair waiters;
	struct purse purse;
	struct rate *rate;
	unsigned index; /* its poller's */
	uint64_t id;	/* rate->id that its tags are of */
};

/* Where a flow was in lines that it left. Zeroed: nowhere. Thread: its poller */
struct flow_past {
	struct {
		uint64_t id, tag;
	} at[PASTS];
	unsigned n_forgotten;
};

/* Control. Without limit, no command waits. lines: LINES_MAX of them, a poller each. */
void rate_init(struct rate *rate, struct line *lines);
/* Control. From now on so many tokens a second, at most 10^12; 0: no limit. */
void rate_set(struct rate *rate, uint64_t n, uint64_t burst_ns, uint64_t now_ns);

/* One that comes just now pays for so many tokens (at most 2^32), unless others are before it. past
 * is that of its flow. 0: it has paid. Else how long to wait before the first of the line tries. */
uint64_t line_pay_at_once(struct line *line, struct flow_past *past, uint64_t n_tokens,
			  uint64_t now_ns);
/* The first of a line that is not empty pays, and leaves it; the same. */
uint64_t line_pay_first(struct line *line, struct flow_past *past, uint64_t n_tokens,
			uint64_t now_ns);
/* Comes into the line, as the last of its flow. */
void line_add(struct line *line, struct fair_entry *entry, const void *flow,
	      const struct flow_past *past);
/* Leaves it before its turn. */
void line_leave(struct line *line, struct fair_entry *entry);
