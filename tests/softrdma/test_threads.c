/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many threads on shared objects: verbs are thread safe (ibv_post_send(3) and the
 * others say so). Meant to be run under TSan, where the happens-before edges between
 * requester and responder in one process must come from the completion queue.
 */
#include "rig.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
	PAIRS = 4,
	ROUNDS = 400
};

static _Atomic unsigned failures;

#define check(cond)                                                                                \
	do {                                                                                       \
		if (!(cond))                                                                       \
			atomic_fetch_add(&failures, 1);                                            \
	} while (0)

struct pair {
	struct rig *r;
	struct end a, b;
	unsigned index;
};

static struct ibv_wc wait_for(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	while (!ibv_poll_cq(cq, 1, &wc))
		sched_yield(); /* to the thread that is to answer */
	return wc;
}

static void new_end(struct rig *r, struct end *e)
{
	e->scq = ibv_create_cq(r->ctx, 64, NULL, NULL, 0);
	e->rcq = ibv_create_cq(r->ctx, 64, NULL, NULL, 0);
	e->buf = calloc(1, 16384);
	e->mr = ibv_reg_mr(r->pd, e->buf, 16384, rig_opts.access);
	e->qp = rig_new_qp(r, e, NULL);
	check(!to_init(e->qp));
}

static void end_gone(struct end *e)
{
	check(!ibv_destroy_qp(e->qp));
	check(!ibv_dereg_mr(e->mr));
	check(!ibv_destroy_cq(e->scq));
	check(!ibv_destroy_cq(e->rcq));
	free(e->buf);
}

/* The answering side: plain reads and writes of memory that the other side filled. */
static void *echo(void *arg)
{
	struct pair *p = arg;

	for (unsigned i = 0; i < ROUNDS; i++) {
		check(!wait_for(p->b.rcq).status);
		memcpy(p->b.buf + 8192, p->b.buf, 4096);
		check(!recv_at(&p->b, i, 0, 4096));
		check(!send_from(&p->b, i, 8192, i & 1 ? 4096 : 64, IBV_SEND_SIGNALED));
		check(!wait_for(p->b.scq).status);
	}
	return NULL;
}

static void ask(struct pair *p)
{
	for (unsigned i = 0; i < ROUNDS; i++) {
		memset(p->a.buf, (int)i, 4096);
		check(!recv_at(&p->a, i, 8192, 4096));
		check(!send_from(&p->a, i, 0, i & 1 ? 4096 : 64, IBV_SEND_SIGNALED));
		check(!wait_for(p->a.scq).status);
		check(!wait_for(p->a.rcq).status);
		check(!memcmp(p->a.buf, p->a.buf + 8192, i & 1 ? 4096 : 64));
	}
}

/* A life of two QPs, with everything created and destroyed beside the others. */
static void *life(void *arg)
{
	struct pair *p = arg;
	pthread_t t;

	for (int i = 0; i < 3; i++) {
		new_end(p->r, &p->a);
		new_end(p->r, &p->b);
		check(!to_rtr(p->a.qp, p->b.qp->qp_num));
		check(!to_rtr(p->b.qp, p->a.qp->qp_num));
		check(!to_rts(p->a.qp));
		check(!to_rts(p->b.qp));
		check(!recv_at(&p->b, 0, 0, 4096));
		pthread_create(&t, NULL, echo, p);
		ask(p);
		pthread_join(t, NULL);
		end_gone(&p->a);
		end_gone(&p->b);
	}
	return NULL;
}

static void pairs_beside_each_other(void **state)
{
	struct rig *r = *state;
	struct pair pairs[PAIRS];
	pthread_t t[PAIRS];

	for (unsigned i = 0; i < PAIRS; i++) {
		pairs[i] = (struct pair){.r = r, .index = i};
		pthread_create(&t[i], NULL, life, &pairs[i]);
	}
	for (unsigned i = 0; i < PAIRS; i++)
		pthread_join(t[i], NULL);
	assert_int_equal(atomic_load(&failures), 0);
}

