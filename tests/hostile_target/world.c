/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fake targets as child processes (so that they can die), and clients: a volume with its callbacks
 * and one queue. All of it runs on one loop of this thread, so that a test reads from top to
 * bottom.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/bits.h"
#include "base/clock.h"
#include "initiator/control/volume.h"
#include "tests/hostile_target/world.h"

enum {
	PATIENCE_S = 120, /* for a busy machine and sanitizers */
	REAP_S = 120,
};

extern char **environ;
struct loop world;

/* ---- targets ---- */

void target_start(struct target *target, unsigned port, const char *const *args)
{
	int to[2], from[2], n = 0;
	char port_arg[32], line[32];
	const char *argv[WORLD_ARGS + 3];
	posix_spawn_file_actions_t actions;

	assert_int_equal(pipe2(to, O_CLOEXEC), 0);
	assert_int_equal(pipe2(from, O_CLOEXEC), 0);
	snprintf(port_arg, sizeof(port_arg), "port=%u", port);
	argv[n++] = getenv("FAKE_TARGET");
	argv[n++] = port_arg;
	for (int i = 0; args && args[i]; i++)
		argv[n++] = args[i];
	argv[n] = NULL;
	assert_non_null(argv[0]);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, to[0], 0);
	posix_spawn_file_actions_adddup2(&actions, from[1], 1);
	assert_int_equal(posix_spawn(&target->pid, argv[0], &actions, NULL,
				     (char *const *)(void *)argv, environ),
			 0);
	posix_spawn_file_actions_destroy(&actions);
	close(to[0]);
	close(from[1]);
	target->in_fd = to[1];
	snprintf(target->rule, sizeof(target->rule), "%s", args && args[0] ? args[0] : "");
	target->out = fdopen(from[0], "r");
	assert_non_null(fgets(line, sizeof(line), target->out));
	assert_int_equal(sscanf(line, "port %u", &target->port), 1);
}

unsigned target_say(struct target *target, const char *line)
{
	char answer[16];
	unsigned n_held = 0;

	dprintf(target->in_fd, "%s\n", line);
	assert_non_null(fgets(answer, sizeof(answer), target->out));
	assert_int_equal(sscanf(answer, "ok %u", &n_held), 1);
	return n_held;
}

