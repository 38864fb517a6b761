/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The event loop; see loop.h for the contract.
 *
 * Sleeping and waking. The loop stores is_sleeping and then reads the inbox once more; a sender
 * pushes and then reads is_sleeping. Both are sequentially consistent, so at least one of them sees
 * the other's store, and no message waits for an unrelated wake-up.
 *
 * loop_fd_remove takes a file descriptor out of epoll at once, but this turn's batch of events may
 * still name it, so loop_fd_remove also clears it in `batch`.
 */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/counter.h"
#include "base/loop.h"
#include "base/wake_up.h"

enum {
	BATCH = 32,	 /* events taken from epoll at once */
	INPUT_TURNS = 4, /* a busy loop checks its fds in each 4th turn */
	/* Without inputs: each 4th turn cost a tenth of a poller's CPU time (disk, depth 32). */
	DOORBELL_TURNS = 64,
};

unsigned (*loop_choose)(unsigned n);

static unsigned choose(unsigned n)
{
	unsigned chosen = loop_choose && n > 1 ? loop_choose(n) : 0;

	check(!n || chosen < n);
	return chosen;
}

static unsigned count(const struct list *list)
{
	unsigned n = 0;

	list_for_each (node, list)
		n++;
	return n;
}

static _Thread_local struct {
	struct epoll_event events[BATCH];
	int at, n;
} batch;

static void on_wake(struct loop_fd *lfd, uint32_t events)
{
	uint64_t count;

	if (read(lfd->fd, &count, sizeof(count)) < 0)
		check(errno == EAGAIN);
}

int loop_init(struct loop *loop, uint64_t spin_ns, const struct loop_hooks *hooks)
{
	int r;

	*loop = (struct loop){.epoll_fd = -1, .wake_fd = -1, .hooks = hooks};
	patience_init(&loop->patience, spin_ns, spin_is_time(spin_ns) ? 0 : wake_up_ns());
	crowd_init(&loop->crowd);
	list_init(&loop->timers);
	list_init(&loop->calls);
	list_init(&loop->sources);
	list_init(&loop->awaited);
	loop->now_ns = clock_ns();
	loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	loop->wake = (struct loop_fd){.fd = loop->wake_fd,
				      .events = EPOLLIN,
				      .is_doorbell = true, /* for the inbox */
				      .on_event = on_wake};
	r = loop->epoll_fd < 0 || loop->wake_fd < 0 ? -errno : loop_fd_add(loop, &loop->wake);
	if (r < 0)
		loop_deinit(loop);
	return r;
}

void loop_deinit(struct loop *loop)
{
	if (!loop->timers.next) /* zeroed: never initialised */
		return;
	if (loop->epoll_fd >= 0)
		close(loop->epoll_fd);
	if (loop->wake_fd >= 0)
		close(loop->wake_fd);
	loop->epoll_fd = loop->wake_fd = -1;
	crowd_deinit(&loop->crowd);
}

int loop_fd_add(struct loop *loop, struct loop_fd *lfd)
{
	struct epoll_event ev = {.events = lfd->events, .data.ptr = lfd};

	check(lfd->on_event && !lfd->loop);
	if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, lfd->fd, &ev) < 0)
		return -errno;
	lfd->loop = loop;
	loop->n_inputs += !lfd->is_doorbell;
	return 0;
}

int loop_fd_modify(struct loop_fd *lfd, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.ptr = lfd};

	if (events == lfd->events)
		return 0;
	if (epoll_ctl(lfd->loop->epoll_fd, EPOLL_CTL_MOD, lfd->fd, &ev) < 0)
		return -errno;
	lfd->events = events;
	return 0;
}

void loop_fd_remove(struct loop_fd *lfd)
{
	if (!lfd->loop)
		return;
	epoll_ctl(lfd->loop->epoll_fd, EPOLL_CTL_DEL, lfd->fd, NULL);
	lfd->loop->n_inputs -= !lfd->is_doorbell;
	for (int i = batch.at; i < batch.n; i++)
		if (batch.events[i].data.ptr == lfd)
			batch.events[i].data.ptr = NULL;
	lfd->loop = NULL;
}

void loop_timer_start(struct loop *loop, struct loop_timer *timer, uint64_t delay_ns)
{
	struct list *after;

	check(timer->on_expiry);
	loop_timer_stop(timer);
	timer->loop = loop;
	timer->deadline_ns = clock_ns() + delay_ns;
	for (after = loop->timers.prev; after != &loop->timers; after = after->prev)
		if (list_entry(after, struct loop_timer, node)->deadline_ns <= timer->deadline_ns)
			break;
	list_add_head(after, &timer->node);
}

