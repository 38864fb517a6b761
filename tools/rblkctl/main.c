/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rblkctl: asks a running rblkd over its control socket and shows the answer, as tables for people
 * or as JSON for scripts. One file a subcommand; what they share is here.
 *
 * Each failure is one line on stderr with a hint, and the exit code of args.h; with -o json it is an
 * object with "error" on stdout instead (base/output.h).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "base/rpc.h"
#include "base/run_dir.h"
#include "tools/rblkctl/rblkctl.h"

#define SYSTEM_SOCKET RUN_DIR_SYSTEM "/rblkd.sock"

enum {
	TIMEOUT_MS = 10000,
	OPTIONS_COMMON = 3,
	OPTIONS_MAX = 12,
};

/* Our own rblkd's; else, for who may ask it, the machine's. */
static const char *default_socket(void)
{
	static char path[PATH_MAX];

	run_dir_socket(path, "rblkd.sock");
	if (access(path, F_OK) < 0 && !access(SYSTEM_SOCKET, F_OK))
		return SYSTEM_SOCKET;
	return path;
}

int options_parse_with(const struct args_usage *usage, const struct arg *more, unsigned n_more,
		       int argc, char **argv, struct options *ret_options, int *ret_positional)
{
	const char *socket = getenv("RBLK_CONTROL_SOCKET");
	struct arg table[OPTIONS_MAX] = {
		{"socket", 's', ARG_STRING, &ret_options->socket, "PATH",
		 "control socket of rblkd; else $RBLK_CONTROL_SOCKET, else rblkd.sock in the run directory"},
		{"output", 'o', ARG_CHOICE, &ret_options->output, OUTPUT_CHOICES, OUTPUT_HELP,
		 .choices = output_names},
		{"bytes", 'b', ARG_FLAG, &ret_options->wants_bytes, NULL, "sizes in bytes"},
	};

	check(OPTIONS_COMMON + n_more < OPTIONS_MAX);
	if (n_more)
		memcpy(&table[OPTIONS_COMMON], more, n_more * sizeof(*more));

	*ret_options = (struct options){.socket = socket && *socket ? socket : default_socket()};
	return args_parse(usage, table, argc, argv, ret_positional);
}

int options_parse(const struct args_usage *usage, int argc, char **argv,
		  struct options *ret_options, int *ret_positional)
{
	return options_parse_with(usage, NULL, 0, argc, argv, ret_options, ret_positional);
}

/* ---- calling -------------------------------------------------------------------------------- */

static void say(struct error *error, enum exit_code code, const char *socket, const char *message,
		const char *hint)
{
	error->code = code;
	snprintf(error->message, sizeof(error->message), "%s: %s", socket, message);
	snprintf(error->hint, sizeof(error->hint), "%s", hint);
}

static void explain(int r, const char *socket, struct error *error)
{
	switch (r) {
	case -EREMOTEIO:
		break; /* rblkd has said it */
	case -ENOENT:
	case -ECONNREFUSED:
		say(error, EXIT_UNREACHABLE, socket, "rblkd is not running",
		    "start it (systemctl start rblkd), or name its control_socket with --socket");
		break;
	case -EACCES:
	case -EPERM:
		say(error, EXIT_DENIED, socket, "not allowed to ask rblkd",
		    "run rblkctl as root, or as the user of rblkd");
		break;
	case -ETIMEDOUT:
		say(error, EXIT_UNREACHABLE, socket, "rblkd does not answer",
		    "look at its log: journalctl -u rblkd");
		break;
	default:
		say(error, EXIT_UNREACHABLE, socket, strerror(-r),
		    "is it the control socket of rblkd?");
	}
}

int call(const struct options *options, const char *method, struct json_object *params,
	 struct json_object **ret_result)
{
	struct error error = {.code = EXIT_FAILED};
	int r = rpc_call(options->socket, method, params, TIMEOUT_MS, ret_result, &error);

	json_object_put(params);
	if (r == 0)
		return EXIT_OK;
	explain(r, options->socket, &error);
	return fail_with("rblkctl", error.code, *error.hint ? error.hint : NULL, "%s",
			 error.message);
}

/* ---- answers -------------------------------------------------------------------------------- */

struct json_object *get_member(struct json_object *o, const char *key)
{
	struct json_object *value = NULL;

	if (json_object_is_type(o, json_type_object))
		json_object_object_get_ex(o, key, &value);
	return value;
}

const char *get_string(struct json_object *o, const char *key)
{
	struct json_object *value = get_member(o, key);

	return value ? json_object_get_string(value) : "-";
}

uint64_t get_number(struct json_object *o, const char *key)
{
	return json_object_get_uint64(get_member(o, key));
}

bool get_bool(struct json_object *o, const char *key)
{
	return json_object_get_boolean(get_member(o, key));
}

/* ---- options before the subcommand ------------------------------------------------------------ */

static bool takes_next(const char *option)
{
	return !strcmp(option, "--socket") || !strcmp(option, "-s") ||
	       !strcmp(option, "--output") || !strcmp(option, "-o");
}

/* Subcommands of two words begin so. */
static bool is_first_of_two(const char *word)
{
	return !strcmp(word, "ns") || !strcmp(word, "ana") || !strcmp(word, "qos");
}

/* "--socket PATH ns resize" becomes "ns resize --socket PATH". */
static void move_subcommand_first(int argc, char **argv)
{
	int at = 1, n_words;
	char *words[2];

	while (at < argc && argv[at][0] == '-')
		at += takes_next(argv[at]) ? 2 : 1;
	if (at >= argc)
		return;
	n_words = is_first_of_two(argv[at]) && at + 1 < argc ? 2 : 1;
	memcpy(words, &argv[at], (size_t)n_words * sizeof(*words));
	memmove(&argv[1 + n_words], &argv[1], (size_t)(at - 1) * sizeof(*argv));
	memcpy(&argv[1], words, (size_t)n_words * sizeof(*words));
}

int main(int argc, char **argv)
{
	static const struct subcommand table[] = {
		{"status", run_status, "how rblkd is: portals, numbers, what is wrong"},
		{"list", run_list, "subsystems, namespaces, hosts, connections or portals"},
		{"stats", run_stats, "how much hosts do, and how long it takes"},
		{"capsules", run_capsules, "the last commands of each queue, and their answers"},
		{"diff", run_diff, "what the changed configuration would change"},
		{"apply", run_apply, "makes rblkd run with it, all of it or nothing"},
		{"clear", run_clear, "takes errors of disks as known"},
		{"drain", run_drain, "lets the connections of a portal go, in order"},
		{"ns resize", run_ns_resize, "a file or device has grown: tells the hosts"},
		{"ana list", run_ana_list, "ANA groups and their states"},
		{"ana set", run_ana_set, "sets the state of an ANA group"},
		{"qos list", run_qos_list, "limits of rates, and the rates"},
		{"qos set", run_qos_set, "changes the limits of a namespace or a host"},
		{"gen-key", run_gen_key, "makes a secret for DH-HMAC-CHAP"},
		{0},
	};

	log_init("rblkctl", LOG_INFO);
	move_subcommand_first(argc, argv);
	return args_run_subcommand("rblkctl", "Asks a running rblkd.", table, argc, argv);
}
