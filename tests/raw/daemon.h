/* SPDX-License-Identifier: BSD-3-Clause */
/* A rblkd as a child process in a scratch folder. Everything runs on the test's one thread, and
 * a daemon that misbehaves fails the test. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

struct json_object;

struct daemon {
	pid_t pid;
	bool is_terminated, keeps_state;
	bool has_ended; /* status is waitpid's status then */
	int status;
	pid_t successor; /* between daemon_begin_upgrade and daemon_end_upgrade */
	uint16_t port;
	uint16_t second_port; /* of a second portal, q; 0: there is none */
	char folder[64];      /* holds its configuration, socket, log and disk image */
};

enum {
	/* Namespaces of RAW_SUBNQN; no others exist. */
	DAEMON_RAM = 1,	      /* 16 MiB, 512 */
	DAEMON_FILE = 2,      /* 16 MiB, 4096 */
	DAEMON_READ_ONLY = 3, /* 1 MiB file, 512 */
	DAEMON_BIG_RAM = 4,   /* 256 MiB, 4096 */
	DAEMON_ANA_GROUP = 7,
};

/* tuning: more keys of that section, ", workers: 1", or "". */
void daemon_start(struct daemon *d, const char *tuning);
/* The same with more keys of the section limits. */
void daemon_start_limited(struct daemon *d, const char *tuning, const char *limits);
/* The host RAW_HOSTNQN must authenticate with this secret. limits: as above. */
void daemon_start_with_secret(struct daemon *d, const char *secret);
void daemon_start_with_secret_limited(struct daemon *d, const char *secret, const char *limits);
/* With two portals, p and q, and ANA groups: DAEMON_RAM and DAEMON_READ_ONLY are in group 1, the
 * others in DAEMON_ANA_GROUP, which is non_optimized through p and inaccessible through q; group
 * 9 is empty. */
void daemon_start_ana(struct daemon *d);
/* The empty configuration, open for writing; the caller closes it. */
FILE *daemon_open_config(const struct daemon *d);
/* With two portals, and a configuration that `write` puts into d->folder. */
void daemon_start_configured(struct daemon *d, void (*write)(const struct daemon *d));
/* With a state directory. */
void daemon_start_keeping(struct daemon *d);
/* Ends it with kill -9, and starts it again with the state that it has kept. */
void daemon_kill_and_restart(struct daemon *d);
/* Ends it with SIGTERM, which must end with 0 within some seconds, and starts it again. */
void daemon_restart(struct daemon *d);
/* Another process takes over, by the method of rblkctl upgrade; d is that one afterwards. The
 * caller is a subreaper (prctl). */
void daemon_upgrade(struct daemon *d);
/* The two halves of it. */
void daemon_begin_upgrade(struct daemon *d);
void daemon_end_upgrade(struct daemon *d);
/*
 * Starts a daemon that has ended, and waits: true when it is ready, though perhaps without its
 * portal; false when it has ended, *ret_status is waitpid's status then.
 */
bool daemon_try(struct daemon *d, int *ret_status);
/* Whether it has ended by itself; *ret_status is waitpid's status then. */
bool daemon_has_ended(struct daemon *d, int *ret_status);
/* Sends SIGTERM if it was not sent, and waits; returns waitpid's status. Kills it after some
 * seconds. */
int daemon_end(struct daemon *d);
/* Removes the folder. */
void daemon_remove(struct daemon *d);
void daemon_show_log(const struct daemon *d);
/* Sends SIGTERM and does not wait. */
void daemon_terminate(struct daemon *d);
/* Sends SIGTERM if it was not sent; rblkd must end with 0 within some seconds. */
void daemon_stop(struct daemon *d);
/* The answer to a method without parameters, as rblkctl calls it; it must succeed. The caller owns
 * it. */
struct json_object *daemon_ask(const struct daemon *d, const char *method);
/* Commands that its I/O queues have received, Connect among them. */
uint64_t daemon_n_commands(const struct daemon *d);
/* The number of its queue pairs. */
unsigned daemon_n_connections(const struct daemon *d);
/* Waits until it has no queue pairs. */
void daemon_wait_empty(const struct daemon *d);
bool daemon_has_logged(const struct daemon *d, const char *text);
/* The number of lines of the log that contain the text. */
unsigned daemon_n_logged(const struct daemon *d, const char *text);
/* Waits until there is one such line; until there are n. */
void daemon_wait_logged(const struct daemon *d, const char *text);
void daemon_wait_logged_again(const struct daemon *d, const char *text, unsigned n);
/* Waits until the namespaces in RAM are registered memory, which begins after the start. */
void daemon_wait_registered(const struct daemon *d);