/* One QP, one CQ, several posters and pollers. */
static void *poster(void *arg)
{
	struct rig *r = arg;
	struct ibv_wc wc;

	for (unsigned sent = 0, done = 0; done < ROUNDS;) {
		if (sent < ROUNDS && !rdma(&r->a, IBV_WR_RDMA_WRITE, 1, 0, 64, (uintptr_t)r->b.buf,
					   r->b.mr->rkey, IBV_SEND_SIGNALED))
			sent++;
		if (ibv_poll_cq(r->a.scq, 1, &wc) == 1) {
			check(!wc.status);
			done++;
		} else if (sent == ROUNDS) {
			sched_yield();
		}
	}
	return NULL;
}

static void posters_of_one_queue(void **state)
{
	struct rig *r = *state;
	pthread_t t[3];

	for (unsigned i = 0; i < n_of(t); i++)
		pthread_create(&t[i], NULL, poster, r);
	for (unsigned i = 0; i < n_of(t); i++)
		pthread_join(t[i], NULL);
	assert_int_equal(atomic_load(&failures), 0);
	expect_empty(r->a.scq);
}

/* Regions come and go while others are in use. */
static void *registrar(void *arg)
{
	struct rig *r = arg;
	static uint8_t memory[65536];

	for (unsigned i = 0; i < ROUNDS; i++) {
		struct ibv_mr *mr = ibv_reg_mr(r->pd, memory, sizeof(memory), rig_opts.access);

		check(mr);
		check(mr && !ibv_dereg_mr(mr));
	}
	return NULL;
}

static void registering_beside_traffic(void **state)
{
	struct rig *r = *state;
	pthread_t t;

	pthread_create(&t, NULL, registrar, r);
	poster(r);
	pthread_join(t, NULL);
	assert_int_equal(atomic_load(&failures), 0);
}

/* ---- no peer copies by a key that is gone ------------------------------------- */

struct target {
	struct rig *r;
	uint32_t rkey;
	_Atomic unsigned n_written;
};

static void *write_until_refused(void *arg)
{
	struct target *t = arg;
	struct ibv_wc wc = {0};

	memset(t->r->a.buf, 0xaa, 32768);
	while (!wc.status) { /* however late it starts, it is refused in the end */
		check(!rdma(&t->r->a, IBV_WR_RDMA_WRITE, 1, 0, 32768, (uintptr_t)t->r->b.buf,
			    t->rkey, IBV_SEND_SIGNALED));
		wc = wait_for(t->r->a.scq);
		atomic_fetch_add(&t->n_written, 1);
	}
	check(wc.status == IBV_WC_REM_ACCESS_ERR);
	return NULL;
}

/* ibv_dereg_mr(3): when it returns the memory is the application's alone. The last request has
 * failed when the thread ends: nothing of it or of those before it can come any more. */
static void nobody_writes_after_deregistration(void **state)
{
	struct rig *r = *state;
	struct ibv_mr *mr = ibv_reg_mr(r->pd, r->b.buf, RIG_BUF, rig_opts.access);
	struct target t = {.r = r, .rkey = mr->rkey};
	pthread_t thread;

	pthread_create(&thread, NULL, write_until_refused, &t);
	while (!atomic_load(&t.n_written))
		sched_yield();
	assert_int_equal(ibv_dereg_mr(mr), 0);
	memset(r->b.buf, 0, 32768);
	pthread_join(thread, NULL);
	for (unsigned i = 0; i < 32768; i++)
		assert_int_equal(r->b.buf[i], 0);
	assert_int_equal(atomic_load(&failures), 0);
}

/* ---- destroying waits for the acknowledgements ---------------------------- */

static void destroy_qp(void *qp)
{
	check(!ibv_destroy_qp(qp));
}

static void destroy_cq(void *cq)
{
	check(!ibv_destroy_cq(cq));
}

