/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rblkctl calls a running rblkd over its control socket and shows the answer: as tables for people, as JSON
 * for scripts. One file a subcommand; they share options.c, client.c (the call), answer.c (members of the
 * answer), table.c and terminal.c. Only this file knows all subcommands.
 */
#include <string.h>

#include "base/args.h"
#include "base/log.h"
#include "tools/rblkctl/rblkctl.h"

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
