/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The subcommand `capture` of rblkctl and of rblk, but for how each calls its daemon: reads the
 * next commands and responses over the control socket (base/capture_rpc.h), and writes pcapng.
 * Thread: main.
 */
#pragma once

#include "base/args.h"
#include "base/output.h"

struct capture_options {
	const char *file; /* "-": standard output */
	uint64_t time_ns, count;
	unsigned output; /* enum output */
};

/* The options -w, --time and --count. */
#define CAPTURE_ARGS(o)                                                                            \
	{"write", 'w', ARG_STRING, &(o).file, "FILE", "pcapng file to write; -: standard output"}, \
		{"time",                                                                           \
		 't',                                                                              \
		 ARG_DURATION,                                                                     \
		 &(o).time_ns,                                                                     \
		 "TIME",                                                                           \
		 "how long to capture (default: 5s)",                                              \
		 .min = NSEC_PER_MSEC,                                                             \
		 .max = 3600 * NSEC_PER_SEC},                                                      \
	{                                                                                          \
		"count", 'n', ARG_UINT, &(o).count, "N",                                           \
			"end after N commands (default: 1000000, the most)", .min = 1,             \
									     .max = 1000000        \
	}

/* Checks the options, and fills the defaults. EXIT_OK, or an exit code; the error is printed. */
int capture_check(const char *program, struct capture_options *options);
/* Captures and writes. call: the method `capture` with params, which it takes; EXIT_OK with
 * *ret_result, the caller's, or an exit code after it has printed the error. interface: the name
 * that Wireshark shows. Returns an exit code. */
int capture_run(const char *program, const struct capture_options *options, const char *interface,
		int (*call)(void *context, struct json_object *params,
			    struct json_object **ret_result),
		void *context);
