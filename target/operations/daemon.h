/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rblkd between its command line and its end: start, signals, stop, and the succession from one
 * process to the next (succession/predecessor.h and successor.h). Control thread.
 *
 * Start: backends and snapshot, pollers, control socket, and only then portals: a host that
 * connects finds everything ready (R11: a host that is refused a moment too early never retries). A
 * successor begins with pollers and portals, and does the rest when its predecessor has let go.
 *
 * Change (SIGHUP): the file is read again and applied, or rejected; see apply.c.
 *
 * Stop (SIGTERM, SIGINT): portals close, each connection finishes its commands and is disconnected,
 * at the latest after 5 s. With the last freed connection the stores are synced, and then the loop
 * ends. A store that cannot be synced makes the exit status 1. A second signal ends the process at
 * once.
 */
#pragma once

#include "base/conf.h"
#include "base/error.h"
#include "target/config/config.h"
#include "target/engine/record/target.h"
#include "target/export/last_sync.h"
#include "target/operations/succession/predecessor.h"
#include "target/operations/succession/successor.h"

struct daemon {
	/* Thread: control */
	struct target target;
	struct target_config config;	/* owned; the caller has read it */
	struct conf *conf;		/* owned; likewise */
	struct state_directory *state;	/* owned; NULL: none */
	struct state_directory *groups; /* owned; NULL: no group has an owner by lock */
	struct loop_fd signals;
	struct loop_timer finish_timer;
	struct loop_timer apply_timer; /* while an apply waits for stores that open */
	struct last_sync last_sync;
	struct predecessor predecessor;
	struct successor successor;
};

/* The options of the command line; borrowed. */
struct daemon_options {
	char *const *argv;
	const char *config_path;
	const char *control_socket; /* NULL: the configuration's */
	bool is_log_level_given;
};

/* EXIT_OK: it runs, once the loop of the target does; otherwise the reason is printed. The caller
 * calls daemon_end in either case. */
enum exit_code daemon_start(struct daemon *d, const struct daemon_options *options);
/* In reverse order; accepts one that was half started. Returns the exit code of a process whose
 * start or run had this one. Does not return if queues are stranded, or if a successor fails, for
 * which this process then starts again. */
enum exit_code daemon_end(struct daemon *d, enum exit_code code);
