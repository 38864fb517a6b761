/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device that loses completions (SOFTRDMA_CHAOS=lose=100). A device without completions may still
 * access the memory, so the queue pair is destroyed before its work requests come back (InfiniBand
 * specification 1.4, 10.2.4.4).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <rdma/rdma_cma.h>

#include "tests/transport/pair.h"
#include "transport/cq.h"
#include "transport/qp_post.h"

enum {
	N_WORKS = 5,
};

static unsigned n_done, n_flushed, n_too_early;
static struct pair p;

/* The owner reuses a work's memory from here on: the device must have no queue pair left. */
static void on_done(struct work *work, const struct completion *c)
{
	n_done++;
	n_flushed += completion_is_flush(c);
	n_too_early += p.active.conn->id->qp != NULL;
}

static struct work works[N_WORKS];

static void send_some(struct side *side)
{
	struct sge sge = {.addr = side->memory, .length = PAIR_CAPSULE, .lkey = side->mr.lkey};

	for (unsigned i = 0; i < N_WORKS; i++) {
		works[i].done = on_done;
		qp_send(&side->qp, &works[i], &sge, 1, QP_SIGNALED, 0);
	}
}

static void connect_pair(bool uses_shared_ring)
{
	p.uses_shared_ring = uses_shared_ring;
	pair_init(&p);
	pair_connect(&p);
	n_done = n_flushed = n_too_early = 0;
}

static void check_released(void)
{
	const struct device *device = p.active.conn->device;
	unsigned n_before = device->n_releases;

	send_some(&p.active);
	pair_settle(&p);
	assert_int_equal(n_done, 0);
	qp_drain(&p.active.qp);
	assert_true(pair_wait(&p, &p.active.n_drained, 1));
	assert_null(p.active.conn->id->qp);
	assert_int_equal(n_too_early, 0);
	assert_int_equal(n_done, N_WORKS);
	assert_int_equal(n_flushed, N_WORKS);
	assert_int_equal(device->n_releases, n_before + 1);
	pair_deinit(&p);
}

static void destroyed_before_memory_is_reused(void **state)
{
	connect_pair(false);
	check_released();
}

static void destroyed_on_a_shared_queue(void **state)
{
	connect_pair(true);
	check_released();
}

/* Work queued after the failure never reached the device; it comes back, too. */
static void queued_works_come_back(void **state)
{
	connect_pair(false);
	qp_drain(&p.active.qp);
	send_some(&p.active);
	assert_true(pair_wait(&p, &p.active.n_drained, 1));
	assert_int_equal(n_done, N_WORKS);
	assert_int_equal(n_flushed, N_WORKS);
	pair_deinit(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(destroyed_before_memory_is_reused),
		cmocka_unit_test(destroyed_on_a_shared_queue),
		cmocka_unit_test(queued_works_come_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
