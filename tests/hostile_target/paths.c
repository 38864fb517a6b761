/* SPDX-License-Identifier: BSD-3-Clause */
/* One volume with several paths, each to a fake target of its own. The namespaces are not one, so
 * nothing that is read is compared. */
#include "tests/hostile_target/paths.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "base/bits.h"
#include "base/clock.h"
#include "initiator/control/volume.h"

struct target targets[PATHS_MAX];
struct client client;
void *buffer;
const char *paths_arg;
static unsigned n_paths;

struct volume_status paths_status(void)
{
	struct volume_status status;

	volume_get_status(client.volume, &status);
	return status;
}

enum volume_path_state paths_state_of(unsigned path)
{
	return paths_status().paths[path].state;
}

void paths_wait(unsigned path, enum volume_path_state state)
{
	uint64_t until = clock_ns() + 120 * NSEC_PER_SEC;

	while (paths_state_of(path) != state && clock_ns() < until)
		loop_turn(&world, 10 * NSEC_PER_MSEC);
	if (paths_state_of(path) != state)
		fail_msg("path %u is %s: %s", path, volume_path_state_name(paths_state_of(path)),
			 paths_status().paths[path].last_error.message);
}

static void start(unsigned path, unsigned port, const char *const *args)
{
	char cntlid[32];
	const char *all[WORLD_ARGS] = {cntlid};

	snprintf(cntlid, sizeof(cntlid), "cntlid=%u", 1 + 1000 * path);
	unsigned n = 1;

	if (paths_arg)
		all[n++] = paths_arg;
	for (unsigned i = 0; args && args[i]; i++)
		all[n++] = args[i];
	target_start(&targets[path], port, all);
}

void paths_prepare(unsigned n, unsigned path, const char *const *args)
{
	n_paths = n;
	for (unsigned i = 0; i < n; i++)
		start(i, 0, i == path ? args : NULL);
	client_init(&client, targets[0].port);
	for (unsigned i = 1; i < n; i++) {
		client.config.others[i - 1] = client.config.address;
		client.config.others[i - 1].in.sin_port = htons((uint16_t)targets[i].port);
	}
	client.config.n_others = n - 1;
	client.config.policy = VOLUME_POLICY_ROUND_ROBIN;
	client.config.n_queues = 2;
}

/* There are as many reads as paths: one was sent again, or none had to be. */
void paths_kill(unsigned path)
{
	target_kill(&targets[path]);
	paths_wait(path, VOLUME_PATH_LOST);
	for (unsigned i = 0; i < n_paths; i++)
		assert_int_equal(do_io(&client, VOLUME_READ, 0, PIECE, buffer), 0);
}

void paths_start_again(unsigned path, const char *const *args)
{
	start(path, targets[path].port, args);
}

void paths_open_first(void)
{
	client_open_with_queue(&client);
	buffer = volume_buffer_take(client.queue, PIECE);
	assert_non_null(buffer);
	memset(buffer, 0x5a, PIECE);
}

void paths_open(void)
{
	paths_open_first();
	for (unsigned i = 0; i < n_paths; i++) {
		paths_wait(i, VOLUME_PATH_LIVE);
		while (!paths_status().paths[i].n_queues_live)
			loop_turn(&world, 10 * NSEC_PER_MSEC);
	}
}

void paths_begin(unsigned n, unsigned path, const char *const *args)
{
	paths_prepare(n, path, args);
	paths_open();
}

void paths_end(void)
{
	volume_buffer_give(client.queue, buffer);
	client_close(&client);
	for (unsigned i = 0; i < n_paths; i++)
		if (targets[i].pid)
			target_stop(&targets[i]);
}

int do_write(uint64_t offset)
{
	return do_io(&client, VOLUME_WRITE, offset, PIECE, buffer);
}

int do_flush(void)
{
	return do_io(&client, VOLUME_FLUSH, 0, 0, NULL);
}

void paths_write_to_each(void)
{
	for (unsigned i = 0; i < n_paths; i++)
		assert_int_equal(do_write(i * PIECE), 0);
}
