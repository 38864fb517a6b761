/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rblkctl stats: counts, bytes and latency of commands, by namespace, host or queue. Without --top,
 * since rblkd was started. With --top, periodically, the changes since the sample before.
 */
#include <inttypes.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/output.h"
#include "tools/rblkctl/client.h"
#include "tools/rblkctl/options.h"
#include "tools/rblkctl/rblkctl.h"
#include "tools/shared/io_view.h"

static struct {
	bool is_hosts, is_queues, is_top, wants_idle;
	unsigned order; /* enum io_order, of --top */
	uint64_t interval_ns, n_looks;
	struct options options;
	const char *name; /* of a subsystem or namespace; NULL: all */
} args;

static void add_namespace(const struct io_view *view, struct table *table, struct json_object *item)
{
	table_addf(table, "%s/%" PRIu64, answer_string(item, "subsystem"),
		   answer_number(item, "nsid"));
}

/* A name of the configuration is shorter than an NQN, and was chosen to be read. */
static void add_host(const struct io_view *view, struct table *table, struct json_object *item)
{
	table_add(table,
		  answer_string(item, answer_member(item, "host_name") ? "host_name" : "host"));
}

/* "3/1": the controller, and its queue; 0 is the admin queue, which has no I/O. */
static void add_queue(const struct io_view *view, struct table *table, struct json_object *item)
{
	table_addf(table, "%" PRIu64 "/%" PRIu64, answer_number(item, "controller"),
		   answer_number(item, "queue"));
	add_host(view, table, item);
}

static const struct io_view views[] = {
	{.what = "namespaces",
	 .keys = {"subsystem", "nsid"},
	 .titles = (const char *const[]){"~NAMESPACE", "OP", ">COUNT", ">BYTES", IO_TITLES_STAGES,
					 NULL},
	 .top_titles = (const char *const[]){"~NAMESPACE", "OP", ">IOPS", ">BYTES/S",
					     IO_TITLES_STAGES, NULL},
	 .add_name = add_namespace},
	{.what = "hosts",
	 .keys = {"host"},
	 .titles = (const char *const[]){"~HOST", "OP", ">COUNT", ">BYTES", IO_TITLES_STAGES, NULL},
	 .top_titles = (const char *const[]){"~HOST", "OP", ">IOPS", ">BYTES/S", IO_TITLES_STAGES,
					     NULL},
	 .add_name = add_host},
	/* Controllers are numbered anew after a restart of rblkd, so the address is a key, too. */
	{.what = "queues",
	 .keys = {"controller", "queue", "address"},
	 .titles = (const char *const[]){"QUEUE", "~HOST", "OP", ">COUNT", ">BYTES",
					 IO_TITLES_STAGES, NULL},
	 .top_titles = (const char *const[]){"QUEUE", "~HOST", "OP", ">IOPS", ">BYTES/S",
					     IO_TITLES_STAGES, NULL},
	 .add_name = add_queue},
};

/* check_usage has made sure that at most one is chosen. */
static const struct io_view *chosen_view(void)
{
	return &views[args.is_hosts ? 1 : args.is_queues ? 2 : 0];
}

/* rblkd selects by name, so a single namespace costs a small answer. */
static int ask(void *context, struct json_object **ret_answer)
{
	struct json_object *params = json_object_new_object();

	json_object_object_add(params, "what", json_object_new_string(chosen_view()->what));
	if (args.name)
		json_object_object_add(params, "name", json_object_new_string(args.name));
	return client_call(&args.options, "stats", params, ret_answer);
}

/* Options that would be ignored are refused, because the user expects something of them. */
static int check_usage(void)
{
	static const char program[] = "rblkctl stats";

	if (args.is_hosts && args.is_queues)
		return fail_with(program, EXIT_USAGE, NULL,
				 "--hosts and --queues exclude each other");
	if (args.name && (args.is_hosts || args.is_queues))
		return fail_with(program, EXIT_USAGE, NULL,
				 "a namespace cannot be chosen with --%s",
				 args.is_hosts ? "hosts" : "queues");
	if (args.is_top && args.options.output == OUTPUT_JSON)
		return fail_with(program, EXIT_USAGE, NULL,
				 "--top shows tables; scripts ask for -o json twice and subtract");
	if (!args.is_top &&
	    (args.interval_ns || args.n_looks || args.order != IO_BY_RATE || args.wants_idle))
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
		 "order of --top (default: rate)", .choices = io_orders},
		{"idle", 0, ARG_FLAG, &args.wants_idle, NULL, "with --top, also show idle rows"},
	};
	struct io_view view;
	int first, r = options_parse_with(&usage, more, ARRAY_LEN(more), argc, argv, &args.options,
					  &first);

	if (r >= 0)
		return r;
	args.name = first < argc ? argv[first] : NULL;
	r = check_usage();
	if (r != EXIT_OK)
		return r;
	view = *chosen_view();
	view.has_stages = true;
	view.ask = ask;
	view.wants_bytes = args.options.wants_bytes;
	view.wants_idle = args.wants_idle;
	view.order = args.order;
	view.interval_ns = args.interval_ns ?: NSEC_PER_SEC;
	view.n_looks = args.n_looks;
	if (args.is_top)
		return io_view_top(&view);
	return io_view_once(&view, args.options.output == OUTPUT_JSON);
}
