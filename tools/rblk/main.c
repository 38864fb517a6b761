/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rblk, the initiator's command line. Every attached namespace is a process of its own, the volume
 * process (`rblk serve`, which `attach` starts in the background); the other subcommands find those
 * processes by their control sockets in the run directory. There is no other state.
 */
#include <stddef.h>
#include <sys/prctl.h>

#include "base/args.h"
#include "base/fatal.h"
#include "base/log.h"
#include "base/output.h"
#include "tools/rblk/arguments.h"
#include "tools/rblk/commands.h"

static const struct subcommand commands[] = {
	{"discover", discover_main, "show what a target offers to this host"},
	{"attach", attach_main, "attach a namespace, as /dev/nbdN or as an NBD socket"},
	{"detach", detach_main, "flush and detach a volume, or all"},
	{"list", list_main, "list attached volumes"},
	{"status", status_main, "show everything about attached volumes"},
	{"stats", stats_main, "show I/O counts, rates and latency of attached volumes"},
	{"metrics", metrics_main, "print the metrics of attached volumes for Prometheus"},
	{"capture", capture_main, "write a volume's next commands and responses to a pcapng file"},
	{"path add", path_add_main, "add a path to a volume"},
	{"path remove", path_remove_main, "remove a path from a volume, without a pause"},
	{"serve", serve_main, "attach a namespace in the foreground and serve it by NBD"},
	{"doctor", doctor_main, "look for what is wrong: machine, target, volumes"},
	{"bench", bench_main, "measure a namespace, without NBD"},
	{NULL, NULL, NULL},
};

int main(int argc, char **argv)
{
	int code;

	log_init("rblk", LOG_INFO);
	prctl(PR_SET_NAME, "rblk"); /* after a second start the name would be "exe" */
	fatal_init();
	if (arguments_keep(argc, argv) < 0)
		return fail_with("rblk", EXIT_FAILED, NULL, "out of memory");
	code = args_run_subcommand("rblk", "NVMe over RDMA volumes in user space", commands, argc,
				   argv);
	arguments_free();
	return code;
}
