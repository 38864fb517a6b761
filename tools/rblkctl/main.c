/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rblkctl calls a running rblkd over its control socket and shows the answer: as tables for people,
 * as JSON for scripts. One file a subcommand; they share options.c, client.c (the call), answer.c
 * (members of the answer), table.c and terminal.c. Only this file knows all subcommands.
 */
#include <string.h>

#include "base/args.h"
#include "base/fatal.h"
#include "base/log.h"
#include "tools/rblkctl/rblkctl.h"

/* Of the options that may stand in front of a subcommand, those with a value. */
static bool takes_next(const char *option)
{
	return !strcmp(option, "--socket") || !strcmp(option, "-s") ||
	       !strcmp(option, "--output") || !strcmp(option, "-o");
}

/* Subcommands of two words begin so. */
static bool is_first_of_two(const char *word)
{
	return !strcmp(word, "ns") || !strcmp(word, "ana") || !strcmp(word, "qos") ||
	       !strcmp(word, "host") || !strcmp(word, "registrant") || !strcmp(word, "group");
}

/* "--socket PATH ns resize" becomes "ns resize --socket PATH": the common options may stand on either
 * side of the subcommand, as users of systemctl and ip expect. */
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
		{"status", run_status, "show daemon status and problems"},
		{"list", run_list, "list subsystems, namespaces, hosts, connections or portals"},
		{"stats", run_stats, "show I/O rates and latency"},
		{"capsules", run_capsules, "show the last commands and responses of each queue"},
		{"capture", run_capture, "write the next commands and responses to a pcapng file"},
		{"diff", run_diff, "show what applying the configuration would change"},
		{"apply", run_apply, "apply the configuration, all of it or nothing"},
		{"clear", run_clear, "acknowledge disk errors"},
		{"drain", run_drain, "close a portal and let its connections finish"},
		{"ns resize", run_ns_resize, "announce a new namespace size to hosts"},
		{"ana list", run_ana_list, "list ANA groups and their states"},
		{"ana set", run_ana_set, "set the state of an ANA group"},
		{"qos list", run_qos_list, "show rate limits and current rates"},
		{"qos set", run_qos_set, "change rate limits of a namespace or host"},
		{"host disconnect", run_host_disconnect, "end the associations of a host"},
		{"registrant list", run_registrant_list, "list hosts registered for reservations"},
		{"registrant drop", run_registrant_drop, "end the registration of a host"},
		{"group list", run_group_list, "list groups with one owner of several rblkd"},
		{"group give", run_group_give, "let another rblkd become the owner of a group"},
		{"upgrade", run_upgrade, "let a newer rblkd take over, without a pause for hosts"},
		{"gen-key", run_gen_key, "generate a DH-HMAC-CHAP secret"},
		{0},
	};

	log_init("rblkctl", LOG_INFO);
	fatal_init();
	move_subcommand_first(argc, argv);
	return args_run_subcommand("rblkctl", "Query and control a running rblkd.", table, argc,
				   argv);
}
