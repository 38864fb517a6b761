/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs and the connection manager over the fabric at hand (normally the software
 * one). */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <infiniband/verbs.h>

#include "tests/transport/pair.h"
#include "transport/chain.h"
#include "transport/cq.h"
#include "transport/qp_post.h"
#include "transport/recv_ring.h"
#include "transport/wire/rdma_cm.h"

struct counted {
	struct work work;
	unsigned number;
};

static unsigned n_done, n_flushed, last_number;
static bool was_in_order;

static void on_done(struct work *work, const struct completion *c)
{
	struct counted *counted = container_of(work, struct counted, work);

	was_in_order &= counted->number == last_number + 1;
	last_number = counted->number;
	n_done++;
	n_flushed += completion_is_flush(c);
}

static struct counted works[4096];

static void prepare_works(void)
{
	for (unsigned i = 0; i < 4096; i++)
		works[i] = (struct counted){.work = {.done = on_done}, .number = i + 1};
	n_done = n_flushed = last_number = 0;
	was_in_order = true;
}

static int set_up(void **state)
{
	static struct pair p;

	p.uses_shared_ring = false;
	pair_init(&p);
	pair_connect(&p);
	prepare_works();
	*state = &p;
	return 0;
}

static int set_up_shared(void **state)
{
	static struct pair p;

	p.uses_shared_ring = true;
	pair_init(&p);
	pair_connect(&p);
	prepare_works();
	*state = &p;
	return 0;
}

static int tear_down(void **state)
{
	pair_deinit(*state);
	return 0;
}

static struct sge piece(const struct side *side, size_t offset, uint32_t length)
{
	return (struct sge){.addr = side->memory + offset, .length = length, .lkey = side->mr.lkey};
}

static void private_data_is_exchanged(void **state)
{
	struct pair *p = *state;

	assert_true(p->n_req >= 32);
	assert_int_equal(p->seen_req[2], 7);
	assert_true(p->n_rep >= 32);
	assert_int_equal(p->seen_rep[2], PAIR_RECEIVES);
}

static void capsule_and_data_arrive_apart(void **state)
{
	struct pair *p = *state;
	struct sge sges[2] = {piece(&p->active, 0, 64), piece(&p->active, 8192, 1000)};

	memset(p->active.memory, 0xab, 64);
	memset(p->active.memory + 8192, 0xcd, 1000);
	qp_send(&p->active.qp, &works[0].work, sges, 2, QP_SIGNALED, 0);
	assert_true(pair_wait(p, &p->passive.n_received, 1));
	assert_int_equal(p->passive.last_len, 1064);
	assert_int_equal(p->passive.last_capsule[63], 0xab);
	assert_int_equal(p->passive.last_data[0], 0xcd);
	assert_int_equal(p->passive.last_data[999], 0xcd);
	assert_int_not_equal(p->passive.last_data[1000], 0xcd);
	assert_true(pair_wait(p, &n_done, 1));
}

/* As when more queue pairs of a completion queue have work to post than it has chains. */
static void who_needs_the_last_chain_posts_what_is_in_it(void **state)
{
	struct pair *p = *state;
	struct sge sges[1] = {piece(&p->active, 0, 64)};
	struct qp other = {.cq = &p->active.cq};
	struct chain *chain;
	unsigned n_used;

	qp_send(&p->active.qp, &works[0].work, sges, 1, 0, 0);
	qp_send(&p->active.qp, &works[1].work, sges, 1, QP_SIGNALED, 0);
	assert_non_null(p->active.qp.chain);

	n_used = p->active.cq.chains.n_used;
	p->active.cq.chains.n_used = CHAINS_MAX;
	assert_null(chain_take(&p->active.cq.chains));
	qp_write(&other, sges[0], 0, 0);
	p->active.cq.chains.n_used = n_used;
	chain = other.chain;
	assert_non_null(chain);
	assert_null(p->active.qp.chain);
	assert_int_equal(p->active.qp.n_chain, 0);
	chain_give(&p->active.cq.chains, chain);
	assert_true(pair_wait(p, &p->passive.n_received, 2));
	assert_true(pair_wait(p, &n_done, 2));

	qp_send(&p->active.qp, &works[2].work, sges, 1, QP_SIGNALED, 0);
	assert_ptr_equal(p->active.qp.chain, chain);
	assert_true(pair_wait(p, &p->passive.n_received, 3));
	assert_true(pair_wait(p, &n_done, 3));
	assert_true(was_in_order);
	assert_int_equal(n_flushed, 0);
}

