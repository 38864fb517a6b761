/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The target and the initiator in one thread, over softrdma, under a clock, a seed and a scheduler
 * of this test: the seed decides what runs next, and time moves only when the test moves it.
 * softrdma itself runs in real time, so the test turns its loops until the awaited event occurs.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/conf_read.h"
#include "base/conf_report.h"
#include "base/random.h"
#include "base/ticks.h"
#include "initiator/control/volume.h"
#include "target/association/portal.h"
#include "target/config/check.h"
#include "target/config/config.h"
#include "target/config/schema.h"
#include "target/engine/poller/poller.h"
#include "target/engine/poller/poller_device.h"
#include "target/engine/poller/pollers.h"
#include "target/engine/request/request_poller.h"
#include "target/operations/life.h"
#include "tests/lib/free_port.h"

enum {
	PATIENCE_S = 120, /* of real time, then the test fails */
	BLOCK = 4096,
	SEEDS = 3,
	KEEP_ALIVE_S = 30,
};

#define SUBNQN "nqn.2026-01.org.example:one-process"

static const char config_text[] = "version: 1\n"
				  "tuning: {workers: 1, buffers: 4MiB}\n"
				  "portals: [{name: a, address: 127.0.0.1, port: %u}]\n"
				  "subsystems:\n"
				  "  - nqn: " SUBNQN "\n"
				  "    allow_any_host: true\n"
				  "    namespaces: [{nsid: 1, ram: 1MiB}]\n";

static struct {
	struct target target;
	struct poller poller;
	struct target_config config;
	struct conf *conf;
	struct loop host;
	struct volume *volume;
	struct volume_queue *queue;
	bool is_opened, is_closed, is_removed, is_done;
	int result;
	uint64_t now_ns;
	uint64_t dice;
} sim;

/* rblkd's main.c decides in this hook whether to end; the test stops this target itself. */
static void check_stop(struct target *target)
{
}

/* ---- the seams ------------------------------------------------------------------------------ */

static uint64_t read_now(void)
{
	return __atomic_load_n(&sim.now_ns, __ATOMIC_RELAXED);
}

static void move_time(uint64_t ns)
{
	__atomic_add_fetch(&sim.now_ns, ns, __ATOMIC_RELAXED);
}

static unsigned choose(unsigned n)
{
	sim.dice = sim.dice * 6364136223846793005ULL + 1442695040888963407ULL;
	return (unsigned)(sim.dice >> 33) % n;
}

static const struct clock_source source = {read_now, read_now, move_time};

/* One turn of each running loop, in an order that the seed chooses. */
static void turn(bool with_host)
{
	struct loop *loops[] = {&sim.target.loop, &sim.poller.loop, &sim.host};
	unsigned n = with_host ? 3 : 2;

	while (n) {
		unsigned chosen = n > 1 ? choose(n) : 0;

		loop_turn(loops[chosen], 0);
		loops[chosen] = loops[--n];
	}
}

static uint64_t real_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

static void give_softrdma_a_turn(void)
{
	const struct timespec pause = {.tv_nsec = 20000};

	nanosleep(&pause, NULL);
}

static void await(bool (*is_so)(void), bool with_host, uint64_t step_ns)
{
	uint64_t until = real_ns() + PATIENCE_S * NSEC_PER_SEC;

	while (!is_so()) {
		if (real_ns() > until)
			fail_msg("waited for too long");
		turn(with_host);
		move_time(step_ns);
		give_softrdma_a_turn();
	}
}

/* ---- the target ----------------------------------------------------------------------------- */

static void start_target(unsigned port)
{
	const struct target_parts parts = {.config = &sim.config,
					   .pollers = &sim.poller,
					   .n_pollers = 1,
					   .check_stop = check_stop};
	char text[sizeof(config_text) + 16];
	int n = snprintf(text, sizeof(text), config_text, port);

	check(conf_read_text("sim.yaml", text, (size_t)n, &config_schema, &sim.config, stderr,
			     &sim.conf) == 0);
	config_check(&sim.config, "sim.yaml", sim.conf, stderr);
	check(conf_n_errors(sim.conf) == 0);
	check(target_init(&sim.target, &parts) == 0);
	check(poller_init(&sim.poller, &sim.target, 0) == 0);
	request_poller_prepare(&sim.poller);
	check(target_export(&sim.target, &(struct target_stock){0}, sim.conf) == 0);
	check(target_listen(&sim.target) == 0);
	check(portals_n_listening(&sim.target) == 1);
}

static bool has_no_controller(void)
{
	return list_is_empty(&sim.target.controllers) && list_is_empty(&sim.target.connections);
}

static void stop_target(void)
{
	target_close(&sim.target);
	await(has_no_controller, true, 0);
	poller_device_stop(&sim.poller.devices[0]);
	for (unsigned i = 0; i < 100; i++)
		turn(true);
	poller_deinit(&sim.poller);
	target_withdraw(&sim.target);
	target_deinit(&sim.target);
	conf_free(sim.conf);
	config_release(&sim.config);
}

