/* SPDX-License-Identifier: BSD-3-Clause */
/* Command lines: values, exit codes, and what is printed to stdout and stderr. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/args.h"
#include "base/bits.h"
#include "base/clock.h"
#include "base/output.h"

enum {
	MAX_WORDS = 16
};

static struct {
	const char *name, *as_given;
	bool is_verbose, is_json;
	uint64_t nsid, size, wait;
	unsigned format;
	char positional[200]; /* joined with '|' */
} seen;

static const char *const formats[] = {"normal", "json", NULL};

static int attach(int argc, char **argv)
{
	const struct arg table[] = {
		{.name = "name",
		 .letter = 'n',
		 .type = ARG_STRING,
		 .value = &seen.name,
		 .placeholder = "NAME",
		 .help = "name of the volume, which is also the name of the link to it below /dev/disk/by-rblk and of its unit"},
		{.name = "verbose",
		 .letter = 'v',
		 .type = ARG_FLAG,
		 .value = &seen.is_verbose,
		 .help = "say more"},
		{.name = "json",
		 .letter = 'j',
		 .type = ARG_FLAG,
		 .value = &seen.is_json,
		 .help = "say it in JSON"},
		{.name = "ns",
		 .type = ARG_UINT,
		 .value = &seen.nsid,
		 .placeholder = "NSID",
		 .help = "which namespace",
		 .min = 1,
		 .max = 1024},
		{.name = "size",
		 .type = ARG_SIZE,
		 .value = &seen.size,
		 .placeholder = "SIZE",
		 .help = "how much",
		 .min = 4096},
		{.name = "time-to-wait-at-most",
		 .type = ARG_DURATION,
		 .value = &seen.wait,
		 .placeholder = "TIME",
		 .help = "how long",
		 .min = NSEC_PER_MSEC,
		 .max = 60 * NSEC_PER_SEC},
		{.name = "output",
		 .letter = 'o',
		 .type = ARG_CHOICE,
		 .value = &seen.format,
		 .help = "for people or scripts",
		 .standard = "normal",
		 .text = &seen.as_given,
		 .choices = formats},
		{0},
	};
	const struct args_usage usage = {.program = "rblk attach",
					 .positional = "NQN@ADDRESS [NAME]",
					 .summary = "Attaches a namespace.",
					 .min_positional = 1,
					 .max_positional = 2};
	int first = -1, code = args_parse(&usage, table, argc, argv, &first);

	if (code >= 0)
		return code;
	for (int i = first; i < argc; i++) {
		strcat(seen.positional, argv[i]);
		strcat(seen.positional, i + 1 < argc ? "|" : "");
	}
	return EXIT_OK;
}

static int add(int argc, char **argv)
{
	snprintf(seen.positional, sizeof(seen.positional), "%s/%d/%s", argv[0], argc,
		 argc > 1 ? argv[1] : "");
	return EXIT_BUSY;
}

static const struct subcommand commands[] = {
	{"attach", attach, "attach a namespace"},
	{"detach", attach, "detach one"},
	{"namespace add", add, "add one"},
	{"namespace remove", add, "remove one"},
	{0},
};

static int run_all(int argc, char **argv)
{
	return args_run_subcommand("rblk", "NVMe-over-RDMA block storage.", commands, argc, argv);
}

/* Captured from stdout and stderr during the last run. */
static char out[4096], err[4096];

static int divert(int fd, FILE *to)
{
	int saved = dup(fd);

	fflush(NULL);
	dup2(fileno(to), fd);
	return saved;
}

static void restore(int fd, int saved, FILE *from, char *text, size_t size)
{
	fflush(NULL);
	dup2(saved, fd);
	close(saved);
	rewind(from);
	text[fread(text, 1, size - 1, from)] = '\0';
	fclose(from);
}

/* Splits line at blanks; the words live until the next run. */
static int run(int (*function)(int, char **), const char *line)
{
	static char words[512];
	char *argv[MAX_WORDS + 1] = {NULL};
	FILE *out_file = tmpfile(), *err_file = tmpfile();
	int argc = 0, code, saved_out, saved_err;

	snprintf(words, sizeof(words), "%s", line);
	for (char *word = strtok(words, " "); word; word = strtok(NULL, " "))
		argv[argc++] = word;
	memset(&seen, 0, sizeof(seen));
	saved_out = divert(STDOUT_FILENO, out_file);
	saved_err = divert(STDERR_FILENO, err_file);
	code = function(argc, argv);
	restore(STDERR_FILENO, saved_err, err_file, err, sizeof(err));
	restore(STDOUT_FILENO, saved_out, out_file, out, sizeof(out));
	return code;
}

static void expect_values(const char *line, const char *positional)
{
	int code = run(attach, line);

	if (code != EXIT_OK || *out || *err || strcmp(seen.positional, positional))
		fail_msg("%s: %d, %s, %s%s", line, code, seen.positional, out, err);
}

