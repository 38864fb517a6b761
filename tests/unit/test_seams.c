/* SPDX-License-Identifier: BSD-3-Clause */
/* The three seams for simulation: time, randomness, and the order in which a loop runs its work. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <cmocka.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/random.h"
#include "base/ticks.h"

/* ---- time ----------------------------------------------------------------------------------- */

static uint64_t now_ns;

static uint64_t read_now(void)
{
	return now_ns;
}

static uint64_t read_wall(void)
{
	return 1000 * NSEC_PER_SEC + now_ns;
}

static void sleep_until(uint64_t ns)
{
	now_ns += ns;
}

static const struct clock_source virtual = {read_now, read_wall, sleep_until};

static int set_virtual(void **state)
{
	now_ns = NSEC_PER_SEC;
	clock_source = &virtual;
	return 0;
}

static int set_real(void **state)
{
	clock_source = NULL;
	loop_choose = NULL;
	random_seed(0);
	return 0;
}

static void all_clocks_follow_the_source(void **state)
{
	uint64_t before = ticks_now();

	ticks_init(); /* measures for some milliseconds */
	assert_true(ticks_now() > before);
	assert_int_equal(clock_ns(), now_ns);
	assert_int_equal(clock_wall_ns(), 1000 * NSEC_PER_SEC + now_ns);
	before = ticks_now();
	clock_sleep_ns(12345);
	assert_int_equal(ticks_to_ns(ticks_between(before, ticks_now())), 12345);
}

static unsigned n_expired;

static void on_expiry(struct loop_timer *timer)
{
	n_expired++;
}

static void a_timer_of_an_hour_takes_no_time(void **state)
{
	struct loop_timer timer = {.on_expiry = on_expiry};
	struct loop loop;

	n_expired = 0;
	assert_int_equal(loop_init(&loop, 0, NULL), 0);
	assert_true(loop_deadline_ns(&loop) == UINT64_MAX);
	loop_timer_start(&loop, &timer, 3600 * NSEC_PER_SEC);
	assert_int_equal(loop_deadline_ns(&loop), now_ns + 3600 * NSEC_PER_SEC);
	now_ns = loop_deadline_ns(&loop) - 1;
	loop_turn(&loop, 0);
	assert_int_equal(n_expired, 0);
	now_ns++;
	loop_turn(&loop, 0);
	assert_int_equal(n_expired, 1);
	loop_deinit(&loop);
}

static void the_limit_of_the_log_follows_it(void **state)
{
	struct log_limit limit = {0};

	assert_true(log_limit_pass(&limit, 1));
	assert_false(log_limit_pass(&limit, 1));
	now_ns += NSEC_PER_SEC;
	assert_true(log_limit_pass(&limit, 1));
}

/* ---- randomness ----------------------------------------------------------------------------- */

static void a_seed_repeats_its_bytes(void **state)
{
	uint8_t first[2][37], second[2][37], uuid[RANDOM_UUID_BYTES];

	for (unsigned i = 0; i < 2; i++) {
		random_seed(77);
		assert_int_equal(random_bytes(first[i], sizeof(first[i])), 0);
		assert_int_equal(random_bytes(second[i], sizeof(second[i])), 0);
		assert_int_equal(random_uuid(uuid), 0);
	}
	assert_memory_equal(first[0], first[1], sizeof(first[0]));
	assert_memory_equal(second[0], second[1], sizeof(second[0]));
	assert_memory_not_equal(first[0], second[0], sizeof(first[0]));
	assert_int_equal(uuid[6] >> 4, 4);
	assert_int_equal(uuid[8] >> 6, 2);
}

static void without_a_seed_nothing_repeats(void **state)
{
	uint8_t bytes[2][1024] = {0}; /* more than one getrandom() is guaranteed to return */

	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(random_bytes(bytes[i], sizeof(bytes[i])), 0);
	assert_memory_not_equal(bytes[0], bytes[1], sizeof(bytes[0]));
	assert_memory_not_equal(bytes[0] + 992, bytes[1] + 992, 32);
}

