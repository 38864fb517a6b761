/* SPDX-License-Identifier: BSD-3-Clause */
/* A capture: order, streams, times, what finds no room, ends and starts while threads add. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/capture.h"
#include "base/clock.h"

enum {
	START = 1000000, /* the stamp of each capture here */
	ADDERS = 3,
	ROUNDS = 200,
};

static uint64_t ns_between(uint64_t from, uint64_t to)
{
	return 2 * (to - from); /* a stamp is two nanoseconds */
}

static struct capture_stream stream_of(uint16_t port)
{
	union addr active = {.in = {.sin_family = AF_INET, .sin_port = htobe16(port)}}, passive;
	struct capture_stream stream;

	passive = active;
	active.in.sin_addr.s_addr = htobe32(0x7f000002);
	passive.in.sin_addr.s_addr = htobe32(0x7f000001);
	capture_stream_init(&stream, &active, &passive);
	capture_stream_hello(&stream.active, "hello", 5);
	return stream;
}

static void add(struct capture *capture, struct capture_stream *stream, uint64_t n)
{
	uint8_t request[CAPTURE_REQUEST] = {0}, answer[CAPTURE_ANSWER] = {0};

	memcpy(request, &n, sizeof(n));
	memcpy(answer, &n, sizeof(n));
	capture_add(capture, stream, START + n, START + n + 1, request, answer);
}

static uint64_t number_of(const struct capture_entry *entry)
{
	uint64_t n;

	assert_int_equal(get_le32(entry->kind), CAPTURE_EXCHANGE);
	assert_memory_equal(entry->request, entry->answer, sizeof(n));
	memcpy(&n, entry->request, sizeof(n));
	return n;
}

static void test_order(void **state)
{
	struct capture_stream a = stream_of(1), b = stream_of(2);
	static struct capture_entry e[16];
	struct capture capture;
	uint64_t before = clock_wall_ns();

	capture_init(&capture, ns_between);
	assert_false(capture_is_on(&capture));
	add(&capture, &a, 1); /* no effect */
	assert_int_equal(capture_start(&capture, 7, 100, START), 0);
	assert_true(capture_is_on(&capture));
	add(&capture, &a, 1);
	add(&capture, &b, 2);
	add(&capture, &a, 3);
	assert_int_equal(capture_take(&capture, e, 16), 5);
	assert_int_equal(get_le32(e[0].kind), CAPTURE_STREAM);
	assert_int_equal(get_le32(e[0].stream), 101);
	assert_int_equal(get_le16(e[0].active.port), 1);
	assert_memory_equal(e[0].active.address + 10, "\xff\xff\x7f\0\0\2", 6);
	assert_memory_equal(e[0].active.hello, "hello\0", 6);
	assert_int_equal(number_of(&e[1]), 1);
	assert_int_equal(get_le32(e[2].kind), CAPTURE_STREAM);
	assert_int_equal(number_of(&e[3]), 2);
	assert_int_equal(number_of(&e[4]), 3);
	assert_int_equal(get_le32(e[4].stream), 101);
	assert_int_equal(get_le64(e[4].begun) - get_le64(e[1].begun), 2 * 2);
	assert_int_equal(get_le64(e[4].ended) - get_le64(e[4].begun), 2);
	assert_in_range(get_le64(e[1].begun), before, clock_wall_ns() + 10);
	/* The next capture hears of the stream again; a command may have begun before it. */
	capture_stop(&capture);
	capture_stop(&capture);
	assert_int_equal(capture_start(&capture, 8, 0, START + 10), 0);
	add(&capture, &a, 4);
	assert_int_equal(capture_take(&capture, e, 16), 2);
	assert_int_equal(get_le32(e[0].stream), 1);
	capture_deinit(&capture);
}

/* Entries that were taken make room; those that find none are counted, and a stream is not lost
 * with them. */
static void test_full(void **state)
{
	struct capture_stream a = stream_of(1), b = stream_of(2);
	static struct capture_entry e[CAPTURE_ROOM];
	struct capture capture;

	capture_init(&capture, ns_between);
	assert_int_equal(capture_start(&capture, 1, 0, START), 0);
	for (unsigned i = 0; i < CAPTURE_ROOM; i++)
		add(&capture, &a, i);
	add(&capture, &b, 0);
	assert_int_equal(capture_n_dropped(&capture), 3);
	assert_int_equal(capture_take(&capture, e, 10), 10);
	add(&capture, &b, 77);
	assert_int_equal(capture_take(&capture, e, CAPTURE_ROOM), CAPTURE_ROOM - 9);
	for (unsigned i = 0; i < CAPTURE_ROOM - 11; i++)
		assert_int_equal(number_of(&e[i]), i + 9);
	assert_int_equal(get_le32(e[CAPTURE_ROOM - 11].kind), CAPTURE_STREAM);
	assert_int_equal(number_of(&e[CAPTURE_ROOM - 10]), 77);
	assert_int_equal(capture_take(&capture, e, CAPTURE_ROOM), 0);
	assert_int_equal(capture_n_dropped(&capture), 3);
	capture_deinit(&capture);
}

/* ---- threads -------------------------------------------------------------------------------- */

static struct capture shared;
static _Atomic bool is_over;

static void *adder(void *arg)
{
	struct capture_stream stream = stream_of(3);

	for (uint64_t n = 0; !atomic_load(&is_over); n++)
		if (capture_is_on(&shared))
			add(&shared, &stream, n);
	return NULL;
}

/* The numbers of each stream only grow. */
static void test_threads(void **state)
{
	static struct capture_entry e[CAPTURE_ROOM];
	pthread_t threads[ADDERS];
	unsigned n_seen = 0;

	capture_init(&shared, ns_between);
	for (unsigned i = 0; i < ADDERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, adder, NULL), 0);
	for (unsigned round = 1; round <= ROUNDS; round++) {
		uint64_t last[ADDERS + 1] = {0};
		unsigned n;

		assert_int_equal(capture_start(&shared, round, 0, START), 0);
		do
			n = capture_take(&shared, e, CAPTURE_ROOM);
		while (!n);
		for (unsigned i = 0; i < n; i++) {
			uint32_t stream = get_le32(e[i].stream);

			assert_in_range(stream, 1, ADDERS);
			if (get_le32(e[i].kind) == CAPTURE_STREAM)
				continue;
			assert_true(number_of(&e[i]) >= last[stream]);
			last[stream] = number_of(&e[i]) + 1;
			n_seen++;
		}
		capture_stop(&shared);
	}
	atomic_store(&is_over, true);
	for (unsigned i = 0; i < ADDERS; i++)
		pthread_join(threads[i], NULL);
	capture_deinit(&shared);
	assert_true(n_seen > ROUNDS / 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
