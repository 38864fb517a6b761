/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pollers: creates, runs and stops their threads, and hands out their buffers; see poller.h.
 * poller_device.c has their shares of each RDMA device.
 *
 * Life. pollers_start makes all of them before the first portal listens. pollers_stop runs when no
 * queue is left: the poller stops polling, its thread ends, and the control thread frees it.
 *
 * Memory. Each poller has one mapping, registered once with each device: a large arena for I/O, and
 * a small one for Connect and admin commands. So a slow disk that holds every I/O buffer does not
 * keep hosts from connecting or staying connected.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/cpus.h"
#include "base/rcu.h"
#include "target/store/backend.h"
#include "target/engine/controller.h"
#include "target/engine/poller.h"
#include "target/export/io_errors.h"
#include "target/engine/queue.h"
#include "target/engine/throttle.h"
#include "target/engine/request.h"
#include "target/engine/response.h"

enum {
	ADMIN_BYTES = 256 * 1024, /* in addition to one transfer of full size */
	BACKEND_DEPTH = 512,	  /* iocbs in flight, of each poller */
	STALL_S = 5,
	STALL_LOOK_S = 1,
};

/* ---- buffers ------------------------------------------------------------------------------ */

void buffer_give_taken(struct poller *poller, struct buffer *buffer)
{
	if (buffer_put(buffer))
		loop_defer(&poller->loop, &poller->resume);
}

static struct request *first_waiter(const struct arena *arena)
{
	struct fair_entry *entry = fair_first(&arena->waiters);

	return entry ? container_of(entry, struct request, turn) : NULL;
}

/* Whether the first waiter got its buffer and left the line. Otherwise the next queue has its turn,
 * unless the arena owes this waiter the next buffer. */
static bool resume_first(struct arena *arena)
{
	struct request *r = first_waiter(arena);
	enum buffer_result result = request_take_buffer(r);

	if (result == BUFFER_NEVER) {
		fair_remove(&r->turn);
		request_run(r, request_no_buffer(r));
		return true;
	}
	arena->is_exhausted = result == BUFFER_NONE && !r->may_be_passed;
	if (arena->is_exhausted)
		return false;
	fair_rotate(&arena->waiters);
	if (result != BUFFER_TAKEN)
		return false;
	fair_remove(&r->turn);
	request_run(r, REQUEST_TAKE_BUFFER);
	return true;
}

/* One buffer for each queue in each round, until a round gives none. */
static void resume_waiters(struct arena *arena)
{
	bool has_progress = true;

	arena->is_exhausted = false;
	while (has_progress && !arena->is_exhausted) {
		unsigned n = fair_n_flows(&arena->waiters);

		has_progress = false;
		while (n-- && !arena->is_exhausted && !fair_is_empty(&arena->waiters))
			has_progress |= resume_first(arena);
	}
}

static void on_resume(struct loop_call *call)
{
	struct poller *poller = container_of(call, struct poller, resume);

	resume_waiters(&poller->admin);
	resume_waiters(&poller->data);
}

/* ---- hosts that do not take their data ---------------------------------------------------- */

/*
 * A host that posts no receive for a response keeps the SEND in retry forever (RNR), and with it
 * buffers. If the SEND's data is namespace memory, a guard's visit waits as well. Tolerated until
 * another request waits; then the host has STALL_S seconds.
 */
static bool is_stalled(const struct poller *poller, uint64_t since_ns)
{
	return poller->loop.now_ns - since_ns >= STALL_S * NSEC_PER_SEC;
}

/*
 * The first waiter keeps later ones back, so that small requests do not take every piece of the
 * large buffer that it needs. If it got nothing for a whole period, a disk that hangs holds what it
 * needs: others may overtake it.
 */
static void look_at_blocker(struct poller *poller, struct arena *arena)
{
	struct request *first = arena->is_exhausted ? first_waiter(arena) : NULL;

	if (first && first == arena->blocker) {
		first->may_be_passed = true;
		first = NULL;
		loop_defer(&poller->loop, &poller->resume);
	}
	arena->blocker = first;
}

static bool others_wait(const struct arena *arena, const struct queue *queue)
{
	unsigned n = fair_n_flows(&arena->waiters);

	return n > 1 || (n == 1 && first_waiter(arena)->queue != queue);
}

static void end_stalled(struct queue *queue)
{
	const struct poller *poller = queue->poller;

	if (poller->n_visits || poller->is_awaited || others_wait(&poller->data, queue) ||
	    others_wait(&poller->admin, queue))
		queue_fail(queue, "it does not take its data, and others wait");
}

static bool has_stalled_data(const struct poller *poller, const struct queue *queue)
{
	for (unsigned i = 0; i < queue->n_responses; i++) {
		uint64_t sending_ns = queue->responses[i].sending_ns;

		if (sending_ns && is_stalled(poller, sending_ns))
			return true;
	}
	return false;
}

