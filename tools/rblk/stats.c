/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rblk stats: counts, bytes and latency of the I/O of attached volumes. Without --top, since they
 * were attached. With --top, periodically, the changes since the sample before.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/output.h"
#include "base/rpc_client.h"
#include "tools/rblk/commands.h"
#include "tools/rblk/report.h"
#include "tools/rblk/run_dir.h"
#include "tools/rblk/volumes.h"
#include "tools/shared/answer.h"
#include "tools/shared/io_view.h"

static const char program[] = "rblk stats";

enum {
	STATS_TIMEOUT_MS = 3000,
};

static struct {
	bool is_top;
	unsigned output;
	const char *volume; /* as the user named it; NULL: all */
} args;

/* Names are unique on this machine, and shorter than what they stand for. */
static void add_name(const struct io_view *v, struct table *table, struct json_object *item)
{
	table_add(table, answer_string(item, "name"));
}

/* The volume's own object; NULL if its process has ended, does not answer, or is an older one that
 * has no stats: `rblk status` says which. */
static struct json_object *ask_one(const char *name)
{
	struct json_object *stats = NULL;
	struct error error = {0};
	char path[PATH_MAX];

	if (run_dir_path(path, name, "sock", &error))
		return NULL;
	if (rpc_call(path, "stats", NULL, STATS_TIMEOUT_MS, &stats, &error) < 0)
		return NULL;
	return stats;
}

/* All volumes are looked up anew for each sample: they come and go while --top runs. */
static int ask(void *context, struct json_object **ret_answer)
{
	struct json_object *answer, *list = json_object_new_array(), *chosen = NULL;
	struct volumes volumes;
	struct error error;
	int code = volumes_read(&volumes, &error);

	if (code == 0 && args.volume) {
		chosen = volumes_find(&volumes, args.volume, 0, &error);
		code = chosen ? 0 : (int)error.code;
	}
	for (unsigned i = 0; code == 0 && i < volumes.n; i++) {
		struct json_object *status = volumes_get(&volumes, i);
		struct json_object *stats = chosen && chosen != status
						    ? NULL
						    : ask_one(json_text(status, "name"));

		if (stats)
			json_object_array_add(list, stats);
	}
	volumes_release(&volumes);
	if (code == 0 && args.volume && !json_object_array_length(list)) {
		error_set(&error, EXIT_UNREACHABLE, "see `rblk status`",
			  "the volume process of %.150s does not answer", args.volume);
		code = EXIT_UNREACHABLE;
	}
	if (code) {
		json_object_put(list);
		return report_error(program, &error);
	}
	answer = json_object_new_object();
	json_object_object_add(answer, "schema", json_object_new_int(1));
	json_object_object_add(answer, "time_ns", json_object_new_uint64(clock_ns()));
	json_object_object_add(answer, "volumes", list);
	*ret_answer = answer;
	return EXIT_OK;
}

static struct io_view view = {
	.what = "volumes",
	.keys = {"name", "subsystem", "nsid"},
	.titles = (const char *const[]){"~VOLUME", "OP", ">COUNT", ">BYTES", IO_TITLES_TIMES, NULL},
	.top_titles = (const char *const[]){"~VOLUME", "OP", ">IOPS", ">BYTES/S", IO_TITLES_TIMES,
					    NULL},
	.add_name = add_name,
	.ask = ask,
};

/* Options that would be ignored are refused, because the user expects something of them. */
static int check_usage(void)
{
	if (args.is_top && args.output == OUTPUT_JSON)
		return fail_with(program, EXIT_USAGE, NULL,
				 "--top shows tables; scripts ask for -o json twice and subtract");
	if (!args.is_top &&
	    (view.interval_ns || view.n_looks || view.order != IO_BY_RATE || view.wants_idle))
		return fail_with(program, EXIT_USAGE, NULL,
				 "--interval, --count, --sort and --idle need --top");
	return EXIT_OK;
}

int stats_main(int argc, char **argv)
{
	const struct arg table[] = {
		{"top", 0, ARG_FLAG, &args.is_top, NULL,
		 "refresh periodically until q is pressed, showing changes since the last sample"},
		{"interval", 'i', ARG_DURATION, &view.interval_ns, "TIME",
		 "time between two samples of --top (default: 1s)", 100 * NSEC_PER_MSEC,
		 3600 * NSEC_PER_SEC},
		{"count", 'n', ARG_UINT, &view.n_looks, "N", "stop --top after N samples", 1,
		 UINT32_MAX},
		{"sort", 0, ARG_CHOICE, &view.order, "rate|bytes|p99|name",
		 "order of --top (default: rate)", 0, 0, io_orders},
		{"idle", 0, ARG_FLAG, &view.wants_idle, NULL, "with --top, also show idle volumes"},
		{"bytes", 'b', ARG_FLAG, &view.wants_bytes, NULL, "sizes in bytes"},
		{"output", 'o', ARG_CHOICE, &args.output, OUTPUT_CHOICES, OUTPUT_HELP, 0, 0,
		 output_names},
		{0},
	};
	const struct args_usage usage = {program, "[NAME|DEVICE|NQN@ADDRESS[:PORT]]",
					 "Show I/O counts, rates and latency of attached volumes.",
					 0, 1};
	int at, code = args_parse(&usage, table, argc, argv, &at);

	if (code >= 0)
		return code;
	args.volume = at < argc ? argv[at] : NULL;
	code = check_usage();
	if (code != EXIT_OK)
		return code;
	if (!view.interval_ns)
		view.interval_ns = NSEC_PER_SEC;
	return args.is_top ? io_view_top(&view) : io_view_once(&view, args.output == OUTPUT_JSON);
}