static void write_is_visible_with_the_send_behind_it(void **state)
{
	struct pair *p = *state;
	struct sge data = piece(&p->passive, 0, 65536), cqe = piece(&p->passive, 0, 16);

	memset(p->passive.memory, 0x5a, 65536);
	qp_write(&p->passive.qp, data, (uintptr_t)p->active.memory + 4096, p->active.mr.rkey);
	qp_send(&p->passive.qp, &works[0].work, &cqe, 1, QP_SIGNALED, 0);
	assert_true(pair_wait(p, &p->active.n_received, 1));
	assert_int_equal(p->active.memory[4096], 0x5a);
	assert_int_equal(p->active.memory[4096 + 65535], 0x5a);
	assert_int_equal(p->active.memory[4096 + 65536], 0);
	assert_true(pair_wait(p, &n_done, 1));
	assert_int_equal(qp_n_free(&p->passive.qp), PAIR_DEPTH - 1);
}

static void read_fetches_and_returns_its_credit(void **state)
{
	struct pair *p = *state;
	struct sge sink = piece(&p->passive, 0, 4096);

	memset(p->active.memory, 0x77, 4096);
	for (unsigned i = 0; i < 4; i++)
		qp_read(&p->passive.qp, &works[i].work, sink, (uintptr_t)p->active.memory,
			p->active.mr.rkey);
	assert_false(qp_has_read_credit(&p->passive.qp));
	assert_true(pair_wait(p, &n_done, 4));
	assert_true(qp_has_read_credit(&p->passive.qp));
	assert_int_equal(p->passive.memory[4095], 0x77);
	assert_true(p->passive.n_credits > 0);
}

static void unsignaled_works_complete_once_and_in_order(void **state)
{
	struct pair *p = *state;
	struct sge sge = piece(&p->active, 0, 64);
	unsigned n_queued = 0;

	while (n_queued < 2000) {
		while (n_queued < 2000 && qp_n_free(&p->active.qp))
			qp_send(&p->active.qp, &works[n_queued++].work, &sge, 1, 0, 0);
		/* The full queue drains without help: its last work was signaled. */
		assert_true(pair_wait(p, &n_done, n_queued - PAIR_DEPTH / 2));
	}
	assert_true(pair_wait(p, &p->passive.n_received, 2000));
	assert_true(was_in_order);
	assert_int_equal(n_flushed, 0);
}

static void unsignaled_works_can_be_settled(void **state)
{
	struct pair *p = *state;
	struct sge sge = piece(&p->passive, 0, 64);

	for (unsigned i = 0; i < 3; i++)
		qp_send(&p->passive.qp, &works[i].work, &sge, 1, 0, 0);
	assert_true(pair_wait(p, &p->active.n_received, 3));
	qp_settle(&p->passive.qp);
	assert_true(pair_wait(p, &n_done, 3));
	assert_int_equal(n_flushed, 0);
	pair_settle(p);
	assert_true(qp_is_quiet(&p->passive.qp));
	assert_int_equal(p->active.n_received, 3);
}

static void wrong_key_breaks_the_queue_pair_and_all_works_return(void **state)
{
	struct pair *p = *state;
	struct sge sge = piece(&p->passive, 0, 512);

	qp_write(&p->passive.qp, sge, (uintptr_t)p->active.memory, p->active.mr.rkey ^ 0x5500);
	for (unsigned i = 0; i < 8; i++)
		qp_send(&p->passive.qp, &works[i].work, &sge, 1, 0, 0);
	assert_true(pair_wait(p, &p->passive.n_broken, 1));
	assert_true(pair_wait(p, &n_done, 8));
	assert_true(was_in_order);
	assert_int_equal(n_flushed, 8);
	assert_int_equal(p->passive.n_broken, 1);
}

