/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The event loop. A lost wake-up shows as a hang, so an alarm ends the program; the tests with
 * several threads are meant for ThreadSanitizer as well.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/loop.h"

enum {
	HANG_S = 60
};

static struct loop loop;
static char trace[256]; /* what happened, a letter each */

static void note(char what)
{
	size_t n = strlen(trace);

	assert_true(n + 1 < sizeof(trace));
	trace[n] = what;
	trace[n + 1] = '\0';
}

static int start(void **state)
{
	trace[0] = '\0';
	alarm(HANG_S);
	return loop_init(&loop, 0, NULL);
}

static int stop(void **state)
{
	loop_deinit(&loop);
	loop_deinit(&loop); /* a second call has no effect */
	return 0;
}

/* Turns until n letters are in the trace. */
static void run_until(size_t n)
{
	while (strlen(trace) < n)
		loop_turn(&loop, UINT64_MAX);
}

/* Timers */

struct named_timer {
	struct loop_timer timer;
	char name;
	struct named_timer *stops, *restarts;
	uint64_t due_ns;
};

static void on_named_timer(struct loop_timer *timer)
{
	struct named_timer *t = container_of(timer, struct named_timer, timer);

	assert_false(loop_timer_is_running(timer));
	assert_true(clock_ns() >= t->due_ns);
	note(t->name);
	if (t->stops)
		loop_timer_stop(&t->stops->timer);
	if (t->restarts)
		loop_timer_start(&loop, &t->restarts->timer, NSEC_PER_MSEC);
}

static void start_named(struct named_timer *t, char name, uint64_t delay_ns)
{
	t->name = name;
	t->timer.on_expiry = on_named_timer;
	t->due_ns = clock_ns() + delay_ns;
	loop_timer_start(&loop, &t->timer, delay_ns);
}

static void test_timers_in_order(void **state)
{
	struct named_timer t[5] = {{{0}}};

	start_named(&t[0], 'c', 3 * NSEC_PER_MSEC);
	start_named(&t[1], 'a', 0);
	start_named(&t[2], 'd', 4 * NSEC_PER_MSEC);
	start_named(&t[3], 'b', 1500 * NSEC_PER_USEC);
	start_named(&t[4], 'e', 3600 * NSEC_PER_SEC);
	start_named(&t[4], 'e', 5 * NSEC_PER_MSEC); /* restarted: once, and earlier */
	run_until(5);
	assert_string_equal(trace, "abcde");
	loop_turn(&loop, 0);
	assert_string_equal(trace, "abcde");
}

static void test_timers_in_timers(void **state)
{
	struct named_timer a = {{0}}, b = {{0}}, c = {{0}};

	a.stops = &b;
	a.restarts = &a;
	start_named(&a, 'a', 0);
	start_named(&b, 'b', 0);
	start_named(&c, 'c', 0);
	run_until(4);
	assert_string_equal(trace, "acaa");
	assert_false(loop_timer_is_running(&b.timer));
	assert_true(loop_timer_is_running(&a.timer));
	loop_timer_stop(&a.timer);
	loop_timer_stop(&a.timer);
	assert_false(loop_timer_is_running(&a.timer));
}

static void test_turn_sleeps_at_most(void **state)
{
	struct named_timer t = {{0}};
	uint64_t start_ns = clock_ns();

	loop_turn(&loop, 0);
	assert_in_range(clock_ns() - start_ns, 0, 10 * NSEC_PER_SEC);
	loop_turn(&loop, 20 * NSEC_PER_MSEC);
	assert_true(clock_ns() - start_ns >= 20 * NSEC_PER_MSEC);
	start_named(&t, 'a', 3600 * NSEC_PER_SEC);
	loop_turn(&loop, NSEC_PER_MSEC);
	assert_string_equal(trace, "");
	loop_timer_stop(&t.timer);
}

/* Deferred calls */

struct named_call {
	struct loop_call call;
	char name;
	struct named_call *cancels, *defers;
};

static void run_named_call(struct loop_call *call)
{
	struct named_call *c = container_of(call, struct named_call, call);

	note(c->name);
	if (c->cancels)
		loop_call_cancel(&c->cancels->call);
	if (c->defers)
		loop_defer(&loop, &c->defers->call);
}

static void defer_named(struct named_call *c, char name)
{
	c->name = name;
	c->call.run = run_named_call;
	loop_defer(&loop, &c->call);
}

