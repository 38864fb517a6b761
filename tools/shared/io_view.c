/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See io_view.h. The counters of an answer only grow, so the difference of two answers describes
 * the interval. The answers have the histograms, so this holds for quantiles, too.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/histogram.h"
#include "base/output.h"
#include "base/units.h"
#include "tools/shared/answer.h"
#include "tools/shared/io_view.h"
#include "tools/shared/terminal.h"

static const char *const classes[] = {"read", "write", "other"};
static const char *const stages[] = {"receive_ns", "fetch_ns", "backend_ns", "send_ns"};

/* The numbers of one class of commands, in all or in an interval. */
struct numbers {
	struct histogram latency;
	uint64_t n_bytes, n_errors;
	uint64_t n_samples, stage_ns[ARRAY_LEN(stages)];
};

const char *const io_orders[] = {[IO_BY_RATE] = "rate",
				 [IO_BY_BYTES] = "bytes",
				 [IO_BY_P99] = "p99",
				 [IO_BY_NAME] = "name",
				 NULL};

/* ---- an answer ---- */

/* Steps that are zero are left out of the answer. An entry that does not look like a step is
 * skipped. */
static void read_histogram(struct json_object *list, struct histogram *h)
{
	size_t n = json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;

	for (size_t i = 0; i < n; i++) {
		struct json_object *pair = json_object_array_get_idx(list, i);

		if (json_object_is_type(pair, json_type_array) &&
		    json_object_array_length(pair) == 2)
			histogram_add_step(
				h,
				histogram_step(
					json_object_get_uint64(json_object_array_get_idx(pair, 0))),
				json_object_get_uint64(json_object_array_get_idx(pair, 1)));
	}
}

/* A member that is missing reads as 0: an older process may not have it. */
static void read_numbers(struct json_object *item, const char *class, struct numbers *ret_numbers)
{
	struct json_object *o = answer_member(answer_member(item, "io"), class);
	struct json_object *sums = answer_member(o, "stages");

	memset(ret_numbers, 0, sizeof(*ret_numbers));
	read_histogram(answer_member(o, "histogram"), &ret_numbers->latency);
	ret_numbers->latency.sum_ns = answer_number(o, "sum_ns");
	ret_numbers->n_errors = answer_number(o, "errors");
	ret_numbers->n_bytes = !strcmp(class, "read")	 ? answer_number(item, "read_bytes")
			       : !strcmp(class, "write") ? answer_number(item, "written_bytes")
							 : 0;
	ret_numbers->n_samples = answer_number(sums, "samples");
	for (unsigned i = 0; i < ARRAY_LEN(stages); i++)
		ret_numbers->stage_ns[i] = answer_number(sums, stages[i]);
}

/* Subtracts the earlier sample. A counter that is smaller than before started again (a
 * process restarted, the namespace is another one) and stays as it is. */
static void take_away(struct numbers *now, const struct numbers *before)
{
	struct histogram *h = &now->latency;
	const struct histogram *old = &before->latency;
	struct histogram left = {0};

	for (unsigned i = 0; i < ARRAY_LEN(h->counts); i++)
		if (h->counts[i] < old->counts[i])
			return;
	for (unsigned i = 0; i < ARRAY_LEN(h->counts); i++)
		histogram_add_step(&left, i, h->counts[i] - old->counts[i]);
	left.sum_ns = h->sum_ns - MIN(old->sum_ns, h->sum_ns);
	*h = left;
	now->n_errors -= MIN(before->n_errors, now->n_errors);
	now->n_bytes -= MIN(before->n_bytes, now->n_bytes);
	now->n_samples -= MIN(before->n_samples, now->n_samples);
	for (unsigned i = 0; i < ARRAY_LEN(stages); i++)
		now->stage_ns[i] -= MIN(before->stage_ns[i], now->stage_ns[i]);
}

/* ---- tables ---- */

/* A dash: 0 would be the best of latencies. */
static void add_time(struct table *table, bool is_known, uint64_t ns)
{
	char text[UNITS_MAX];

	table_add(table, is_known ? units_format_duration(text, ns) : "-");
}

