/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counts, rates and latencies of commands as tables, for the stats of rblk and of rblkctl: once, or
 * periodically as changes since the sample before. Thread: main.
 */
#pragma once

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

#include "tools/shared/table.h"

enum io_order {
	IO_BY_RATE,
	IO_BY_BYTES,
	IO_BY_P99,
	IO_BY_NAME,
};
extern const char *const io_orders[]; /* their names, NULL at the end */

/* The titles of all columns behind the name and the operation, without and with stages. */
#define IO_TITLES_TIMES	 ">ERRORS", "?>MEAN", ">P50", ">P99", "?>P99.9"
#define IO_TITLES_STAGES IO_TITLES_TIMES, "?>RECEIVE", "?>FETCH", "?>BACKEND", "?>SEND"

/* The list that is shown, and how. All of it is the caller's. */
struct io_view {
	const char *what;    /* the member of the answer that lists the items */
	const char *keys[3]; /* members of an item that name it, together */
	const char *const *titles, *const *top_titles;
	bool has_stages; /* the titles have them */
	/* Adds the cells in front of the operation's. */
	void (*add_name)(const struct io_view *view, struct table *table, struct json_object *item);
	/* Blocks for an answer, which io_view_* put; EXIT_OK, or an exit code, and it is reported.
	 * */
	int (*ask)(void *context, struct json_object **ret_answer);
	void *context;
	bool wants_bytes, wants_idle;
	unsigned order;		       /* enum io_order, of io_view_top */
	uint64_t interval_ns, n_looks; /* of io_view_top; n_looks 0: until q */
};

/* Shows the counters since the processes were started. Returns an exit code. */
int io_view_once(const struct io_view *view, bool is_json);
/* Samples, and shows the changes, until q is pressed or n_looks is reached. Returns an exit code.
 * */
int io_view_top(const struct io_view *view);