static void test_calls(void **state)
{
	struct named_call a = {{0}}, b = {{0}}, c = {{0}}, d = {{0}};

	b.cancels = &c;
	a.defers = &a; /* runs in the next turn, so the loop does not starve */
	defer_named(&a, 'a');
	defer_named(&b, 'b');
	defer_named(&c, 'c');
	defer_named(&d, 'd');
	defer_named(&b, 'b');
	assert_string_equal(trace, "");
	loop_turn(&loop, UINT64_MAX);
	assert_string_equal(trace, "abd");
	a.defers = NULL;
	loop_turn(&loop, UINT64_MAX);
	assert_string_equal(trace, "abda");
	defer_named(&c, 'c');
	loop_call_cancel(&c.call);
	loop_call_cancel(&c.call);
	loop_turn(&loop, 0);
	assert_string_equal(trace, "abda");
}

/* File descriptors */

struct named_fd {
	struct loop_fd lfd;
	char name;
	struct named_fd *removes, *adds;
	bool drains;
};

static void on_named_fd(struct loop_fd *lfd, uint32_t events)
{
	struct named_fd *f = container_of(lfd, struct named_fd, lfd);
	uint64_t count;

	note(f->name);
	if (f->drains)
		assert_int_equal(read(lfd->fd, &count, sizeof(count)), sizeof(count));
	if (f->removes)
		loop_fd_remove(&f->removes->lfd);
	if (f->adds)
		assert_int_equal(loop_fd_add(&loop, &f->adds->lfd), 0);
}

static void open_named(struct named_fd *f, char name)
{
	f->name = name;
	f->lfd.fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
	f->lfd.events = EPOLLIN;
	f->lfd.on_event = on_named_fd;
	assert_int_equal(loop_fd_add(&loop, &f->lfd), 0);
}

static void close_named(struct named_fd *f)
{
	loop_fd_remove(&f->lfd);
	loop_fd_remove(&f->lfd);
	close(f->lfd.fd);
}

static void test_fd_is_level_triggered(void **state)
{
	struct named_fd a = {{0}};

	loop_fd_remove(&a.lfd); /* never added */
	open_named(&a, 'a');
	loop_turn(&loop, UINT64_MAX);
	loop_turn(&loop, UINT64_MAX);
	assert_string_equal(trace, "aa");
	assert_int_equal(loop_fd_modify(&a.lfd, 0), 0);
	loop_turn(&loop, NSEC_PER_MSEC);
	assert_string_equal(trace, "aa");
	assert_int_equal(loop_fd_modify(&a.lfd, EPOLLIN | EPOLLOUT), 0);
	a.drains = true;
	loop_turn(&loop, UINT64_MAX);
	assert_string_equal(trace, "aaa");
	a.lfd.fd = -1;
	assert_true(loop_fd_modify(&a.lfd, EPOLLIN) < 0);
	close_named(&a);
}

/* Both are ready in the same batch, so the first one to be called removes the other. */
static void test_fd_removed_within_batch(void **state)
{
	struct named_fd a = {{0}}, b = {{0}};

	a.drains = b.drains = true;
	a.removes = &b;
	b.removes = &a;
	open_named(&a, 'x');
	open_named(&b, 'x');
	loop_turn(&loop, UINT64_MAX);
	loop_turn(&loop, NSEC_PER_MSEC);
	assert_string_equal(trace, "x");
	close_named(&a);
	close_named(&b);
}

/* A descriptor that is removed and added again in one batch is a new interest, reported in a
 * later turn only. */
static void test_fd_replaced_within_batch(void **state)
{
	struct named_fd a = {{0}}, b = {{0}};

	a.removes = a.adds = &b;
	b.removes = b.adds = &a;
	open_named(&a, 'x');
	open_named(&b, 'x');
	loop_turn(&loop, UINT64_MAX);
	assert_string_equal(trace, "x");
	loop_turn(&loop, UINT64_MAX);
	assert_string_equal(trace, "xx");
	close_named(&a);
	close_named(&b);
}

static void test_fd_removes_itself(void **state)
{
	struct named_fd a = {{0}};

	a.removes = &a;
	open_named(&a, 'a');
	loop_turn(&loop, UINT64_MAX);
	loop_turn(&loop, NSEC_PER_MSEC);
	assert_string_equal(trace, "a");
	close(a.lfd.fd);
}