static void posting_on_a_broken_queue_pair_flushes_later(void **state)
{
	struct pair *p = *state;
	struct sge sge = piece(&p->active, 0, 64);

	qp_drain(&p->active.qp);
	qp_send(&p->active.qp, &works[0].work, &sge, 1, QP_SIGNALED, 0);
	assert_int_equal(n_done, 0); /* never from inside the submit call */
	assert_true(pair_wait(p, &n_done, 1));
	assert_int_equal(n_flushed, 1);
	assert_true(pair_wait(p, &p->active.n_drained, 1));
}

/* The device refuses a chain. A device like siw does not report which work failed. */
static void refused_works_return_when_drained(void **state)
{
	struct pair *p = *state;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
	struct sge sge = piece(&p->active, 0, 64);

	qp_write(&p->active.qp, sge, (uintptr_t)p->passive.memory, p->passive.mr.rkey);
	for (unsigned i = 0; i < 10; i++)
		qp_send(&p->active.qp, &works[i].work, &sge, 1, 0, 0);
	assert_int_equal(ibv_modify_qp(p->active.qp.verbs, &attr, IBV_QP_STATE), 0);
	qp_flush(&p->active.qp);
	assert_int_equal(n_done, 0); /* never from inside the submit call */
	side_drain(p, &p->active);
	assert_int_equal(n_done, 10);
	assert_int_equal(n_flushed, 10);
	assert_true(was_in_order);
	assert_int_equal(p->active.n_broken, 0); /* flushing is no failure */
}

static void drain_brings_back_queued_works(void **state)
{
	struct pair *p = *state;
	struct sge sge = piece(&p->active, 0, 64);

	for (unsigned i = 0; i < 10; i++)
		qp_send(&p->active.qp, &works[i].work, &sge, 1, 0, 0);
	side_drain(p, &p->active);
	assert_int_equal(n_done, 10);
	assert_true(was_in_order);
	assert_int_equal(p->active.n_drained, 1);
	pair_settle(p);
	assert_int_equal(p->active.n_drained, 1);
}

static void peer_hears_of_a_disconnect_once(void **state)
{
	struct pair *p = *state;

	cm_disconnect(p->active.conn);
	assert_true(pair_wait(p, &p->passive.n_disconnected, 1));
	pair_settle(p);
	assert_int_equal(p->passive.n_disconnected, 1);
}

static unsigned count_receives(const struct pair *p)
{
	return p->passive.shared.n_posted + p->passive.shared.n_chain;
}

/* A queue pair that dies must not consume receives that other queue pairs share. */
static void shared_receives_survive_a_dead_queue_pair(void **state)
{
	struct pair *p = *state;
	struct sge sge = piece(&p->active, 0, 64);

	for (unsigned i = 0; i < 8; i++)
		qp_send(&p->active.qp, &works[i].work, &sge, 1, QP_SIGNALED, 0);
	assert_true(pair_wait(p, &p->passive.n_received, 8));
	side_drain(p, &p->passive);
	for (unsigned i = 0; i < 1000 && count_receives(p) < PAIR_RECEIVES; i++)
		pair_settle(p);
	assert_int_equal(count_receives(p), PAIR_RECEIVES);
}

static void held_receives_stay_with_the_holder(void **state)
{
	struct pair *p = *state;
	struct sge sge = piece(&p->active, 0, 64);

	p->passive.keeps_receives = true;
	for (unsigned i = 0; i < 5; i++)
		qp_send(&p->active.qp, &works[i].work, &sge, 1, QP_SIGNALED, 0);
	assert_true(pair_wait(p, &p->passive.n_received, 5));
	assert_int_equal(p->passive.qp.ring->n_posted, PAIR_RECEIVES - 5);
	side_drain(p, &p->passive);
}

static void send_received(struct pair *p, unsigned first, unsigned n)
{
	struct sge sge = piece(&p->active, 0, 64);

	for (unsigned i = first; i < first + n; i++) {
		qp_send(&p->active.qp, &works[i].work, &sge, 1, QP_SIGNALED, 0);
		assert_true(pair_wait(p, &n_done, i + 1));
		assert_true(pair_wait(p, &p->passive.n_received, i + 1));
	}
}