static int reap(struct target *target)
{
	uint64_t until = clock_ns() + REAP_S * NSEC_PER_SEC;
	int status = 0;

	while (waitpid(target->pid, &status, WNOHANG) != target->pid) {
		usleep(10000);
		if (clock_ns() > until)
			kill(target->pid, SIGKILL);
	}
	fclose(target->out);
	target->pid = 0;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void target_stop_with(struct target *target, int wanted)
{
	int code;

	close(target->in_fd);
	code = reap(target);
	if (code != wanted)
		fail_msg("the target with '%s' exits with %d, not %d", target->rule, code, wanted);
}

void target_stop(struct target *target)
{
	target_stop_with(target, 0);
}

void target_kill(struct target *target)
{
	kill(target->pid, SIGKILL);
	close(target->in_fd);
	reap(target);
}

/* ---- the loop ---- */

int world_setup(void **state)
{
	return loop_init(&world, 0, NULL);
}

int world_teardown(void **state)
{
	loop_deinit(&world);
	return 0;
}

void world_wait(const bool *flag, unsigned timeout_ms, const char *what)
{
	uint64_t until = clock_ns() + MAX(timeout_ms * NSEC_PER_MSEC, PATIENCE_S * NSEC_PER_SEC);

	while (!*flag && clock_ns() < until)
		loop_turn(&world, 10 * NSEC_PER_MSEC);
	if (!*flag)
		fail_msg("timed out waiting for %s", what);
}

void world_wait_lost(const struct client *client, unsigned n)
{
	uint64_t until = clock_ns() + PATIENCE_S * NSEC_PER_SEC;

	while (client->n_lost < n && clock_ns() < until)
		loop_turn(&world, 10 * NSEC_PER_MSEC);
	assert_int_equal(client->n_lost, n);
}

void world_run(unsigned ms)
{
	uint64_t until = clock_ns() + ms * NSEC_PER_MSEC;

	while (clock_ns() < until)
		loop_turn(&world, NSEC_PER_MSEC);
}

/* ---- clients ---- */

static void on_opened(void *context, const struct error *error)
{
	struct client *client = context;

	client->is_opened = true;
	client->has_failed = error;
	if (error)
		client->error = *error;
}

static void on_state(void *context, enum volume_state state)
{
	struct client *client = context;

	client->state = state;
	client->n_lost += state == VOLUME_RECONNECTING;
}

static void on_changed(void *context)
{
	((struct client *)context)->is_changed = true;
}

static void on_closed(void *context)
{
	((struct client *)context)->is_closed = true;
}

static const struct volume_callbacks callbacks = {
	.on_opened = on_opened,
	.on_state = on_state,
	.on_changed = on_changed,
	.on_closed = on_closed,
};

void client_init(struct client *client, unsigned port)
{
	struct volume_config *config = &client->config;

	*client = (struct client){0};
	volume_config_init(config);
	config->address.in = (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	snprintf(config->subnqn, sizeof(config->subnqn), "nqn.2026-01.test:fake");
	snprintf(config->hostnqn, sizeof(config->hostnqn), "nqn.2026-01.test:host");
	uuid_generate_random(config->hostid);
	config->n_queues = 1;
	config->queue_size = 32;
	config->slab_bytes = 8 << 20;
	config->keep_alive_ns = 10 * NSEC_PER_SEC;
	config->reconnect_delay_ns = 200 * NSEC_PER_MSEC;
	config->ctrl_loss_tmo_ns = 30 * NSEC_PER_SEC;
	config->io_timeout_ns = 10 * NSEC_PER_SEC;
}

void client_open(struct client *client)
{
	assert_int_equal(volume_open(&world, &client->config, &callbacks, client, &client->volume),
			 0);
}

void client_open_with_queue(struct client *client)
{
	client_open(client);
	world_wait(&client->is_opened, 15000, "opening");
	if (client->has_failed)
		fail_msg("%s", client->error.message);
	assert_int_equal(volume_queue_add(client->volume, &world, &client->queue), 0);
}

void client_wait_state(struct client *client, enum volume_state state, unsigned timeout_ms)
{
	uint64_t until = clock_ns() + MAX(timeout_ms * NSEC_PER_MSEC, PATIENCE_S * NSEC_PER_SEC);
	struct volume_status status;

	do {
		loop_turn(&world, 10 * NSEC_PER_MSEC);
		volume_get_status(client->volume, &status);
		if (status.state == state)
			return;
	} while (clock_ns() < until);
	fail_msg("state is %s, not %s: %s", volume_state_name(status.state),
		 volume_state_name(state), status.last_error.message);
}

static void on_removed(void *context)
{
	((struct client *)context)->is_removed = true;
}

void client_close(struct client *client)
{
	if (client->queue) {
		volume_queue_remove(client->queue, on_removed, client);
		world_wait(&client->is_removed, 10000, "removing the queue");
	}
	volume_close(client->volume);
	world_wait(&client->is_closed, 15000, "closing");
}

/* ---- I/O ---- */

static void on_done(struct volume_io *io, int error)
{
	struct job *job = container_of(io, struct job, io);

	job->is_done = true;
	job->result = error;
}

void job_prepare(struct job *job, struct client *client, enum volume_op op, uint64_t offset,
		 uint64_t length, void *buffer)
{
	*job = (struct job){
		.io = {.op = op,
		       .offset = offset,
		       .length = length,
		       .buffer = buffer,
		       .done = on_done},
		.client = client,
	};
}

void job_start(struct job *job, struct client *client, enum volume_op op, uint64_t offset,
	       uint64_t length, void *buffer)
{
	job_prepare(job, client, op, offset, length, buffer);
	volume_io_submit(client->queue, &job->io);
	assert_false(job->is_done);
}

int job_wait(struct job *job, unsigned timeout_ms)
{
	world_wait(&job->is_done, timeout_ms, "an I/O");
	return job->result;
}

int do_io(struct client *client, enum volume_op op, uint64_t offset, uint64_t length, void *buffer)
{
	struct job job;

	job_start(&job, client, op, offset, length, buffer);
	return job_wait(&job, 20000);
}

void fill_pattern(uint8_t *p, size_t n, unsigned seed)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)(i * 7 + (i >> 9) + seed);
}

void write_and_read(struct client *client, uint64_t offset, size_t n, unsigned seed)
{
	uint8_t *out = volume_buffer_take(client->queue, n);
	uint8_t *in = volume_buffer_take(client->queue, n);

	assert_non_null(out);
	assert_non_null(in);
	fill_pattern(out, n, seed);
	memset(in, 0xee, n);
	assert_int_equal(do_io(client, VOLUME_WRITE, offset, n, out), 0);
	assert_int_equal(do_io(client, VOLUME_READ, offset, n, in), 0);
	assert_memory_equal(in, out, n);
	volume_buffer_give(client->queue, out);
	volume_buffer_give(client->queue, in);
}