void loop_timer_stop(struct loop_timer *timer)
{
	if (!timer->loop)
		return;
	list_remove(&timer->node);
	timer->loop = NULL;
}

bool loop_timer_is_running(const struct loop_timer *timer)
{
	return timer->loop != NULL;
}

void loop_defer(struct loop *loop, struct loop_call *call)
{
	if (call->is_queued)
		return;
	call->is_queued = true;
	list_add_tail(&loop->calls, &call->node);
}

void loop_call_cancel(struct loop_call *call)
{
	if (!call->is_queued)
		return;
	call->is_queued = false;
	list_remove(&call->node);
}

void loop_source_add(struct loop *loop, struct loop_source *source)
{
	check(source->poll && !source->loop);
	source->loop = loop;
	list_add_tail(&loop->sources, &source->node);
}

void loop_source_remove(struct loop_source *source)
{
	if (!source->loop)
		return;
	if (source->loop->next_source == &source->node)
		source->loop->next_source = source->node.next;
	list_remove(&source->node);
	source->loop = NULL;
}

void loop_awaited_add(struct loop *loop, struct loop_awaited *awaited)
{
	check(awaited->n);
	list_add_tail(&loop->awaited, &awaited->node);
}

void loop_awaited_remove(struct loop_awaited *awaited)
{
	if (awaited->n)
		list_remove(&awaited->node);
	awaited->n = NULL;
}

static void wake(struct loop *loop)
{
	uint64_t one = 1;

	if (write(loop->wake_fd, &one, sizeof(one)) < 0)
		check(errno == EAGAIN); /* the counter is full, so the loop has a wake-up to read */
}

void loop_send(struct loop *loop, struct loop_msg *msg)
{
	struct loop_msg *head = atomic_load_explicit(&loop->inbox, memory_order_relaxed);

	do
		msg->next = head;
	while (!atomic_compare_exchange_weak(&loop->inbox, &head, msg));
	if (atomic_load(&loop->is_sleeping))
		wake(loop);
}

void loop_stop(struct loop *loop)
{
	atomic_store(&loop->must_stop, true);
	if (atomic_load(&loop->is_sleeping))
		wake(loop);
}

/* Most turns have no messages, no calls and no check of the fds, so these stay out of one_pass. */

static NOINLINE unsigned take_messages(struct loop *loop)
{
	struct loop_msg *msg, *in_order = NULL;
	unsigned n = 0;

	msg = atomic_exchange(&loop->inbox, NULL);
	while (msg) {
		struct loop_msg *next = msg->next;

		msg->next = in_order;
		in_order = msg;
		msg = next;
	}
	while (in_order) {
		msg = in_order;
		in_order = msg->next;
		msg->run(msg);
		n++;
	}
	return n;
}

static unsigned run_messages(struct loop *loop)
{
	return atomic_load_explicit(&loop->inbox, memory_order_relaxed) ? take_messages(loop) : 0;
}

static struct list *take_chosen(struct list *list)
{
	for (unsigned i = loop_choose ? choose(count(list)) : 0; i; i--)
		list_add_tail(list, list_take_first(list));
	return list_take_first(list);
}

/* Runs only what is queued now: a call that defers itself again runs in the next turn. */
static NOINLINE unsigned take_calls(struct loop *loop)
{
	struct list now, *node;
	unsigned n = 0;

	list_init(&now);
	list_splice_tail(&now, &loop->calls);
	while ((node = take_chosen(&now))) {
		struct loop_call *call = list_entry(node, struct loop_call, node);

		call->is_queued = false;
		call->run(call);
		n++;
	}
	return n;
}

static unsigned run_calls(struct loop *loop)
{
	return list_is_empty(&loop->calls) ? 0 : take_calls(loop);
}

static struct loop_timer *first_timer(const struct loop *loop)
{
	return list_is_empty(&loop->timers)
		       ? NULL
		       : list_entry(loop->timers.next, struct loop_timer, node);
}

/* Fires the timers that were due when the turn began. */
static unsigned run_timers(struct loop *loop)
{
	struct loop_timer *timer;
	unsigned n = 0;

	while ((timer = first_timer(loop)) && timer->deadline_ns <= loop->now_ns) {
		loop_timer_stop(timer);
		timer->on_expiry(timer);
		n++;
	}
	return n;
}