/* Sources */

struct named_source {
	struct loop_source source;
	char name; /* traced in lower case when a poll finds events, upper when armed */
	unsigned n_there, n_polls, n_flushes;
	unsigned comes_while_arming; /* events that wake no file descriptor */
	struct named_source *removes;
};

static unsigned poll_named(struct loop_source *source)
{
	struct named_source *s = container_of(source, struct named_source, source);
	unsigned n = s->n_there;

	s->n_polls++;
	s->n_there = 0;
	if (n)
		note(s->name);
	if (s->removes)
		loop_source_remove(&s->removes->source);
	return n;
}

static void arm_named(struct loop_source *source)
{
	struct named_source *s = container_of(source, struct named_source, source);

	note((char)(s->name - 'a' + 'A'));
	s->n_there += s->comes_while_arming;
	s->comes_while_arming = 0;
}

static void flush_named(struct loop_source *source)
{
	container_of(source, struct named_source, source)->n_flushes++;
}

static void add_named(struct named_source *s, char name)
{
	s->name = name;
	s->source.poll = poll_named;
	s->source.arm = arm_named;
	s->source.flush = flush_named;
	loop_source_add(&loop, &s->source);
}

static void test_source_is_armed_before_sleep(void **state)
{
	struct named_source a = {{0}};

	a.n_there = 3;
	a.comes_while_arming = 1;
	add_named(&a, 'a');
	loop_turn(&loop, UINT64_MAX); /* busy: neither armed nor asleep */
	assert_string_equal(trace, "a");
	loop_turn(&loop, UINT64_MAX); /* would hang if it slept */
	assert_string_equal(trace, "aAa");
	loop_turn(&loop, NSEC_PER_MSEC);
	assert_string_equal(trace, "aAaA");
	assert_int_equal(a.n_polls, 5);
	assert_int_equal(a.n_flushes, 5);
	loop_source_remove(&a.source);
	loop_source_remove(&a.source);
	loop_turn(&loop, NSEC_PER_MSEC);
	assert_int_equal(a.n_polls, 5);
}

static void test_source_without_arm(void **state)
{
	struct named_source a = {{0}}, never = {{0}};

	loop_source_remove(&never.source);
	add_named(&a, 'a');
	a.source.arm = NULL;
	a.source.flush = NULL;
	loop_turn(&loop, NSEC_PER_MSEC);
	assert_int_equal(a.n_polls, 2);
	assert_string_equal(trace, "");
	loop_source_remove(&a.source);
}

/* The middle one removes itself, the one before it, or the one after it. */
static void test_sources_removed_while_polled(void **state)
{
	for (unsigned victim = 0; victim < 3; victim++) {
		struct named_source s[3] = {{{0}}};

		trace[0] = '\0';
		s[1].removes = &s[victim];
		for (unsigned i = 0; i < 3; i++) {
			s[i].n_there = 1;
			add_named(&s[i], (char)('a' + i));
		}
		loop_turn(&loop, UINT64_MAX);
		assert_string_equal(trace, victim == 2 ? "ab" : "abc");
		for (unsigned i = 0; i < 3; i++)
			s[i].n_there = 1;
		loop_turn(&loop, UINT64_MAX);
		assert_string_equal(trace, victim == 0 ? "abcbc" : victim == 1 ? "abcac" : "abab");
		for (unsigned i = 0; i < 3; i++)
			loop_source_remove(&s[i].source);
	}
}

/* A polling loop never starves its file descriptors, timers and calls. */
static void test_busy_source_starves_nobody(void **state)
{
	struct named_source busy = {{0}};
	struct named_timer t = {{0}};
	struct named_fd f = {{0}};

	add_named(&busy, 'x');
	f.drains = true;
	open_named(&f, 'f');
	start_named(&t, 't', NSEC_PER_MSEC);
	while (!strchr(trace, 'f') || !strchr(trace, 't')) {
		busy.n_there = 1;
		loop_turn(&loop, UINT64_MAX);
		if (*trace && trace[strlen(trace) - 1] == 'x')
			trace[strlen(trace) - 1] = '\0';
	}
	loop_source_remove(&busy.source);
	close_named(&f);
}

/* Hooks and sleeping */

static bool is_asleep;

