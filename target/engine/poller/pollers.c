/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pollers: creates, runs and stops their threads; see pollers.h. poller_device.c has their shares
 * of each RDMA device, poller_memory.c their buffers.
 *
 * Life. pollers_start makes all of them before the first portal listens. pollers_stop runs when no
 * queue is left: the pollers stop polling, their threads end, and the control thread frees them.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/cpus.h"
#include "base/rcu.h"
#include "base/ticks.h"
#include "target/engine/poller/poller.h"
#include "target/engine/poller/poller_device.h"
#include "target/engine/poller/poller_memory.h"
#include "target/engine/poller/pollers.h"
#include "target/engine/record/target.h"
#include "target/store/thread.h"

enum {
	BACKEND_DEPTH = 512, /* iocbs in flight, of each poller */
};

/* ---- threads ------------------------------------------------------------------------------ */

static const struct loop_hooks rcu_hooks = {
	.on_turn = rcu_quiescent,
	.before_sleep = rcu_offline,
	.after_sleep = rcu_online,
};

static void *run(void *arg)
{
	struct poller *poller = arg;
	char name[16];

	snprintf(name, sizeof(name), "poller-%u", poller->index);
	pthread_setname_np(pthread_self(), name);
	rcu_register_reader();
	loop_run(&poller->loop);
	rcu_unregister_reader();
	return NULL;
}

static void on_stop(struct loop_msg *msg)
{
	struct poller *poller = container_of(msg, struct poller, stop);

	for (unsigned i = 0; i < DEVICE_MAX; i++)
		poller_device_stop(&poller->devices[i]);
	loop_timer_stop(&poller->stall);
	loop_timer_stop(&poller->aging);
	loop_timer_stop(&poller->throttle);
	loop_stop(&poller->loop);
}

/* For a capture, which lasts longer than a command. */
static uint64_t ns_between_ticks(uint64_t from, uint64_t to)
{
	return ticks_to_ns_long(to - from);
}

int poller_init(struct poller *poller, struct target *target, unsigned index)
{
	int r;

	check(index < POLLERS_MAX);
	*poller = (struct poller){.target = target, .index = index, .stop = {.run = on_stop}};
	capture_init(&poller->capture, ns_between_ticks);
	list_init(&poller->queues);
	r = loop_init(&poller->loop, target->config->tuning.spin, &rcu_hooks);
	loop_rest(&poller->loop, true);
	if (r == 0)
		r = poller_make_memory(poller);
	if (r == 0)
		r = backend_thread_new(&poller->loop, index, BACKEND_DEPTH, &poller->backends);
	return r;
}

static int poller_start(struct poller *poller, struct target *target, unsigned index,
			void (*prepare)(struct poller *poller))
{
	int r = poller_init(poller, target, index);

	if (r < 0)
		return r;
	prepare(poller);
	r = -pthread_create(&poller->thread, NULL, run, poller);
	poller->has_thread = r == 0;
	return r;
}

static unsigned choose_n_pollers(const struct config_tuning *tuning)
{
	unsigned n_cores = cpus_usable();

	if (tuning->workers)
		return (unsigned)MIN(tuning->workers, POLLERS_MAX);
	return MAX(1, MIN(n_cores, (unsigned)POLLERS_MAX));
}

int pollers_start(struct target *target, void (*prepare)(struct poller *poller))
{
	target->n_pollers = choose_n_pollers(&target->config->tuning);
	target->pollers = aligned_alloc(64,
					align_up(target->n_pollers * sizeof(struct poller), 64));
	if (!target->pollers)
		return log_errno(-ENOMEM, "cannot make the pollers");
	memset(target->pollers, 0, target->n_pollers * sizeof(struct poller));
	for (unsigned i = 0; i < target->n_pollers; i++) {
		int r = poller_start(&target->pollers[i], target, i, prepare);

		if (r < 0)
			return log_errno(r, "cannot start poller %u", i);
	}
	return 0;
}

void poller_deinit(struct poller *poller)
{
	for (unsigned i = 0; i < DEVICE_MAX; i++)
		poller_device_free(&poller->devices[i]);
	backend_thread_free(poller->backends);
	capture_deinit(&poller->capture);
	poller_free_memory(poller);
	loop_deinit(&poller->loop);
}

void pollers_halt(struct target *target)
{
	for (unsigned i = 0; target->pollers && i < target->n_pollers; i++)
		if (target->pollers[i].has_thread)
			loop_send(&target->pollers[i].loop, &target->pollers[i].stop);
	for (unsigned i = 0; target->pollers && i < target->n_pollers; i++) {
		if (target->pollers[i].has_thread)
			pthread_join(target->pollers[i].thread, NULL);
		target->pollers[i].has_thread = false;
	}
}

void pollers_stop(struct target *target)
{
	pollers_halt(target);
	for (unsigned i = 0; target->pollers && i < target->n_pollers; i++)
		poller_deinit(&target->pollers[i]);
	free(target->pollers);
	target->pollers = NULL;
}

struct poller *pollers_choose(struct target *target)
{
	struct poller *best = &target->pollers[0];

	for (unsigned i = 1; i < target->n_pollers; i++)
		if (target->pollers[i].n_queues < best->n_queues)
			best = &target->pollers[i];
	return best;
}