static void on_stall(struct loop_timer *timer)
{
	struct poller *poller = container_of(timer, struct poller, stall);

	list_for_each (node, &poller->queues) {
		struct queue *queue = list_entry(node, struct queue, poller_node);

		if (has_stalled_data(poller, queue))
			end_stalled(queue);
	}
	list_for_each (node, &poller->short_queues) {
		struct queue *queue = list_entry(node, struct queue, short_node);

		if (is_stalled(poller, queue->credit_ns))
			end_stalled(queue);
	}
	look_at_blocker(poller, &poller->admin);
	look_at_blocker(poller, &poller->data);
	poller->is_awaited = false; /* a write that still waits sets it again */
	if (poller->n_visits || !fair_is_empty(&poller->data.waiters) ||
	    !fair_is_empty(&poller->admin.waiters))
		poller_watch_stall(poller);
}

void poller_watch_stall(struct poller *poller)
{
	if (!loop_timer_is_running(&poller->stall))
		loop_timer_start(&poller->loop, &poller->stall, STALL_LOOK_S * NSEC_PER_SEC);
}

static void on_look(struct loop_msg *msg)
{
	struct poller *poller = container_of(msg, struct poller, look);

	atomic_store(&poller->is_look_sent, false);
	poller->is_awaited = true;
	poller_watch_stall(poller);
}

/* A write of this poller waits for a read of memory, whose host does not take its data. The read
 * may be any poller's. */
static void on_stuck(void *context)
{
	struct target *target = ((struct poller *)context)->target;

	for (unsigned i = 0; i < target->n_pollers; i++) {
		struct poller *poller = &target->pollers[i];

		if (!atomic_exchange(&poller->is_look_sent, true))
			loop_send(&poller->loop, &poller->look);
	}
}

static size_t data_bytes(const struct target *target)
{
	const struct config_tuning *tuning = &target->config->tuning;
	size_t share = tuning->buffers / target->n_pollers;

	return align_up(MAX(share, tuning_block(tuning)), BUFFER_UNIT);
}

static int make_memory(struct poller *poller)
{
	size_t max_block = tuning_block(&poller->target->config->tuning);
	size_t n_data = data_bytes(poller->target);
	size_t n_admin = max_block + ADMIN_BYTES;
	void *memory = mmap(NULL, n_data + n_admin, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int r;

	if (memory == MAP_FAILED)
		return -errno;
	poller->memory = memory;
	poller->memory_bytes = n_data + n_admin;
	r = arena_init(&poller->data, memory, n_data, max_block);
	return r < 0 ? r : arena_init(&poller->admin, (char *)memory + n_data, n_admin, max_block);
}

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
	loop_timer_stop(&poller->throttle);
	loop_stop(&poller->loop);
}

static uint64_t spin_ns(const struct config_tuning *tuning)
{
	if (tuning->poll == POLL_NEVER)
		return 0;
	if (tuning->poll == POLL_ALWAYS)
		return PATIENCE_ENDLESS;
	/* With one core, the thread that this loop waits for cannot run while it spins. */
	return cpus_usable() > 1 ? tuning->spin_ns : 0;
}

int poller_init(struct poller *poller, struct target *target, unsigned index)
{
	int r;

	*poller = (struct poller){.target = target,
				  .index = index,
				  .stall = {.on_expiry = on_stall},
				  .throttle = {.on_expiry = throttle_on_expiry},
				  .resume = {.run = on_resume},
				  .look = {.run = on_look},
				  .stop = {.run = on_stop}};
	list_init(&poller->queues);
	list_init(&poller->throttled);
	list_init(&poller->short_queues);
	r = loop_init(&poller->loop, spin_ns(&target->config->tuning), &rcu_hooks);
	if (r == 0)
		r = make_memory(poller);
	if (r == 0)
		r = backend_thread_new(&poller->loop, index, BACKEND_DEPTH, &poller->backends);
	if (r == 0)
		backend_thread_watch(poller->backends, on_stuck, poller);
	return r;
}

static int poller_start(struct poller *poller, struct target *target, unsigned index)
{
	int r = poller_init(poller, target, index);

	if (r == 0)
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

int pollers_start(struct target *target)
{
	io_errors_find_hosts(request_find_host);
	target->n_pollers = choose_n_pollers(&target->config->tuning);
	target->pollers = aligned_alloc(64,
					align_up(target->n_pollers * sizeof(struct poller), 64));
	if (!target->pollers)
		return log_errno(-ENOMEM, "cannot make the pollers");
	memset(target->pollers, 0, target->n_pollers * sizeof(struct poller));
	for (unsigned i = 0; i < target->n_pollers; i++) {
		int r = poller_start(&target->pollers[i], target, i);

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
	arena_deinit(&poller->data);
	arena_deinit(&poller->admin);
	if (poller->memory)
		munmap(poller->memory, poller->memory_bytes);
	loop_deinit(&poller->loop);
}

void pollers_stop(struct target *target)
{
	for (unsigned i = 0; target->pollers && i < target->n_pollers; i++) {
		struct poller *poller = &target->pollers[i];

		if (poller->has_thread) {
			loop_send(&poller->loop, &poller->stop);
			pthread_join(poller->thread, NULL);
		}
		poller_deinit(poller);
	}
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
