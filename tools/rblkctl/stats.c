/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rblkctl stats: counts, bytes and latency of commands, by namespace, host or queue.
 *
 * Without --top, since rblkd was started. With --top, periodically, the changes since the sample
 * before: the counters of rblkd only grow, so the difference of two answers describes the interval.
 * The answers have the histograms, so this holds for quantiles, too.
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
#include "tools/rblkctl/rblkctl.h"
#include "tools/rblkctl/terminal.h"

static const char *const classes[] = {"read", "write", "other"};
static const char *const stages[] = {"receive_ns", "fetch_ns", "backend_ns", "send_ns"};

/* Of one class of commands, in all or in an interval. */
struct numbers {
	struct histogram latency;
	uint64_t n_bytes, n_errors;
	uint64_t n_samples, stage_ns[ARRAY_LEN(stages)];
};

enum order {
	BY_RATE,
	BY_BYTES,
	BY_P99,
	BY_NAME,
};

static const char *const orders[] = {
	[BY_RATE] = "rate", [BY_BYTES] = "bytes", [BY_P99] = "p99", [BY_NAME] = "name", NULL};

static struct {
	bool is_hosts, is_queues, is_top, wants_idle;
	unsigned order; /* enum order, of --top */
	uint64_t interval_ns, n_looks;
} args;

/* ---- an answer ------------------------------------------------------------------------------ */

/* Steps that are zero are left out of the answer. What does not look like a step is skipped. */
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

/* A member that is missing reads as 0: an older rblkd may not have it. */
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

/* Subtracts the earlier sample. A counter that is smaller than before started again (rblkd
 * restarted, the namespace is another one) and stays as it is. */
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

/* ---- tables --------------------------------------------------------------------------------- */

#define IO_TITLES                                                                                  \
	">ERRORS", "?>MEAN", ">P50", ">P99", "?>P99.9", "?>RECEIVE", "?>FETCH", "?>BACKEND",       \
		"?>SEND", NULL

static const struct kind {
	const char *what;
	const char *keys[3]; /* that name one, together */
	const char *const *titles, *const *top_titles;
} kinds[] = {
	{"namespaces",
	 {"subsystem", "nsid"},
	 (const char *const[]){"~NAMESPACE", "OP", ">COUNT", ">BYTES", IO_TITLES},
	 (const char *const[]){"~NAMESPACE", "OP", ">IOPS", ">BYTES/S", IO_TITLES}},
	{"hosts",
	 {"host"},
	 (const char *const[]){"~HOST", "OP", ">COUNT", ">BYTES", IO_TITLES},
	 (const char *const[]){"~HOST", "OP", ">IOPS", ">BYTES/S", IO_TITLES}},
	{"queues",
	 {"controller", "queue", "address"},
	 (const char *const[]){"QUEUE", "~HOST", "OP", ">COUNT", ">BYTES", IO_TITLES},
	 (const char *const[]){"QUEUE", "~HOST", "OP", ">IOPS", ">BYTES/S", IO_TITLES}},
};

/* check_usage has made sure that at most one is chosen. */
static const struct kind *chosen_kind(void)
{
	return &kinds[args.is_hosts ? 1 : args.is_queues ? 2 : 0];
}

static void add_name(struct table *table, const struct kind *kind, struct json_object *item)
{
	const char *host = answer_string(item,
					 answer_member(item, "host_name") ? "host_name" : "host");

	if (kind == &kinds[0]) {
		table_addf(table, "%s/%" PRIu64, answer_string(item, "subsystem"),
			   answer_number(item, "nsid"));
	} else if (kind == &kinds[1]) {
		table_add(table, host);
	} else {
		table_addf(table, "%" PRIu64 "/%" PRIu64, answer_number(item, "controller"),
			   answer_number(item, "queue"));
		table_add(table, host);
	}
}

/* A dash: 0 would be the best of latencies. */
static void add_time(struct table *table, bool is_known, uint64_t ns)
{
	char text[UNITS_MAX];

	table_add(table, is_known ? units_format_duration(text, ns) : "-");
}

