/* SPDX-License-Identifier: BSD-3-Clause */
/* A rblkd of our own, as a child process in a scratch folder. Fails the test when it misbehaves. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct daemon {
	pid_t pid;
	bool is_terminated, keeps_state;
	bool has_ended; /* status is waitpid's then */
	int status;
	uint16_t port;
	uint16_t second_port; /* of a second portal, q; 0: there is none */
	char folder[64];      /* holds its configuration, socket, log and disk image */
};

enum {
	/* Namespaces of RAW_SUBNQN; anything else does not exist. */
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
/* The host RAW_HOSTNQN must prove to have this secret. limits: as above. */
void daemon_start_with_secret(struct daemon *d, const char *secret);
void daemon_start_with_secret_limited(struct daemon *d, const char *secret, const char *limits);
/* With two portals, p and q, and ANA groups: DAEMON_RAM and DAEMON_READ_ONLY are in group 1, the
 * others in DAEMON_ANA_GROUP, which is non_optimized through p and inaccessible through q; group
 * 9 is empty. */
void daemon_start_ana(struct daemon *d);
/* With two portals, and a configuration that write puts into d->folder. */
void daemon_start_configured(struct daemon *d, void (*write)(const struct daemon *d));
/* With a state directory. */
void daemon_start_keeping(struct daemon *d);
/* kill -9, and the same again with what it has kept. */
void daemon_kill_and_restart(struct daemon *d);
/* SIGTERM, which must end with 0 within some seconds; and the same again. */
void daemon_restart(struct daemon *d);
/*
 * Starts one that was ended again, and waits: true when it is ready, though perhaps without its
 * portal; false when it has ended, *ret_status is waitpid's then.
 */
bool daemon_try(struct daemon *d, int *ret_status);
/* Whether it has ended by itself; *ret_status is waitpid's then. */
bool daemon_has_ended(struct daemon *d, int *ret_status);
/* SIGTERM if it has not been sent, and waits; waitpid's status. It is killed after some seconds. */
int daemon_end(struct daemon *d);
/* The folder goes. */
void daemon_remove(struct daemon *d);
void daemon_show_log(const struct daemon *d);
/* Sends SIGTERM and does not wait. */
void daemon_terminate(struct daemon *d);
/* SIGTERM, if it was not sent before; it must end with 0 within some seconds. */
void daemon_stop(struct daemon *d);
/* Queue pairs that it has. */
unsigned daemon_n_connections(const struct daemon *d);
/* Waits until there are none. */
void daemon_wait_empty(const struct daemon *d);
bool daemon_has_logged(const struct daemon *d, const char *text);
/* Lines of the log with that in them. */
unsigned daemon_n_logged(const struct daemon *d, const char *text);
/* Waits until there is one; until there are n. */
void daemon_wait_logged(const struct daemon *d, const char *text);
void daemon_wait_logged_again(const struct daemon *d, const char *text, unsigned n);
/* Waits until the namespaces in RAM are registered memory: that begins when it starts. */
void daemon_wait_registered(const struct daemon *d);