/* One line on stderr, nothing on stdout, and exit code 2. */
static void expect_refusal(int (*function)(int, char **), const char *line, const char *message)
{
	int code = run(function, line);

	if (code != EXIT_USAGE || *out || strncmp(err, message, strlen(message)) ||
	    strcmp(err + strlen(message), "\n"))
		fail_msg("%s: %d, %s, %s", line, code, out, err);
}

static void test_every_spelling(void **state)
{
	expect_values("x --name db --ns 5 --size 1MiB --time-to-wait-at-most 5s -o json a", "a");
	assert_string_equal(seen.name, "db");
	assert_int_equal(seen.nsid, 5);
	assert_int_equal(seen.size, MIB);
	assert_int_equal(seen.wait, 5 * NSEC_PER_SEC);
	assert_int_equal(seen.format, 1);
	assert_string_equal(seen.as_given, "json");
	assert_false(seen.is_verbose);
	expect_values("x --name=db --ns=5 a", "a");
	assert_string_equal(seen.name, "db");
	assert_int_equal(seen.nsid, 5);
	expect_values("x -ndb -vj a", "a");
	assert_string_equal(seen.name, "db");
	assert_true(seen.is_verbose && seen.is_json);
	expect_values("x -vndb a", "a");
	assert_string_equal(seen.name, "db");
	expect_values("x -n -1 --name= a", "a"); /* the last one counts */
	assert_string_equal(seen.name, "");
	expect_values("x --name=--x a", "a");
	assert_string_equal(seen.name, "--x");
}

static void test_permutation(void **state)
{
	expect_values("x a -v b --ns 3", "a|b");
	assert_int_equal(seen.nsid, 3);
	expect_values("x a -v -- b", "a|b");
	expect_values("x -- --ns -v", "--ns|-v");
	expect_values("x -v -- -- a", "--|a");
	expect_values("x - -v", "-");
	expect_values("x a --ns 3 b -v -n c", "a|b");
	assert_string_equal(seen.name, "c");
}

static void test_refusals(void **state)
{
	static const struct {
		const char *line, *message;
	} samples[] = {
		{"x", "missing argument, expected NQN@ADDRESS [NAME]"},
		{"x -v --", "missing argument, expected NQN@ADDRESS [NAME]"},
		{"x a b c", "unexpected argument 'c'"},
		{"x a --nmae b", "unknown option '--nmae' (did you mean '--name'?)"},
		{"x a --nmae=b", "unknown option '--nmae' (did you mean '--name'?)"},
		{"x a --hepl", "unknown option '--hepl' (did you mean '--help'?)"},
		{"x a --nam b", "unknown option '--nam' (did you mean '--name'?)"},
		{"x a --zzzzzz", "unknown option '--zzzzzz'"},
		{"x a --=b", "unknown option '--'"},
		{"x a -x", "unknown option '-x'"},
		{"x a -vx", "unknown option '-x'"},
		{"x a --name", "--name needs a value: NAME"},
		{"x a -n", "--name needs a value: NAME"},
		{"x a --name --json", "--name needs a value: NAME"},
		{"x a --json=yes", "--json takes no value"},
		{"x a --ns 0", "--ns must be between 1 and 1024, not 0"},
		{"x a --ns 1025", "--ns must be between 1 and 1024, not 1025"},
		{"x a --ns 99999999999999999999",
		 "--ns must be between 1 and 1024, not 99999999999999999999"},
		{"x a --ns 1x", "--ns must be a number, not '1x'"},
		{"x a --ns=", "--ns must be a number, not ''"},
		{"x a --size 1KiB", "--size must be at least 4KiB, not 1KiB"},
		{"x a --size 16EiB", "--size is too large: 16EiB"},
		{"x a --size 5s", "--size must be a size such as 64MiB, not '5s'"},
		{"x a --time-to-wait-at-most 2min",
		 "--time-to-wait-at-most must be between 1ms and 1min00s, not 2min"},
		{"x a --time-to-wait-at-most x",
		 "--time-to-wait-at-most must be a duration such as 500ms, not 'x'"},
		{"x a -o jsn",
		 "--output must be one of normal, json, not 'jsn' (did you mean 'json'?)"},
		{"x a -ox", "--output must be one of normal, json, not 'x'"},
	};
	char message[200];

	for (size_t i = 0; i < ARRAY_LEN(samples); i++) {
		snprintf(message, sizeof(message), "rblk attach: error: %s", samples[i].message);
		expect_refusal(attach, samples[i].line, message);
	}
}