static void collect_fds(struct loop *loop, int timeout_ms)
{
	int n = epoll_wait(loop->epoll_fd, batch.events, BATCH, timeout_ms);

	check(n >= 0 || errno == EINTR);
	batch.at = 0;
	batch.n = n;
}

static unsigned dispatch_fds(void)
{
	unsigned n_handled = 0;

	while (batch.at < batch.n) {
		int chosen = batch.at + (int)choose((unsigned)(batch.n - batch.at));
		struct epoll_event ev = batch.events[chosen];
		struct loop_fd *lfd = ev.data.ptr;

		batch.events[chosen] = batch.events[batch.at++];
		if (!lfd)
			continue; /* removed by an earlier event of this batch */
		lfd->on_event(lfd, ev.events);
		n_handled++;
	}
	return n_handled;
}

/* An iteration over the sources. A callback may remove any source, not only the current one. */
static struct loop_source *next_source(struct loop *loop)
{
	struct list *node = loop->next_source;

	if (node == &loop->sources)
		return NULL;
	loop->next_source = node->next;
	return list_entry(node, struct loop_source, node);
}

static struct loop_source *first_source(struct loop *loop)
{
	loop->next_source = loop->sources.next;
	return next_source(loop);
}

static unsigned poll_sources(struct loop *loop)
{
	unsigned n = 0;

	for (struct loop_source *source = first_source(loop); source; source = next_source(loop))
		n += source->poll(source);
	return n;
}

static void flush_sources(struct loop *loop)
{
	for (struct loop_source *source = first_source(loop); source; source = next_source(loop))
		if (source->flush)
			source->flush(source);
}

uint64_t loop_deadline_ns(const struct loop *loop)
{
	const struct loop_timer *timer = first_timer(loop);

	return timer ? timer->deadline_ns : UINT64_MAX;
}

static int sleep_ms(struct loop *loop, uint64_t until_ns)
{
	uint64_t now_ns = clock_ns(), ms;

	until_ns = MIN(until_ns, loop_deadline_ns(loop));
	if (until_ns == UINT64_MAX)
		return -1;
	/* Rounded up: a wake-up before the deadline would only cost another turn. */
	ms = until_ns > now_ns ? (until_ns - now_ns - 1) / NSEC_PER_MSEC + 1 : 0;
	return ms > INT32_MAX ? INT32_MAX : (int)ms;
}

static NOINLINE unsigned look_at_fds(struct loop *loop)
{
	collect_fds(loop, 0);
	return dispatch_fds();
}

static void end_pass(struct loop *loop)
{
	flush_sources(loop);
	if (loop->hooks && loop->hooks->on_turn)
		loop->hooks->on_turn();
}

/* one_pass in a simulation, which chooses the order of steps and sources. */
static NOINLINE unsigned chosen_pass(struct loop *loop, bool must_look_at_fds)
{
	unsigned (*steps[])(struct loop *) = {poll_sources, run_messages, run_calls, run_timers,
					      look_at_fds};
	unsigned n = 0, n_steps = (unsigned)ARRAY_LEN(steps) - !must_look_at_fds;

	for (unsigned i = choose(count(&loop->sources)); i; i--)
		list_add_tail(&loop->sources, list_take_first(&loop->sources));
	while (n_steps) {
		unsigned chosen = choose(n_steps);

		n += steps[chosen](loop);
		steps[chosen] = steps[--n_steps];
	}
	end_pass(loop);
	return n;
}

/* One pass of a turn. loop->now_ns is the time at which it begins. */
static unsigned one_pass(struct loop *loop, bool must_look_at_fds)
{
	unsigned n;

	if (UNLIKELY(loop_choose != NULL))
		return chosen_pass(loop, must_look_at_fds);
	n = poll_sources(loop);
	n += run_messages(loop);
	n += run_calls(loop);
	n += run_timers(loop);
	if (must_look_at_fds)
		n += look_at_fds(loop);
	end_pass(loop);
	return n;
}

/* Clients of this machine are those behind descriptors. */
static struct patience_pause pause_of(const struct loop *loop)
{
	struct patience_pause pause = {.is_local = loop->n_inputs > 0};

	list_for_each (node, &loop->awaited)
		pause.n_in_flight += *list_entry(node, struct loop_awaited, node)->n;
	return pause;
}

static bool is_fd_turn(struct loop *loop)
{
	unsigned turn = ++loop->fd_turn;

	return (loop->n_inputs ? turn % INPUT_TURNS : turn % DOORBELL_TURNS) == 0;
}