/* ---- the host ------------------------------------------------------------------------------- */

static void on_opened(void *context, const struct error *error)
{
	if (error)
		fail_msg("%s", error->message);
	sim.is_opened = true;
}

static void on_closed(void *context)
{
	sim.is_closed = true;
}

static void on_removed(void *context)
{
	sim.is_removed = true;
}

static void on_nothing(void *context)
{
}

static void on_state(void *context, enum volume_state state)
{
}

static bool is_opened(void)
{
	return sim.is_opened;
}

static bool is_closed(void)
{
	return sim.is_closed;
}

static bool is_removed(void)
{
	return sim.is_removed;
}

static bool is_done(void)
{
	return sim.is_done;
}

static enum volume_state volume_state(void)
{
	struct volume_status status;

	volume_get_status(sim.volume, &status);
	return status.state;
}

static bool is_lost(void)
{
	return volume_state() == VOLUME_RECONNECTING;
}

static bool is_live(void)
{
	return volume_state() == VOLUME_LIVE;
}

static void open_volume(unsigned port)
{
	static const struct volume_callbacks callbacks = {on_opened, on_state, on_nothing,
							  on_closed};
	struct volume_config config;

	volume_config_init(&config);
	config.address.in = (struct sockaddr_in){.sin_family = AF_INET,
						 .sin_port = htons((uint16_t)port),
						 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	snprintf(config.subnqn, sizeof(config.subnqn), SUBNQN);
	snprintf(config.hostnqn, sizeof(config.hostnqn), "nqn.2026-01.org.example:host");
	check(random_uuid(config.hostid) == 0);
	config.n_queues = 1;
	config.keep_alive_ns = KEEP_ALIVE_S * NSEC_PER_SEC;
	config.ctrl_loss_tmo_ns = UINT64_MAX;
	assert_int_equal(loop_init(&sim.host, 0, NULL), 0);
	assert_int_equal(volume_open(&sim.host, &config, &callbacks, NULL, &sim.volume), 0);
	await(is_opened, true, 0);
	assert_int_equal(volume_queue_add(sim.volume, &sim.host, &sim.queue), 0);
}

static void close_volume(void)
{
	volume_queue_remove(sim.queue, on_removed, NULL);
	await(is_removed, true, 0);
	volume_close(sim.volume);
	await(is_closed, true, 0);
}

static void on_done(struct volume_io *io, int error)
{
	sim.result = error;
	sim.is_done = true;
}

static void run_io(enum volume_op op, uint64_t offset, void *buffer, uint64_t step_ns)
{
	struct volume_io io = {
		.op = op, .offset = offset, .length = BLOCK, .buffer = buffer, .done = on_done};

	sim.is_done = false;
	volume_io_submit(sim.queue, &io);
	await(is_done, true, step_ns);
	assert_int_equal(sim.result, 0);
}

static void write_and_read(uint64_t step_ns)
{
	uint8_t *buffer = volume_buffer_take(sim.queue, BLOCK);
	uint8_t was[BLOCK];

	assert_non_null(buffer);
	assert_int_equal(random_bytes(was, sizeof(was)), 0);
	memcpy(buffer, was, sizeof(was));
	run_io(VOLUME_WRITE, 3 * BLOCK, buffer, step_ns);
	memset(buffer, 0, BLOCK);
	run_io(VOLUME_READ, 3 * BLOCK, buffer, step_ns);
	assert_memory_equal(buffer, was, sizeof(was));
	volume_buffer_give(sim.queue, buffer);
}

/* ---- tests ---------------------------------------------------------------------------------- */

static void begin(uint64_t seed)
{
	unsigned port = free_port();

	memset(&sim, 0, sizeof(sim));
	sim.now_ns = 3600 * NSEC_PER_SEC;
	sim.dice = seed;
	random_seed(seed);
	clock_source = &source;
	loop_choose = choose;
	ticks_init();
	start_target(port);
	open_volume(port);
}

static void end(void)
{
	close_volume();
	stop_target();
	loop_deinit(&sim.host);
}

/* Connect, Write and Read wait for nothing but each other: the clock stands still. */
static void a_write_needs_no_time(void **state)
{
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		uint64_t began_ns;

		begin(seed);
		began_ns = sim.now_ns;
		write_and_read(0);
		assert_int_equal(sim.now_ns, began_ns);
		end();
	}
}

/* A host that is silent for the Keep Alive timeout loses its association, and reconnects:
 * minutes of virtual time pass in an instant. */
static void a_silent_host_is_lost_and_returns(void **state)
{
	begin(7);
	write_and_read(0);
	await(has_no_controller, false, NSEC_PER_SEC);
	assert_true(sim.now_ns > 3600 * NSEC_PER_SEC + KEEP_ALIVE_S * NSEC_PER_SEC);
	await(is_lost, true, NSEC_PER_MSEC);
	await(is_live, true, NSEC_PER_MSEC);
	write_and_read(NSEC_PER_USEC);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_write_needs_no_time),
		cmocka_unit_test(a_silent_host_is_lost_and_returns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