static void test_help(void **state)
{
	static const char wanted[] =
		"Usage: rblk attach [OPTION]... NQN@ADDRESS [NAME]\n"
		"\n"
		"Attaches a namespace.\n"
		"\n"
		"Options:\n"
		"  -n, --name NAME             name of the volume, which is also the name of the\n"
		"                              link to it below /dev/disk/by-rblk and of its unit\n"
		"  -v, --verbose               say more\n"
		"  -j, --json                  say it in JSON\n"
		"      --ns NSID               which namespace\n"
		"      --size SIZE             how much\n"
		"      --time-to-wait-at-most TIME\n"
		"                              how long\n"
		"  -o, --output normal|json    for people or scripts (default: normal)\n"
		"  -h, --help                  show this help and exit\n"
		"      --version               show the version and exit\n";

	assert_int_equal(run(attach, "x --help"), EXIT_OK);
	assert_string_equal(out, wanted);
	assert_string_equal(err, "");
	assert_int_equal(run(attach, "x a b c -vh"), EXIT_OK);
	assert_string_equal(out, wanted);
	assert_int_equal(run(attach, "x --version"), EXIT_OK);
	assert_string_equal(out, "rblk " RBLK_VERSION "\n");
	assert_string_equal(err, "");
}

static void test_subcommands(void **state)
{
	assert_int_equal(run(run_all, "rblk attach -v a"), EXIT_OK);
	assert_string_equal(seen.positional, "a");
	assert_int_equal(run(run_all, "rblk namespace add 5"), EXIT_BUSY);
	assert_string_equal(seen.positional, "add/2/5");
	assert_int_equal(run(run_all, "rblk --version"), EXIT_OK);
	assert_string_equal(out, "rblk " RBLK_VERSION "\n");
}

static void test_subcommand_help(void **state)
{
	static const char wanted[] = "Usage: rblk COMMAND [ARGUMENT]...\n"
				     "\n"
				     "NVMe-over-RDMA block storage.\n"
				     "\n"
				     "Commands:\n"
				     "  attach            attach a namespace\n"
				     "  detach            detach one\n"
				     "  namespace add     add one\n"
				     "  namespace remove  remove one\n"
				     "\n"
				     "See 'rblk help COMMAND' for one of them.\n";
	static const char *const spellings[] = {"rblk help", "rblk --help", "rblk -h"};

	for (size_t i = 0; i < ARRAY_LEN(spellings); i++) {
		assert_int_equal(run(run_all, spellings[i]), EXIT_OK);
		assert_string_equal(out, wanted);
	}
	assert_int_equal(run(run_all, "rblk help attach"), EXIT_OK);
	assert_non_null(strstr(out, "Usage: rblk attach "));
	assert_int_equal(run(run_all, "rblk help namespace add"), EXIT_BUSY);
	assert_string_equal(seen.positional, "add/2/--help");
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(run(run_all, i ? "rblk help namespace" : "rblk namespace -h"),
				 EXIT_OK);
		assert_non_null(strstr(out, "  namespace remove  "));
		assert_null(strstr(out, "attach"));
	}
}

static void test_subcommand_refusals(void **state)
{
	static const struct {
		const char *line, *message;
	} samples[] = {
		{"rblk", "no command given, see 'rblk --help'"},
		{"rblk atach", "unknown command 'atach' (did you mean 'attach'?)"},
		{"rblk att", "unknown command 'att'"},
		{"rblk -x", "unknown option '-x', see 'rblk --help'"},
		{"rblk namespace", "'namespace' needs a command, see 'rblk help namespace'"},
		{"rblk namespace ad",
		 "unknown command 'namespace ad' (did you mean 'namespace add'?)"},
		{"rblk help zzz", "unknown command 'zzz'"},
		{"rblk help attach x", "unexpected argument 'x'"},
		{"rblk help namespace zzzzzzz", "unknown command 'namespace zzzzzzz'"},
	};
	char message[200];

	for (size_t i = 0; i < ARRAY_LEN(samples); i++) {
		snprintf(message, sizeof(message), "rblk: error: %s", samples[i].message);
		expect_refusal(run_all, samples[i].line, message);
	}
}

static int fail_with_hint(int argc, char **argv)
{
	return fail_with("rblk", EXIT_BUSY, argc > 1 ? "wait" : NULL, "%s is busy", "it");
}

static void test_fail_with(void **state)
{
	assert_int_equal(run(fail_with_hint, "x"), EXIT_BUSY);
	assert_string_equal(err, "rblk: error: it is busy\n");
	assert_int_equal(run(fail_with_hint, "x y"), EXIT_BUSY);
	assert_string_equal(err, "rblk: error: it is busy\nrblk: hint: wait\n");
	assert_string_equal(out, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_spelling),
		cmocka_unit_test(test_permutation),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_help),
		cmocka_unit_test(test_subcommands),
		cmocka_unit_test(test_subcommand_help),
		cmocka_unit_test(test_subcommand_refusals),
		cmocka_unit_test(test_fail_with),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