/* ---- what runs next ------------------------------------------------------------------------- */

enum {
	ITEMS = 3,
};

static char order[64];

static void note(char what)
{
	order[strlen(order)] = what;
}

struct item {
	struct loop_call call;
	struct loop_fd lfd;
	struct loop_source source;
	struct loop_msg msg;
	char name;
};

static void run_call(struct loop_call *call)
{
	note(container_of(call, struct item, call)->name);
}

static void run_fd(struct loop_fd *lfd, uint32_t events)
{
	note((char)(container_of(lfd, struct item, lfd)->name - 'a' + 'A'));
}

static void run_message(struct loop_msg *msg)
{
	note((char)(container_of(msg, struct item, msg)->name - 'a' + '0'));
}

static unsigned poll_source(struct loop_source *source)
{
	note((char)(container_of(source, struct item, source)->name - 'a' + 'x'));
	return 0;
}

/* One turn of a loop in which everything is ready. */
static const char *run_all(void)
{
	struct item items[ITEMS] = {{.name = 'a'}, {.name = 'b'}, {.name = 'c'}};
	struct loop loop;

	memset(order, 0, sizeof(order));
	assert_int_equal(loop_init(&loop, 0, NULL), 0);
	for (unsigned i = 0; i < ITEMS; i++) {
		struct item *item = &items[i];

		item->call.run = run_call;
		item->msg.run = run_message;
		item->source.poll = poll_source;
		item->lfd = (struct loop_fd){
			.fd = eventfd(1, EFD_CLOEXEC), .events = EPOLLIN, .on_event = run_fd};
		assert_int_equal(loop_fd_add(&loop, &item->lfd), 0);
		loop_source_add(&loop, &item->source);
		loop_send(&loop, &item->msg);
		loop_defer(&loop, &item->call);
	}
	for (unsigned i = 0; i < 4; i++) /* a busy loop checks its fds in some turns only */
		loop_turn(&loop, 0);
	for (unsigned i = 0; i < ITEMS; i++) {
		loop_fd_remove(&items[i].lfd);
		loop_source_remove(&items[i].source);
		close(items[i].lfd.fd);
	}
	loop_deinit(&loop);
	return order;
}

static unsigned choose_last(unsigned n)
{
	assert_true(n > 1);
	return n - 1;
}

static void without_a_choice_the_order_is_fixed(void **state)
{
	assert_int_equal(strncmp(run_all(), "xyz012abc", 9), 0);
	assert_int_equal(strncmp(run_all(), "xyz012abc", 9), 0);
}

static void a_choice_changes_all_orders_but_that_of_messages(void **state)
{
	const char *all, *calls;

	loop_choose = choose_last;
	all = run_all();
	assert_non_null(strstr(all, "012"));
	calls = strstr(all, "cba");
	assert_non_null(calls);
	assert_true(calls < strstr(all, "012"));
	assert_non_null(strstr(all, "CAB"));
	assert_non_null(strstr(all, "zxy"));
	assert_true(calls < strpbrk(all, "xyz"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(all_clocks_follow_the_source, set_virtual,
						set_real),
		cmocka_unit_test_setup_teardown(a_timer_of_an_hour_takes_no_time, set_virtual,
						set_real),
		cmocka_unit_test_setup_teardown(the_limit_of_the_log_follows_it, set_virtual,
						set_real),
		cmocka_unit_test_teardown(a_seed_repeats_its_bytes, set_real),
		cmocka_unit_test_teardown(without_a_seed_nothing_repeats, set_real),
		cmocka_unit_test_teardown(without_a_choice_the_order_is_fixed, set_real),
		cmocka_unit_test_teardown(a_choice_changes_all_orders_but_that_of_messages,
					  set_real),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