/* A quantile of no sample is unknown, not 0; the stages are sampled, so they may lack alone. */
static void add_numbers(struct table *table, const struct options *options, const struct numbers *n,
			uint64_t interval_ns)
{
	static const double quantiles[] = {0.5, 0.99, 0.999};
	const struct histogram *h = &n->latency;

	if (interval_ns) {
		double seconds = (double)interval_ns / (double)NSEC_PER_SEC;

		table_addf(table, "%.0f", (double)h->n / seconds);
		table_add_size(table, options, (uint64_t)((double)n->n_bytes / seconds));
	} else {
		table_addf(table, "%" PRIu64, h->n);
		table_add_size(table, options, n->n_bytes);
	}
	table_addf(table, "%" PRIu64, n->n_errors);
	add_time(table, h->n, h->n ? h->sum_ns / h->n : 0);
	for (unsigned i = 0; i < ARRAY_LEN(quantiles); i++)
		add_time(table, h->n, histogram_quantile(h, quantiles[i]));
	for (unsigned i = 0; i < ARRAY_LEN(stages); i++)
		add_time(table, n->n_samples, n->n_samples ? n->stage_ns[i] / n->n_samples : 0);
}

/* The keys of the kind, together: controllers are numbered anew after a restart of rblkd. */
static bool is_same(const struct kind *kind, struct json_object *a, struct json_object *b)
{
	for (unsigned i = 0; i < ARRAY_LEN(kind->keys) && kind->keys[i]; i++)
		if (strcmp(answer_string(a, kind->keys[i]), answer_string(b, kind->keys[i])))
			return false;
	return true;
}

/* NULL: it is new since the earlier answer, and counts from zero. */
static struct json_object *find_same(const struct kind *kind, struct json_object *list,
				     struct json_object *item)
{
	for (size_t i = 0; list && i < json_object_array_length(list); i++)
		if (is_same(kind, json_object_array_get_idx(list, i), item))
			return json_object_array_get_idx(list, i);
	return NULL;
}

/* One of the list, in all or over the interval. */
struct entry {
	struct json_object *item; /* borrowed */
	struct numbers of[ARRAY_LEN(classes)];
	uint64_t n, n_bytes, p99_ns;
	size_t place; /* in rblkd's answer, which is sorted by name */
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

static uint64_t key_of(const struct entry *entry)
{
	switch ((enum order)args.order) {
	case BY_RATE:
		return entry->n;
	case BY_BYTES:
		return entry->n_bytes;
	case BY_P99:
		return entry->p99_ns;
	case BY_NAME:
		break;
	}
	return 0;
}

/* The most first; equal ones as rblkd has them. */
static int compare(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (key_of(x) != key_of(y))
		return key_of(x) < key_of(y) ? 1 : -1;
	return x->place < y->place ? -1 : x->place > y->place;
}

/* A line for each class that has counts; one of dashes if none has. */
static void add_entry(struct table *table, const struct kind *kind, const struct options *options,
		      const struct entry *entry, uint64_t interval_ns)
{
	for (unsigned i = 0; i < ARRAY_LEN(classes); i++) {
		if (!entry->of[i].latency.n)
			continue;
		add_name(table, kind, entry->item);
		table_add(table, classes[i]);
		add_numbers(table, options, &entry->of[i], interval_ns);
	}
	if (entry->n)
		return;
	add_name(table, kind, entry->item);
	table_add(table, "-");
	add_numbers(table, options, &(struct numbers){0}, interval_ns);
}

/* Owned by the caller; NULL if there are none. */
static struct entry *collect(const struct kind *kind, struct json_object *answer,
			     struct json_object *before, size_t *ret_n)
{
	struct json_object *list = answer_member(answer, kind->what);
	struct json_object *old = answer_member(before, kind->what);
	size_t n = list ? json_object_array_length(list) : 0;
	struct entry *entries = n ? calloc(n, sizeof(*entries)) : NULL;

	*ret_n = entries ? n : 0;
	for (size_t i = 0; entries && i < n; i++) {
		struct json_object *item = json_object_array_get_idx(list, i);

		fill(&entries[i], item, find_same(kind, old, item), i);
	}
	if (entries && before)
		qsort(entries, n, sizeof(*entries), compare);
	return entries;
}

/* With before, the earlier answer: the changes since; on a terminal without idle rows. */
static void print_table(const struct options *options, struct json_object *answer,
			struct json_object *before)
{
	const struct kind *kind = chosen_kind();
	uint64_t interval_ns = before ? answer_number(answer, "time_ns") -
						answer_number(before, "time_ns")
				      : 0;
	bool hides_idle = before && !args.wants_idle && isatty(STDOUT_FILENO);
	size_t n, n_idle = 0;
	_autofree_ struct entry *entries = collect(kind, answer, before, &n);
	struct table table;

