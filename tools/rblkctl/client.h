/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One call of rblkd over its control socket. It blocks until the answer is here, TIMEOUT_MS at
 * most. A failure is one line on stderr with a hint, and the exit code of base/args.h; with -o json
 * it is an object with "error" on stdout instead (base/output.h).
 */
#pragma once

struct json_object;
struct options;

/* Calls rblkd and blocks for its answer; takes params, which may be NULL. EXIT_OK with *ret_result,
 * which the caller puts; or an exit code, and the error is printed. */
int client_call(const struct options *options, const char *method, struct json_object *params,
		struct json_object **ret_result);

/* The same for a call that may find no rblkd, as between two of them: -errno then, and nothing is
 * printed. */
int client_try(const struct options *options, const char *method, struct json_object **ret_result);

/* Warns on stderr of each host that "hosts_without_path" of an answer names. */
void print_cut_hosts(struct json_object *answer);