static void on_turn(void)
{
	assert_false(is_asleep);
}

static void before_sleep(void)
{
	assert_false(is_asleep);
	is_asleep = true;
	note('(');
}

static void after_sleep(void)
{
	assert_true(is_asleep);
	is_asleep = false;
	note(')');
}

static const struct loop_hooks hooks = {on_turn, before_sleep, after_sleep};

static void test_hooks_surround_sleep_only(void **state)
{
	struct named_fd f = {{0}};
	struct named_timer t = {{0}};
	uint64_t one = 1;

	loop.hooks = &hooks;
	start_named(&t, 't', NSEC_PER_SEC / 2); /* not yet due, however slow we are */
	run_until(3);
	assert_string_equal(trace, "()t");
	trace[0] = '\0';
	f.drains = true;
	open_named(&f, 'f');
	run_until(3);
	assert_string_equal(trace, "()f"); /* the handler runs when awake again */
	assert_int_equal(write(f.lfd.fd, &one, sizeof(one)), sizeof(one));
	close_named(&f);
}

static uint64_t cpu_ns(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * NSEC_PER_SEC +
	       (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * NSEC_PER_USEC;
}

static void test_idle_costs_nothing(void **state)
{
	uint64_t start_ns = clock_ns(), start_cpu_ns = cpu_ns();

	loop.patience.spin_ns = 20 * NSEC_PER_USEC;
	while (clock_ns() - start_ns < 200 * NSEC_PER_MSEC)
		loop_turn(&loop, 50 * NSEC_PER_MSEC);
	assert_in_range(cpu_ns() - start_cpu_ns, 0, 20 * NSEC_PER_MSEC);
}

/* A spinning loop handles an event without sleeping. */
static void test_spins_before_sleep(void **state)
{
	struct named_timer t = {{0}};

	loop.hooks = &hooks;
	loop.patience.spin_ns = NSEC_PER_SEC;
	start_named(&t, 't', 2 * NSEC_PER_MSEC);
	loop_turn(&loop, UINT64_MAX);
	assert_string_equal(trace, "t");
}

/* A loop without peers sleeps at once, whatever it may do otherwise. */
static void test_rests(void **state)
{
	struct named_timer t = {{0}}, u = {{0}};

	loop.hooks = &hooks;
	loop.patience.spin_ns = SPIN_ALWAYS;
	loop_rest(&loop, true);
	start_named(&t, 't', NSEC_PER_SEC / 2); /* not yet due, however slow we are */
	run_until(3);
	assert_string_equal(trace, "()t");
	loop_rest(&loop, false);
	trace[0] = '\0';
	start_named(&u, 'u', 2 * NSEC_PER_MSEC);
	loop_turn(&loop, UINT64_MAX);
	assert_string_equal(trace, "u");
}

/* A turn ends in time, also one that never sleeps. */
static void test_polls_no_longer_than_told(void **state)
{
	uint64_t start_ns = clock_ns();

	loop.patience.spin_ns = SPIN_ALWAYS;
	loop_turn(&loop, 4 * NSEC_PER_MSEC);
	assert_true(clock_ns() - start_ns >= 4 * NSEC_PER_MSEC);
}

/* Messages */

enum {
	N_SENDERS = 4,
	N_MESSAGES = 20000
};

struct numbered_msg {
	struct loop_msg msg;
	unsigned sender, number;
};

static struct {
	pthread_t thread;
	struct numbered_msg messages[N_MESSAGES];
	unsigned n_received;
} senders[N_SENDERS];

static void run_numbered(struct loop_msg *msg)
{
	struct numbered_msg *m = container_of(msg, struct numbered_msg, msg);
	unsigned total = 0;

	assert_int_equal(m->number, senders[m->sender].n_received++);
	memset(m, 0xee, sizeof(*m)); /* the receiver owns it now */
	for (unsigned i = 0; i < N_SENDERS; i++)
		total += senders[i].n_received;
	if (total == N_SENDERS * N_MESSAGES)
		loop_stop(&loop);
}

/* Pauses of all lengths, so that some messages arrive while the loop falls asleep. */
static void *send_all(void *arg)
{
	unsigned sender = *(unsigned *)arg, seed = sender;

	for (unsigned i = 0; i < N_MESSAGES; i++) {
		struct numbered_msg *m = &senders[sender].messages[i];

		*m = (struct numbered_msg){{run_numbered, NULL}, sender, i};
		loop_send(&loop, &m->msg);
		if (i % 64 == 0)
			usleep((unsigned)rand_r(&seed) % 60);
		for (int j = rand_r(&seed) % 200; j > 0; j--)
			__asm__ volatile("");
	}
	return NULL;
}

static void test_messages_from_many_threads(void **state)
{
	static unsigned numbers[N_SENDERS];

	for (unsigned spin_us = 0; spin_us < 40; spin_us += 20) {
		loop_deinit(&loop);
		assert_int_equal(loop_init(&loop, spin_us * NSEC_PER_USEC, NULL), 0);
		for (unsigned i = 0; i < N_SENDERS; i++) {
			senders[i].n_received = 0;
			numbers[i] = i;
			pthread_create(&senders[i].thread, NULL, send_all, &numbers[i]);
		}
		loop_run(&loop);
		for (unsigned i = 0; i < N_SENDERS; i++) {
			pthread_join(senders[i].thread, NULL);
			assert_int_equal(senders[i].n_received, N_MESSAGES);
		}
	}
}

/*
 * One message goes back and forth between two otherwise idle loops, so that each hop reaches a loop
 * that sleeps or is about to. One lost wake-up hangs the test.
 */
enum {
	N_HOPS = 30000
};

static struct loop peer;
static struct ball {
	struct loop_msg msg;
	unsigned n_hops;
} ball;

static void bounce(struct loop_msg *msg)
{
	if (++ball.n_hops == N_HOPS) {
		loop_stop(&peer);
		loop_stop(&loop);
		return;
	}
	loop_send(ball.n_hops % 2 ? &peer : &loop, msg);
}

static void *run_peer(void *arg)
{
	loop_run(&peer);
	return NULL;
}

static void test_wake_up_is_never_lost(void **state)
{
	pthread_t thread;

	assert_int_equal(loop_init(&peer, 0, NULL), 0);
	ball = (struct ball){{bounce, NULL}, 0};
	pthread_create(&thread, NULL, run_peer, NULL);
	loop_send(&loop, &ball.msg);
	loop_run(&loop);
	pthread_join(thread, NULL);
	assert_int_equal(ball.n_hops, N_HOPS);
	loop_deinit(&peer);
}

/* The stop may come before the loop runs, while it spins, or while it sleeps. */
static void test_stop_from_outside(void **state)
{
	for (unsigned i = 0; i < 300; i++) {
		pthread_t thread;

		assert_int_equal(loop_init(&peer, i % 3 * 10 * NSEC_PER_USEC, NULL), 0);
		pthread_create(&thread, NULL, run_peer, NULL);
		usleep(i % 100);
		loop_stop(&peer);
		pthread_join(thread, NULL);
		loop_deinit(&peer);
	}
}

static void run_and_send_back(struct loop_msg *msg)
{
	struct numbered_msg *m = container_of(msg, struct numbered_msg, msg);

	note((char)('0' + m->number));
	if (m->number++ < 3)
		loop_send(&loop, msg);
}

/* A message may be sent again from its own run(), also to the same loop. */
static void test_message_to_own_loop(void **state)
{
	struct numbered_msg m = {{run_and_send_back, NULL}, 0, 0};

	loop_send(&loop, &m.msg);
	run_until(4);
	assert_string_equal(trace, "0123");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, start, stop)
	const struct CMUnitTest tests[] = {
		TEST(test_timers_in_order),
		TEST(test_timers_in_timers),
		TEST(test_turn_sleeps_at_most),
		TEST(test_calls),
		TEST(test_fd_is_level_triggered),
		TEST(test_fd_removed_within_batch),
		TEST(test_fd_replaced_within_batch),
		TEST(test_fd_removes_itself),
		TEST(test_source_is_armed_before_sleep),
		TEST(test_source_without_arm),
		TEST(test_sources_removed_while_polled),
		TEST(test_busy_source_starves_nobody),
		TEST(test_hooks_surround_sleep_only),
		TEST(test_idle_costs_nothing),
		TEST(test_spins_before_sleep),
		TEST(test_rests),
		TEST(test_polls_no_longer_than_told),
		TEST(test_messages_from_many_threads),
		TEST(test_wake_up_is_never_lost),
		TEST(test_stop_from_outside),
		TEST(test_message_to_own_loop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