	table_begin(&table, before ? kind->top_titles : kind->titles);
	for (size_t i = 0; i < n; i++) {
		if (hides_idle && !entries[i].n)
			n_idle++;
		else
			add_entry(&table, kind, options, &entries[i], interval_ns);
	}
	table_end(&table);
	if (n_idle)
		printf("%zu idle (--idle shows %s)\n", n_idle, n_idle == 1 ? "it" : "them");
}

/* ---- once, or periodically ------------------------------------------------------------------ */

/* rblkd selects by name, so a single namespace costs a small answer. */
static int ask(const struct options *options, const char *name, struct json_object **ret_answer)
{
	struct json_object *params = json_object_new_object();

	json_object_object_add(params, "what", json_object_new_string(chosen_kind()->what));
	if (name)
		json_object_object_add(params, "name", json_object_new_string(name));
	return client_call(options, "stats", params, ret_answer);
}

static int look_once(const struct options *options, const char *name)
{
	struct json_object *answer;
	int r = ask(options, name, &answer);

	if (r != EXIT_OK)
		return r;
	if (options->output == OUTPUT_JSON)
		output_json(answer);
	else
		print_table(options, answer, NULL);
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
static int look_again_and_again(const struct options *options, const char *name)
{
	bool is_terminal = isatty(STDOUT_FILENO);
	struct json_object *before = NULL, *answer;
	int r = ask(options, name, &before);

	if (is_terminal)
		terminal_begin();
	for (uint64_t i = 0; r == EXIT_OK && (!args.n_looks || i < args.n_looks); i++) {
		if (wants_to_end(terminal_wait(args.interval_ns)))
			break;
		r = ask(options, name, &answer);
		if (r != EXIT_OK)
			break;
		start_screen(is_terminal, i == 0);
		print_table(options, answer, before);
		if (fflush(stdout) != 0)
			r = EXIT_FAILED; /* the reader has gone */
		json_object_put(before);
		before = answer;
	}
	terminal_end();
	json_object_put(before);
	return r;
}

/* Options that would be ignored are refused, because the user expects something of them. */
static int check_usage(const struct options *options, const char *name)
{
	static const char program[] = "rblkctl stats";

	if (args.is_hosts && args.is_queues)
		return fail_with(program, EXIT_USAGE, NULL,
				 "--hosts and --queues exclude each other");
	if (name && (args.is_hosts || args.is_queues))
		return fail_with(program, EXIT_USAGE, NULL,
				 "a namespace cannot be chosen with --%s",
				 args.is_hosts ? "hosts" : "queues");
	if (args.is_top && options->output == OUTPUT_JSON)
		return fail_with(program, EXIT_USAGE, NULL,
				 "--top shows tables; scripts ask for -o json twice and subtract");
	if (!args.is_top &&
	    (args.interval_ns || args.n_looks || args.order != BY_RATE || args.wants_idle))
		return fail_with(program, EXIT_USAGE, NULL,
				 "--interval, --count, --sort and --idle need --top");
	return EXIT_OK;
}

/* The defaults of --top are set late, so that check_usage sees what the user has given. */
int run_stats(int argc, char **argv)
{
	static const struct args_usage usage = {
		.program = "rblkctl stats",
		.positional = "[NQN[/NSID]]",
		.summary = "Show I/O counts, rates and latency by namespace.",
		.max_positional = 1,
	};
	static const struct arg more[] = {
		{"hosts", 0, ARG_FLAG, &args.is_hosts, NULL, "by host"},
		{"queues", 0, ARG_FLAG, &args.is_queues, NULL, "by queue"},
		{"top", 0, ARG_FLAG, &args.is_top, NULL,
		 "refresh periodically until q is pressed, showing changes since the last sample"},
		{"interval", 'i', ARG_DURATION, &args.interval_ns, "TIME",
		 "time between two samples of --top (default: 1s)", .min = 100 * NSEC_PER_MSEC,
		 .max = 3600 * NSEC_PER_SEC},
		{"count", 'n', ARG_UINT, &args.n_looks, "N", "stop --top after N samples", .min = 1,
		 .max = UINT32_MAX},
		{"sort", 0, ARG_CHOICE, &args.order, "rate|bytes|p99|name",
		 "order of --top (default: rate)", .choices = orders},
		{"idle", 0, ARG_FLAG, &args.wants_idle, NULL, "with --top, also show idle rows"},
	};
	struct options options;
	const char *name;
	int first,
		r = options_parse_with(&usage, more, ARRAY_LEN(more), argc, argv, &options, &first);

	if (r >= 0)
		return r;
	name = first < argc ? argv[first] : NULL;
	r = check_usage(&options, name);
	if (r != EXIT_OK)
		return r;
	if (!args.is_top)
		return look_once(&options, name);
	if (!args.interval_ns)
		args.interval_ns = NSEC_PER_SEC;
	return look_again_and_again(&options, name);
}