/* While the owner keeps all receives: the new ones serve the same queue pairs. */
static void a_shared_ring_grows(void **state)
{
	struct pair *p = *state;
	struct recv_part *part;

	p->passive.keeps_receives = true;
	send_received(p, 0, PAIR_RECEIVES);
	assert_int_equal(count_receives(p), 0);
	assert_int_equal(
		recv_ring_add(&p->passive.shared, &p->passive.domain, PAIR_RECEIVES, &part), 0);
	assert_int_equal(recv_part_post(part), 0);
	assert_int_equal(count_receives(p), PAIR_RECEIVES);
	send_received(p, PAIR_RECEIVES, PAIR_RECEIVES);
	assert_int_equal(count_receives(p), 0);
}

/* The queue grows to the reserved size, and no completion is lost. A device whose queues cannot
 * grow has the full size from the start. */
static void a_completion_queue_grows(void **state)
{
	struct pair *p = *state;
	struct cq *cq = &p->passive.cq;
	unsigned n = PAIR_CQES - cq->n_reserved;

	if (cq->device->limits.is_iwarp)
		assert_in_range(cq->verbs->cqe, PAIR_CQES, INT32_MAX);
	else
		assert_in_range(cq->verbs->cqe, 16, PAIR_CQES - 1);
	send_received(p, 0, 4);
	assert_int_equal(cq_reserve(cq, n + 1), -ENOSPC);
	assert_int_equal(cq_reserve(cq, n), 0);
	assert_in_range(cq->verbs->cqe, PAIR_CQES, INT32_MAX);
	send_received(p, 4, 4);
	cq_release(cq, n);
}

static void reject_carries_the_status(void **state)
{
	static struct pair p;

	pair_init(&p);
	p.reject_status = NVMF_CM_NO_RESOURCES;
	pair_connect(&p);
	assert_true(p.has_failed);
	assert_int_equal(p.error.failure, CM_REJECTED);
	assert_int_equal(p.error.nvmf_status, NVMF_CM_NO_RESOURCES);
	pair_deinit(&p);
}

static void nobody_listens(void **state)
{
	static struct pair p;

	pair_init(&p);
	cm_listener_close(&p.listener);
	pair_connect(&p);
	assert_true(p.has_failed);
	assert_int_equal(p.error.failure, CM_REJECTED);
	assert_int_equal(p.error.reason, CM_REASON_NO_LISTENER);
	assert_int_equal(p.error.nvmf_status, 0);
	pair_deinit(&p);
}

static void port_in_use(void **state)
{
	static struct pair p;
	struct cm_listener second = {0};

	pair_init(&p);
	assert_int_equal(cm_listen(p.cm, &p.listener.address, 1, &second), -EADDRINUSE);
	pair_deinit(&p);
}

#define CONNECTED(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
#define SHARED(f)    cmocka_unit_test_setup_teardown(f, set_up_shared, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CONNECTED(private_data_is_exchanged),
		CONNECTED(capsule_and_data_arrive_apart),
		CONNECTED(who_needs_the_last_chain_posts_what_is_in_it),
		CONNECTED(write_is_visible_with_the_send_behind_it),
		CONNECTED(read_fetches_and_returns_its_credit),
		CONNECTED(unsignaled_works_complete_once_and_in_order),
		SHARED(unsignaled_works_complete_once_and_in_order),
		CONNECTED(unsignaled_works_can_be_settled),
		SHARED(unsignaled_works_can_be_settled),
		CONNECTED(wrong_key_breaks_the_queue_pair_and_all_works_return),
		SHARED(wrong_key_breaks_the_queue_pair_and_all_works_return),
		CONNECTED(posting_on_a_broken_queue_pair_flushes_later),
		CONNECTED(refused_works_return_when_drained),
		CONNECTED(drain_brings_back_queued_works),
		SHARED(drain_brings_back_queued_works),
		CONNECTED(peer_hears_of_a_disconnect_once),
		SHARED(shared_receives_survive_a_dead_queue_pair),
		SHARED(a_shared_ring_grows),
		SHARED(a_completion_queue_grows),
		CONNECTED(a_completion_queue_grows),
		CONNECTED(held_receives_stay_with_the_holder),
		cmocka_unit_test(reject_carries_the_status),
		cmocka_unit_test(nobody_listens),
		cmocka_unit_test(port_in_use),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