/* ibv_get_async_event(3): events must be acknowledged before their object can go. */
static void destroy_waits_for_acked_events(void **state)
{
	struct rig *r = *state;
	struct ibv_qp_attr sqd = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
	struct held_call call = {.make = destroy_qp, .context = r->a.qp};
	struct ibv_async_event ev;

	assert_int_equal(ibv_modify_qp(r->a.qp, &sqd, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY),
			 0);
	assert_int_equal(ibv_get_async_event(r->ctx, &ev), 0);
	assert_ptr_equal(ev.element.qp, r->a.qp);
	r->a.qp = NULL; /* rig_down has no part in it, however the call ends */
	held_call_begin(&call);
	ibv_ack_async_event(&ev);
	held_call_end(&call);
	assert_int_equal(atomic_load(&failures), 0);
}

/* ibv_get_cq_event(3): the same for a CQ and its completion events. */
static void destroy_cq_waits_for_acked_events(void **state)
{
	struct rig *r = *state;
	struct ibv_cq *doomed = ibv_create_cq(r->ctx, 1, NULL, r->ch, 0), *cq;
	struct end e = {.scq = doomed, .rcq = doomed, .buf = r->a.buf, .mr = r->a.mr};
	struct held_call call = {.make = destroy_cq, .context = doomed};
	void *context;

	e.qp = rig_new_qp(r, &e, NULL);
	assert_int_equal(ibv_req_notify_cq(doomed, 0), 0);
	assert_int_equal(to_init(e.qp), 0);
	assert_int_equal(to_state(e.qp, IBV_QPS_ERR), 0);
	assert_int_equal(recv_at(&e, 1, 0, 8), 0);
	assert_int_equal(ibv_get_cq_event(r->ch, &cq, &context), 0);
	assert_ptr_equal(cq, doomed);
	assert_int_equal(ibv_destroy_qp(e.qp), 0);
	held_call_begin(&call);
	ibv_ack_cq_events(cq, 1);
	held_call_end(&call);
	assert_int_equal(atomic_load(&failures), 0);
}

/* ---- an idle process does not run --------------------------------------------- */

enum {
	QUIET_TRIES = 60
};

/* ret_runs: whether it runs, or waits for a processor. */
static unsigned long switches_of_helper(bool *ret_runs)
{
	char path[300], line[128];
	unsigned long sum = 0, n;
	DIR *d = opendir("/proc/self/task");
	struct dirent *e;

	*ret_runs = false;
	while ((e = readdir(d))) {
		bool ours = false;
		FILE *f;

		snprintf(path, sizeof(path), "/proc/self/task/%s/status", e->d_name);
		f = fopen(path, "re");
		while (f && fgets(line, sizeof(line), f)) {
			ours = ours || !strcmp(line, "Name:\tsoftrdma\n");
			*ret_runs |= ours && !strncmp(line, "State:\tR", 8);
			if (ours && sscanf(line, "voluntary_ctxt_switches: %lu", &n) == 1)
				sum += n;
		}
		if (f)
			fclose(f);
	}
	closedir(d);
	return sum;
}

/* Earlier wake-ups, and programs that come and go meanwhile, may need a while on a busy machine.
 * A helper that looks again and again has no quiet second. */
static void idle_is_silent(void **state)
{
	struct rig *r = *state;
	struct timespec second = {.tv_sec = 1};
	unsigned long before, now;
	unsigned tries = 0;
	bool runs;

	assert_int_equal(send_from(&r->a, 1, 0, 64, 0), 0); /* even with a send that waits */
	now = switches_of_helper(&runs);
	assert_int_not_equal(now, 0);
	do {
		before = now;
		nanosleep(&second, NULL);
		now = switches_of_helper(&runs);
	} while ((runs || now != before) && ++tries < QUIET_TRIES);
	assert_int_not_equal(tries, QUIET_TRIES);
}

/* ---- a listener goes while connections come ----------------------------------- */

enum {
	LISTENERS = 300
};

struct caller {
	struct sockaddr_in to;
	_Atomic bool is_over;
};

static enum rdma_cm_event_type next_event(struct rdma_event_channel *ch)
{
	enum rdma_cm_event_type type = RDMA_CM_EVENT_UNREACHABLE;
	struct rdma_cm_event *e;

	if (!rdma_get_cm_event(ch, &e)) {
		type = e->event;
		rdma_ack_cm_event(e);
	}
	return type;
}

