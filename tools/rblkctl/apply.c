/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rblkctl diff and apply: show what a configuration file would change in the running rblkd; apply
 * it.
 *
 *   + namespace    nqn.2026-01.com.example:db/3  file: /srv/rblk/log.img
 *   - allow_hosts  nqn.2026-01.com.example:db    db2
 *   ~ namespace    nqn.2026-01.com.example:db/1  size: 100GiB -> 200GiB
 *   ! tuning                                     workers: auto -> 4  (needs a restart)
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/output.h"
#include "tools/rblkctl/client.h"
#include "tools/rblkctl/options.h"
#include "tools/rblkctl/rblkctl.h"

enum {
	OPENING_PAUSE_MS = 100,
};

static struct {
	bool is_quiet, is_if_unused, wants_code;
} args;

/* ---- showing -------------------------------------------------------------------------------- */

/* A restart outweighs the rest: nothing of such a file is applied. */
static const char *sign_of(struct json_object *change)
{
	const char *kind = answer_string(change, "change");

	if (!answer_bool(change, "live"))
		return "!";
	return !strcmp(kind, "add") ? "+" : !strcmp(kind, "remove") ? "-" : "~";
}

static const char *or_nothing(const char *s)
{
	return *s ? s : "(none)";
}

/* A change shows both values; what is added or removed, the one that it has. */
static void add_detail(struct table *table, struct json_object *change)
{
	const char *note = answer_bool(change, "live") ? "" : "  (needs a restart)";
	const char *kind = answer_string(change, "change");

	if (!strcmp(kind, "change"))
		table_addf(table, "%s: %s -> %s%s", answer_string(change, "key"),
			   or_nothing(answer_string(change, "before")),
			   or_nothing(answer_string(change, "after")), note);
	else
		table_addf(table, "%s%s",
			   answer_string(change, strcmp(kind, "add") ? "before" : "after"), note);
}

static void print_changes(struct json_object *changes)
{
	static const char *const titles[] = {"", "WHAT", "~NAME", "~CHANGE", NULL};
	struct table table;

	table_begin(&table, titles);
	for (size_t i = 0; i < json_object_array_length(changes); i++) {
		struct json_object *change = json_object_array_get_idx(changes, i);

		table_add(&table, sign_of(change));
		table_add(&table, answer_string(change, "what"));
		table_add(&table, answer_string(change, "name"));
		add_detail(&table, change);
	}
	table_end(&table);
}

/* Mistakes of the file, with their carets; on stderr, so that a script can keep stdout. */
static void print_messages(struct json_object *messages)
{
	for (size_t i = 0; i < json_object_array_length(messages); i++)
		fprintf(stderr, "%s\n",
			json_object_get_string(json_object_array_get_idx(messages, i)));
}

/* "warning: subsystem NQN is in use by host NQN (no longer allowed)" */
static void print_loss(struct json_object *loss, bool is_applied)
{
	bool has_reason = answer_member(loss, "reason");

	fprintf(stderr, "warning: %s %s in use by host %s%s%s%s\n", answer_string(loss, "object"),
		is_applied ? "was" : "is", answer_string(loss, "host"), has_reason ? " (" : "",
		has_reason ? answer_string(loss, "reason") : "", has_reason ? ")" : "");
}

/* The connected hosts that lose something: an administrator has to know them. */
static void print_losses(struct json_object *changes, bool is_applied)
{
	for (size_t i = 0; i < json_object_array_length(changes); i++) {
		struct json_object *change = json_object_array_get_idx(changes, i);
		struct json_object *losses = answer_member(change, "losses");

		for (size_t j = 0; losses && j < json_object_array_length(losses); j++)
			print_loss(json_object_array_get_idx(losses, j), is_applied);
	}
}

/* Changes that only a restart of rblkd can make. */
static unsigned count_fixed(struct json_object *changes)
{
	unsigned n = 0;

	for (size_t i = 0; i < json_object_array_length(changes); i++)
		n += !answer_bool(json_object_array_get_idx(changes, i), "live");
	return n;
}

static void print_fixed(struct json_object *changes)
{
	unsigned n = count_fixed(changes);

	if (n)
		fprintf(stderr, "%u change%s a restart of rblkd: apply refuses the file\n", n,
			n == 1 ? " needs" : "s need");
}

/* Three ways to fail: the file is wrong, what it names cannot be opened, or rblkd refuses. In each
 * of them nothing was changed, and the exit code is that of the report. */
