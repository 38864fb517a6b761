/* SPDX-License-Identifier: BSD-3-Clause */
/* For the tests of the initiator: fake targets as child processes, and volumes on one loop.
 * Everything runs on the test's one thread. The caller owns the structs; a function that cannot
 * do its work fails the test. */
#pragma once

#include <stdio.h>
#include <sys/types.h>

#include "initiator/control/volume.h"

enum {
	WORLD_ARGS = 16,
	WORLD_IOS = 64,
	IO_BYTES = 64 * 1024,
};

struct target {
	pid_t pid;
	unsigned port;
	int in_fd;
	FILE *out;
	char rule[64]; /* its first argument, for messages */
};

/* args ends with NULL; port 0: any. */
void target_start(struct target *target, unsigned port, const char *const *args);
/* Returns how many commands it has held so far (the action `hold`). */
unsigned target_say(struct target *target, const char *line);
/* Ends the process; fails the test unless it exits with 0. */
void target_stop(struct target *target);
/* The same with another code: 3 for violations of the protocol. */
void target_stop_with(struct target *target, int wanted);
void target_kill(struct target *target);

struct client {
	struct volume *volume;
	struct volume_config config;
	struct volume_queue *queue;
	bool is_opened, has_failed, is_closed, is_removed, is_changed;
	unsigned n_lost; /* times its state became RECONNECTING */
	enum volume_state state;
	struct error error;
};

extern struct loop world;

/* Set-up and tear-down of each test. */
int world_setup(void **state);
int world_teardown(void **state);
/* Runs the loop until *flag is set; fails the test on timeout. */
void world_wait(const bool *flag, unsigned timeout_ms, const char *what);
/* Runs the loop until the client has lost its target n times; fails the test if it loses it more
 * often. */
void world_wait_lost(const struct client *client, unsigned n);
void world_run(unsigned ms);

/*
 * Defaults for tests: one queue; timeouts that a busy machine does not reach. A test of a timeout
 * sets its own.
 */
void client_init(struct client *client, unsigned port);
void client_open(struct client *client);
/* Opens, expects success, adds a queue. */
void client_open_with_queue(struct client *client);
void client_wait_state(struct client *client, enum volume_state state, unsigned timeout_ms);
/* Removes the queue, if there is one, and closes. */
void client_close(struct client *client);

struct job {
	struct volume_io io;
	struct client *client;
	bool is_done;
	int result;
};
/* buffer is NULL for operations without data. job_prepare submits nothing. */
void job_prepare(struct job *job, struct client *client, enum volume_op op, uint64_t offset,
		 uint64_t length, void *buffer);
void job_start(struct job *job, struct client *client, enum volume_op op, uint64_t offset,
	       uint64_t length, void *buffer);
int job_wait(struct job *job, unsigned timeout_ms);
int do_io(struct client *client, enum volume_op op, uint64_t offset, uint64_t length, void *buffer);
void fill_pattern(uint8_t *p, size_t n, unsigned seed);
/* Writes n bytes of a pattern, reads them back and compares. */
void write_and_read(struct client *client, uint64_t offset, size_t n, unsigned seed);