/* Refused by a listener that was destroyed, or by none. */
static void *call_again_and_again(void *arg)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_conn_param param = {.retry_count = 7};
	struct caller *c = arg;
	struct rdma_cm_id *id;

	while (!atomic_load(&c->is_over)) {
		check(!rdma_create_id(ch, &id, NULL, RDMA_PS_TCP));
		check(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&c->to, 1000));
		check(next_event(ch) == RDMA_CM_EVENT_ADDR_RESOLVED);
		check(!rdma_resolve_route(id, 1000));
		check(next_event(ch) == RDMA_CM_EVENT_ROUTE_RESOLVED);
		check(!rdma_connect(id, &param));
		check(next_event(ch) == RDMA_CM_EVENT_REJECTED);
		check(!rdma_destroy_id(id));
	}
	rdma_destroy_event_channel(ch);
	return NULL;
}

static void listeners_go_while_connections_come(void **state)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct caller caller = {
		.to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
	struct timespec nap = {0};
	struct rdma_cm_id *id;
	pthread_t t;

	for (unsigned i = 0; i < LISTENERS; i++) {
		assert_int_equal(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
		assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&caller.to), 0);
		if (!i) /* the same port for all; the caller reads it from now on */
			caller.to.sin_port = rdma_get_src_port(id);
		assert_int_equal(rdma_listen(id, 4), 0);
		if (!i)
			assert_int_equal(pthread_create(&t, NULL, call_again_and_again, &caller),
					 0);
		nap.tv_nsec = i % 16 * 50000;
		nanosleep(&nap, NULL);
		assert_int_equal(rdma_destroy_id(id), 0);
	}
	atomic_store(&caller.is_over, true);
	pthread_join(t, NULL);
	rdma_destroy_event_channel(ch);
	assert_int_equal(atomic_load(&failures), 0);
}

/* ---- a channel goes while a thread waits for its events ------------------------- */

static void *fetch_until_refused(void *channel)
{
	struct rdma_cm_event *e;

	while (!rdma_get_cm_event(channel, &e))
		check(!rdma_ack_cm_event(e));
	check(errno == EBADF);
	return NULL;
}

/* rping's thread still waits, or is about to, when the program destroys the channel. */
static void channels_go_while_threads_wait(void **state)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	uint64_t one = 1;

	for (unsigned i = 0; i < LISTENERS; i++) {
		struct rdma_event_channel *ch = rdma_create_event_channel();
		int same = dup(ch->fd);
		struct rdma_cm_id *id;
		pthread_t t;

		assert_int_equal(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
		assert_int_equal(pthread_create(&t, NULL, fetch_until_refused, ch), 0);
		assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000), 0);
		assert_int_equal(rdma_destroy_id(id), 0);
		rdma_destroy_event_channel(ch);
		/* closing a descriptor wakes no thread that reads it */
		assert_int_equal(write(same, &one, sizeof(one)), sizeof(one));
		pthread_join(t, NULL);
		close(same);
	}
	assert_int_equal(atomic_load(&failures), 0);
}

/* Cancelling the thread first is the other way of programs; its channel must not leak. */
static void waiting_threads_are_cancelled(void **state)
{
	for (unsigned i = 0; i < 10; i++) {
		struct rdma_event_channel *ch = rdma_create_event_channel();
		pthread_t t;

		assert_int_equal(pthread_create(&t, NULL, fetch_until_refused, ch), 0);
		assert_int_equal(pthread_cancel(t), 0);
		pthread_join(t, NULL);
		rdma_destroy_event_channel(ch);
	}
	assert_int_equal(atomic_load(&failures), 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(pairs_beside_each_other),
		T(posters_of_one_queue),
		T(registering_beside_traffic),
		T(nobody_writes_after_deregistration),
		T(destroy_waits_for_acked_events),
		T(destroy_cq_waits_for_acked_events),
		T(idle_is_silent),
		T(listeners_go_while_connections_come),
		T(channels_go_while_threads_wait),
		T(waiting_threads_are_cancelled),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