static void print_outcome(const char *program, struct json_object *report, size_t n)
{
	enum exit_code code = (enum exit_code)answer_number(report, "code");

	if (code == EXIT_CONFIG)
		fail_with(program, code, NULL, "%s is wrong: nothing was changed",
			  answer_string(report, "file"));
	else if (code != EXIT_OK && !answer_member(report, "refusal"))
		fail_with(program, code, NULL, "%s cannot be applied: nothing was changed",
			  answer_string(report, "file"));
	if (answer_member(report, "refusal"))
		fail_with(program, code, NULL, "%s", answer_string(report, "refusal"));
	else if (code == EXIT_OK && !n && !args.is_quiet)
		puts("nothing to change");
	else if (answer_bool(report, "applied") && !args.is_quiet)
		printf("applied: %zu change%s\n", n, n == 1 ? "" : "s");
}

static void print_report(const char *program, struct json_object *report)
{
	struct json_object *changes = answer_member(report, "changes");
	size_t n = json_object_array_length(changes);

	print_messages(answer_member(report, "messages"));
	if (n && !args.is_quiet)
		print_changes(changes);
	print_losses(changes, answer_bool(report, "applied"));
	if (!answer_member(report, "refusal"))
		print_fixed(changes);
	print_outcome(program, report, n);
}

/* ---- asking --------------------------------------------------------------------------------- */

/* rblkd reads the file, and has another working directory: the path must be absolute. */
static struct json_object *absolute(const char *path)
{
	char real[PATH_MAX], here[PATH_MAX / 2];

	if (*path == '/' || !getcwd(here, sizeof(here)))
		return json_object_new_string(path);
	snprintf(real, sizeof(real), "%s/%s", here, path);
	return json_object_new_string(real);
}

/* rblkd answers at once while stores of the file still open, and does not change anything before
 * they are. So this asks again until it has an outcome; without that, rblkd closes the stores that
 * it opened, and nothing was changed. The params are used up. */
static int ask(const struct options *options, const char *method, struct json_object *params,
	       struct json_object **ret_report)
{
	for (;;) {
		int r = client_call(options, method, json_object_get(params), ret_report);

		if (r != EXIT_OK || !answer_bool(*ret_report, "opening")) {
			json_object_put(params);
			return r;
		}
		json_object_put(*ret_report);
		clock_sleep_ns(OPENING_PAUSE_MS * NSEC_PER_MSEC);
	}
}

/* A report arrives even for a file that is wrong: its code is the outcome, not that of the call. */
static int run(const struct args_usage *usage, const struct arg *more, unsigned n_more,
	       const char *method, int argc, char **argv)
{
	struct json_object *params, *report;
	struct options options;
	int first, r = options_parse_with(usage, more, n_more, argc, argv, &options, &first);

	if (r >= 0)
		return r;
	params = json_object_new_object();
	if (first < argc)
		json_object_object_add(params, "file", absolute(argv[first]));
	json_object_object_add(params, "if_unused", json_object_new_boolean(args.is_if_unused));
	r = ask(&options, method, params, &report);
	if (r != EXIT_OK)
		return r;
	if (options.output == OUTPUT_JSON)
		output_json(report);
	else
		print_report(usage->program, report);
	r = (int)answer_number(report, "code");
	if (r == EXIT_OK && args.wants_code &&
	    json_object_array_length(answer_member(report, "changes")))
		r = EXIT_PARTIAL;
	json_object_put(report);
	return r;
}

int run_diff(int argc, char **argv)
{
	static const struct args_usage usage = {
		.program = "rblkctl diff",
		.positional = "[FILE]",
		.summary =
			"Check the configuration of rblkd, or FILE, and show what applying it would change.",
		.max_positional = 1,
	};
	static const struct arg more[] = {
		{"exit-code", 0, ARG_FLAG, &args.wants_code, NULL,
		 "exit with 6 if anything differs"},
	};

	return run(&usage, more, ARRAY_LEN(more), "diff", argc, argv);
}

int run_apply(int argc, char **argv)
{
	static const struct args_usage usage = {
		.program = "rblkctl apply",
		.positional = "[FILE]",
		.summary = "Apply the configuration of rblkd, or FILE: all of it, or nothing.",
		.max_positional = 1,
	};
	static const struct arg more[] = {
		{"if-unused", 0, ARG_FLAG, &args.is_if_unused, NULL,
		 "refuse changes that take something from a connected host"},
		{"quiet", 'q', ARG_FLAG, &args.is_quiet, NULL,
		 "print only errors, and hosts that lose something"},
	};

	return run(&usage, more, ARRAY_LEN(more), "apply", argc, argv);
}