/* The poll found nothing: whether to poll again. */
static bool is_patient(struct loop *loop)
{
	if (atomic_load_explicit(&loop->must_stop, memory_order_relaxed))
		return false;
	if (!loop->patience.since_ns)
		patience_begin_pause(&loop->patience, loop->now_ns, pause_of(loop));
	if (patience_must_look(&loop->patience, loop->now_ns))
		patience_looked(&loop->patience, loop->now_ns,
				crowd_look(&loop->crowd, loop->now_ns));
	return !loop->is_resting && patience_lasts(&loop->patience, loop->now_ns);
}

void loop_rest(struct loop *loop, bool is_resting)
{
	loop->is_resting = is_resting;
}

/* The pass found items. Its time counts when the next one begins. */
static void end_pause(struct loop *loop)
{
	patience_found(&loop->patience, loop->now_ns);
	loop->has_worked = true;
}

/* A turn begins. */
static void take_time(struct loop *loop)
{
	uint64_t now_ns = clock_ns();

	if (loop->has_worked)
		counter_add(&loop->busy_ns, now_ns - loop->now_ns);
	loop->has_worked = false;
	loop->now_ns = now_ns;
}

/* Polls until something happens, or it is time to sleep or to return. */
static unsigned spin(struct loop *loop, uint64_t until_ns)
{
	unsigned n;

	while ((n = one_pass(loop, is_fd_turn(loop))) == 0) {
		/* In a simulation, time stands still while a loop polls. */
		if (clock_source || !is_patient(loop) || loop->now_ns >= until_ns)
			return 0;
		__builtin_ia32_pause();
		loop->now_ns = clock_ns();
	}
	end_pause(loop);
	return n;
}

static void arm_sources(struct loop *loop)
{
	for (struct loop_source *source = first_source(loop); source; source = next_source(loop))
		if (source->arm)
			source->arm(source);
}

/* Whether there is a reason not to sleep: items that came before the arming, or queued work. */
static bool has_come(struct loop *loop)
{
	unsigned n = one_pass(loop, false);

	if (n)
		end_pause(loop);
	return n || !list_is_empty(&loop->calls) || atomic_load(&loop->inbox) ||
	       atomic_load(&loop->must_stop);
}

static void sleep_armed(struct loop *loop, uint64_t until_ns)
{
	arm_sources(loop);
	atomic_store(&loop->is_sleeping, true);
	if (has_come(loop)) {
		atomic_store(&loop->is_sleeping, false);
		return;
	}
	patience_sleeps(&loop->patience);
	crowd_sleeps(&loop->crowd);
	if (loop->hooks && loop->hooks->before_sleep)
		loop->hooks->before_sleep();
	/* Offline for RCU, so it only collects events. Their handlers run after after_sleep. */
	collect_fds(loop, sleep_ms(loop, until_ns));
	atomic_store(&loop->is_sleeping, false);
	if (loop->hooks && loop->hooks->after_sleep)
		loop->hooks->after_sleep();
	loop->now_ns = clock_ns();
	if (dispatch_fds())
		end_pause(loop);
}

void loop_turn(struct loop *loop, uint64_t timeout_ns)
{
	uint64_t until_ns;

	take_time(loop);
	until_ns = loop->now_ns + MIN(timeout_ns, UINT64_MAX - loop->now_ns);
	if (spin(loop, until_ns) || !list_is_empty(&loop->calls))
		return;
	sleep_armed(loop, until_ns);
}

unsigned loop_poll(struct loop *loop)
{
	bool was_armed = atomic_load_explicit(&loop->is_sleeping, memory_order_relaxed);

	if (was_armed)
		atomic_store(&loop->is_sleeping, false);
	loop->now_ns = clock_ns();
	/* After a sleep the descriptors are cleared, or they would end the next one at once. */
	return one_pass(loop, was_armed || is_fd_turn(loop));
}

void loop_flush(struct loop *loop)
{
	flush_sources(loop);
}

bool loop_arm(struct loop *loop)
{
	arm_sources(loop);
	atomic_store(&loop->is_sleeping, true);
	if (!has_come(loop))
		return true;
	atomic_store(&loop->is_sleeping, false);
	return false;
}

void loop_run(struct loop *loop)
{
	while (!atomic_load_explicit(&loop->must_stop, memory_order_relaxed))
		loop_turn(loop, UINT64_MAX);
	atomic_store(&loop->must_stop, false); /* it may run again */
}