/* --bytes is for scripts that read the table. */
static void add_size(struct table *table, const struct io_view *view, uint64_t bytes)
{
	char text[UNITS_MAX];

	if (view->wants_bytes)
		table_addf(table, "%" PRIu64, bytes);
	else
		table_add(table, units_format_size(text, bytes));
}

/* A quantile of no sample is unknown, not 0; the stages are sampled, so they may lack alone. */
static void add_numbers(struct table *table, const struct io_view *view, const struct numbers *n,
			uint64_t interval_ns)
{
	static const double quantiles[] = {0.5, 0.99, 0.999};
	const struct histogram *h = &n->latency;

	if (interval_ns) {
		double seconds = (double)interval_ns / (double)NSEC_PER_SEC;

		table_addf(table, "%.0f", (double)h->n / seconds);
		add_size(table, view, (uint64_t)((double)n->n_bytes / seconds));
	} else {
		table_addf(table, "%" PRIu64, h->n);
		add_size(table, view, n->n_bytes);
	}
	table_addf(table, "%" PRIu64, n->n_errors);
	add_time(table, h->n, h->n ? h->sum_ns / h->n : 0);
	for (unsigned i = 0; i < ARRAY_LEN(quantiles); i++)
		add_time(table, h->n, histogram_quantile(h, quantiles[i]));
	for (unsigned i = 0; view->has_stages && i < ARRAY_LEN(stages); i++)
		add_time(table, n->n_samples, n->n_samples ? n->stage_ns[i] / n->n_samples : 0);
}

/* The keys together: a number alone may mean another one after a restart. */
static bool is_same(const struct io_view *view, struct json_object *a, struct json_object *b)
{
	for (unsigned i = 0; i < ARRAY_LEN(view->keys) && view->keys[i]; i++)
		if (strcmp(answer_string(a, view->keys[i]), answer_string(b, view->keys[i])))
			return false;
	return true;
}

/* NULL: it is new since the earlier answer, and counts from zero. */
static struct json_object *find_same(const struct io_view *view, struct json_object *list,
				     struct json_object *item)
{
	for (size_t i = 0; list && i < json_object_array_length(list); i++)
		if (is_same(view, json_object_array_get_idx(list, i), item))
			return json_object_array_get_idx(list, i);
	return NULL;
}

/* One of the list, in all or over the interval. */
struct entry {
	struct json_object *item; /* borrowed */
	struct numbers of[ARRAY_LEN(classes)];
	uint64_t n, n_bytes, p99_ns;
	size_t place;	      /* in the answer, which is sorted by name */
	uint64_t interval_ns; /* 0: since the counters began */
};

/* All three classes: the order of --top counts whatever an entry does. */
static void fill(struct entry *entry, struct json_object *item, struct json_object *before,
		 size_t place)
{
	*entry = (struct entry){.item = item, .place = place};
	for (unsigned i = 0; i < ARRAY_LEN(classes); i++) {
		struct numbers *now = &entry->of[i], old;

		read_numbers(item, classes[i], now);
		if (before) {
			read_numbers(before, classes[i], &old);
			take_away(now, &old);
		}
		entry->n += now->latency.n;
		entry->n_bytes += now->n_bytes;
		entry->p99_ns = MAX(entry->p99_ns,
				    now->latency.n ? histogram_quantile(&now->latency, 0.99) : 0);
	}
}

/* qsort takes no context. */
static unsigned sorted_by; /* enum io_order */

static uint64_t key_of(const struct entry *entry)
{
	switch ((enum io_order)sorted_by) {
	case IO_BY_RATE:
		return entry->n;
	case IO_BY_BYTES:
		return entry->n_bytes;
	case IO_BY_P99:
		return entry->p99_ns;
	case IO_BY_NAME:
		break;
	}
	return 0;
}

/* The most first; equal ones as the answer has them. */
static int compare(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (key_of(x) != key_of(y))
		return key_of(x) < key_of(y) ? 1 : -1;
	return x->place < y->place ? -1 : x->place > y->place;
}

/* A line for each class that has counts; one of dashes if none has. */
static void add_entry(struct table *table, const struct io_view *view, const struct entry *entry)
{
	for (unsigned i = 0; i < ARRAY_LEN(classes); i++) {
		if (!entry->of[i].latency.n)
			continue;
		view->add_name(view, table, entry->item);
		table_add(table, classes[i]);
		add_numbers(table, view, &entry->of[i], entry->interval_ns);
	}
	if (entry->n)
		return;
	view->add_name(view, table, entry->item);
	table_add(table, "-");
	add_numbers(table, view, &(struct numbers){0}, entry->interval_ns);
}

