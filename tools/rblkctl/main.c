/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rblkctl calls a running rblkd over its control socket and shows the answer: as tables for people,
 * as JSON for scripts. Most subcommands are one call, and a row here (call.c); what they print, and
 * the others, is in a file of their name. They share options.c, client.c (the call), answer.c
 * (members of the answer), table.c and terminal.c. Only this file knows all subcommands.
 */
#include <string.h>

#include "base/args.h"
#include "base/bits.h"
#include "base/fatal.h"
#include "base/log.h"
#include "tools/rblkctl/rblkctl.h"

/* A call that is all of a subcommand is a row: the line of --help, the summary, the method, how
 * words and options become parameters, and what shows the answer. */
static const struct command commands[] = {
	{"status", "show daemon status and problems", .method = "status",
	 .summary = "Show the status and problems of rblkd. Exits with 6 if there is a problem.",
	 .show = show_status, .code = code_of_status},
	{"list", "list subsystems, namespaces, hosts, connections or portals", .method = "list",
	 .summary = "List subsystems (the default), namespaces, hosts, connections or portals.",
	 .params = {{"what", PARAM_TEXT, "KIND", true}}, .accept = check_list, .show = show_list},
	{"stats", "show I/O rates and latency", run_stats},
	{"capsules", "show the last commands and responses of each queue", .method = "capsules",
	 .summary =
		 "Show the last commands and responses of these controllers or queues, or of all.",
	 .params = {{"queues", PARAM_TEXTS, "CNTLID[/QUEUE]...", true, 64}},
	 .options = {{"count", 'n', ARG_UINT, NULL, "N",
		      "so many of each queue; by default 32, which is all that are kept", 1, 32}},
	 .show = show_capsules},
	{"capture", "write the next commands and responses to a pcapng file", run_capture},
	{"diff", "show what applying the configuration would change", run_diff},
	{"apply", "apply the configuration, all of it or nothing", run_apply},
	{"clear", "acknowledge disk errors", .method = "clear",
	 .summary =
		 "Acknowledge disk errors of all namespaces, of a subsystem, or of one namespace.",
	 .params = {{"name", PARAM_TEXT, "NQN[/NSID]", true}}, .show = show_cleared},
	{"drain", "close a portal and let its connections finish", run_drain},
	/* rblkd refuses to shrink without --force: hosts would lose the blocks at the end. */
	{"ns resize", "announce a new namespace size to hosts", .method = "ns_resize",
	 .summary =
		 "Announce the new size of a file or device to hosts; with SIZE, first grow the file to it.",
	 .params = {{"subsystem", PARAM_TEXT, "NQN"},
		    {"nsid", PARAM_NUMBER, "NSID"},
		    {"size_bytes", PARAM_SIZE, "SIZE", true}},
	 .options = {{"force", 0, ARG_FLAG, NULL, NULL, "also if it has become smaller"}},
	 .show = show_resized},
	{"ana list", "list ANA groups and their states", .method = "ana_list",
	 .summary =
		 "List the ANA groups of one subsystem, or of all, with their state on each portal.",
	 .params = {{"subsystem", PARAM_TEXT, "NQN", true}}, .show = show_ana},
	/* rblkd checks STATE. Without a portal it is set through all of them. */
	{"ana set", "set the state of an ANA group", .method = "ana_set",
	 .summary =
		 "Set an ANA group to optimized, non_optimized, inaccessible, persistent_loss or change, until rblkd restarts.",
	 .params = {{"subsystem", PARAM_TEXT, "NQN"},
		    {"group", PARAM_NUMBER, "GROUP"},
		    {"state", PARAM_TEXT, "STATE"}},
	 .options = {{"portal", 0, ARG_STRING, NULL, "NAME", "set the state on this portal only"}},
	 .show = show_ana_set},
	{"qos list", "show rate limits and current rates", run_qos_list},
	{"qos set", "change rate limits of a namespace or host", .method = "qos_set",
	 .summary =
		 "Set rate limits of a namespace or host: iops, read_bandwidth, write_bandwidth, burst; none removes a limit. The configuration file does not change.",
	 .params = {{"name", PARAM_TEXT, "NQN/NSID|HOST"},
		    {"qos", PARAM_PAIRS, "KEY=VALUE...", .n_max = 4}},
	 .show = show_qos_set},
	{"host disconnect", "end the associations of a host", .method = "host_disconnect",
	 .summary =
		 "End all associations of a host now, named by its NQN or as in the configuration. It may connect again.",
	 .params = {{"host", PARAM_TEXT, "NQN"}}, .show = show_ended},
	/* A name that does not exist is an error (4); one without registrants is not. */
	{"registrant list", "list hosts registered for reservations", .method = "registrant_list",
	 .summary =
		 "List the hosts that have registered for reservations: at all namespaces, at those of a subsystem, or at one.",
	 .params = {{"name", PARAM_TEXT, "NQN[/NSID]", true}}, .show = show_registrants},
	{"registrant drop", "end the registration of a host", run_registrant_drop},
	/* Groups that are always of this rblkd are in ana list alone. */
	{"group list", "list groups with one owner of several rblkd", .method = "group_list",
	 .summary =
		 "List the groups with owner: lock, and whether this rblkd is their owner or stands by.",
	 .show = show_groups},
	{"group give", "let another rblkd become the owner of a group", run_group_give},
	{"upgrade", "let a newer rblkd take over, without a pause for hosts", run_upgrade},
	{"gen-key", "generate a DH-HMAC-CHAP secret", run_gen_key},
	{0},
};

/* Whether an option that may stand in front of a subcommand has a value. */
static bool takes_next(const char *option)
{
	return !strcmp(option, "--socket") || !strcmp(option, "-s") ||
	       !strcmp(option, "--output") || !strcmp(option, "-o");
}

/* Subcommands of two words begin so. */
static bool is_first_of_two(const char *word)
{
	size_t n = strlen(word);

	for (const struct command *c = commands; c->name; c++)
		if (!strncmp(c->name, word, n) && c->name[n] == ' ')
			return true;
	return false;
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
	struct subcommand table[ARRAY_LEN(commands)] = {0};

	for (unsigned i = 0; commands[i].name; i++)
		table[i] = (struct subcommand){commands[i].name, commands[i].run, commands[i].help,
					       call_run, &commands[i]};
	log_init("rblkctl", LOG_INFO);
	fatal_init();
	move_subcommand_first(argc, argv);
	return args_run_subcommand("rblkctl", "Query and control a running rblkd.", table, argc,
				   argv);
}