/* Processes answer one after the other, so each item may have a time of its own. A process that is
 * new has no earlier item: its counters began in the interval, which is that of the whole answer.
 * */
static uint64_t interval_of(struct json_object *answer, struct json_object *before,
			    struct json_object *item, struct json_object *item_before)
{
	bool is_own = answer_member(item, "time_ns") && answer_member(item_before, "time_ns");
	uint64_t end = answer_number(is_own ? item : answer, "time_ns");
	uint64_t begin = answer_number(is_own ? item_before : before, "time_ns");

	if (!before)
		return 0;
	return end > begin ? end - begin : 1;
}

/* Owned by the caller; NULL if there are none. */
static struct entry *collect(const struct io_view *view, struct json_object *answer,
			     struct json_object *before, size_t *ret_n)
{
	struct json_object *list = answer_member(answer, view->what);
	struct json_object *old = answer_member(before, view->what);
	size_t n = list ? json_object_array_length(list) : 0;
	struct entry *entries = n ? calloc(n, sizeof(*entries)) : NULL;

	*ret_n = entries ? n : 0;
	for (size_t i = 0; entries && i < n; i++) {
		struct json_object *item = json_object_array_get_idx(list, i);

		fill(&entries[i], item, find_same(view, old, item), i);
		entries[i].interval_ns = interval_of(answer, before, item,
						     find_same(view, old, item));
	}
	sorted_by = view->order;
	if (entries && before)
		qsort(entries, n, sizeof(*entries), compare);
	return entries;
}

/* With before, the earlier answer: the changes since; on a terminal without idle rows. */
static void print_table(const struct io_view *view, struct json_object *answer,
			struct json_object *before)
{
	bool hides_idle = before && !view->wants_idle && isatty(STDOUT_FILENO);
	size_t n, n_idle = 0;
	_autofree_ struct entry *entries = collect(view, answer, before, &n);
	struct table table;

	table_begin(&table, before ? view->top_titles : view->titles);
	for (size_t i = 0; i < n; i++) {
		if (hides_idle && !entries[i].n)
			n_idle++;
		else
			add_entry(&table, view, &entries[i]);
	}
	table_end(&table);
	if (n_idle)
		printf("%zu idle (--idle shows %s)\n", n_idle, n_idle == 1 ? "it" : "them");
}

/* ---- once, or periodically ---- */

int io_view_once(const struct io_view *view, bool is_json)
{
	struct json_object *answer;
	int r = view->ask(view->context, &answer);

	if (r != EXIT_OK)
		return r;
	if (is_json)
		output_json(answer);
	else
		print_table(view, answer, NULL);
	json_object_put(answer);
	return EXIT_OK;
}

/* Over what the terminal shows: home, each line to its end, and clear what is below. */
static void start_screen(bool is_terminal, bool is_first)
{
	if (is_terminal)
		fputs("\033[H\033[J", stdout);
	else if (!is_first)
		putchar('\n');
}

static bool wants_to_end(int key)
{
	return key == 'q' || key == 'Q' || key == TERMINAL_ENDED;
}

/* One sample more than tables: the first only serves to be subtracted. */
int io_view_top(const struct io_view *view)
{
	bool is_terminal = isatty(STDOUT_FILENO);
	struct json_object *before = NULL, *answer;
	int r = view->ask(view->context, &before);

	if (is_terminal)
		terminal_begin();
	for (uint64_t i = 0; r == EXIT_OK && (!view->n_looks || i < view->n_looks); i++) {
		if (wants_to_end(terminal_wait(view->interval_ns)))
			break;
		r = view->ask(view->context, &answer);
		if (r != EXIT_OK)
			break;
		start_screen(is_terminal, i == 0);
		print_table(view, answer, before);
		if (fflush(stdout) != 0)
			r = EXIT_FAILED; /* the reader has gone */
		json_object_put(before);
		before = answer;
	}
	terminal_end();
	json_object_put(before);
	return r;
}
