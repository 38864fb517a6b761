/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Unreliable datagrams: states, address handles, what arrives and what is dropped, multicast on one
 * host, and how rdma_cm resolves a service id. Sources: IBA 9.8.3 (datagrams), 10.2.5 (Q_Keys),
 * 10.3.1 and table 91 (states), 11.6 (completions), 12.11 (SIDR), annex A17 (the header's place);
 * ibv_create_ah(3), ibv_attach_mcast(3), rdma_accept(3).
 */
#include "rig.h"

#include <errno.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	GRH = 40,
	QKEY = 0x11111111,
	MCAST_QPN = 0xffffff,
};

#define CONTROLLED 0x80000000u

/* Rig's queue pairs are connected; these are for datagrams, and made by each test. */
struct ud {
	struct rig *r;
	struct ibv_qp *a, *b;
	struct ibv_ah *ah; /* of this host's first address */
};

static int ud_to_init(struct ibv_qp *qp, uint32_t qkey)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = qkey};

	return ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_QKEY);
}

static int ud_to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTS, .sq_psn = 0xfffffe};

	return ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN);
}

static struct ibv_qp *ud_new(struct rig *r, struct end *e, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr init = {.send_cq = e->scq,
					.recv_cq = e->rcq,
					.srq = srq,
					.cap = rig_opts.init.cap,
					.qp_type = IBV_QPT_UD};
	struct ibv_qp *qp = ibv_create_qp(r->pd, &init);

	assert_non_null(qp);
	assert_int_equal(ud_to_init(qp, QKEY), 0);
	assert_int_equal(to_state(qp, IBV_QPS_RTR), 0);
	assert_int_equal(ud_to_rts(qp), 0);
	return qp;
}

static struct ibv_ah *ah_of(struct rig *r, const union ibv_gid *to)
{
	struct ibv_ah_attr attr = {.port_num = 1, .is_global = 1, .grh = {.hop_limit = 3}};

	if (to)
		attr.grh.dgid = *to;
	else
		assert_int_equal(ibv_query_gid(r->ctx, 1, 0, &attr.grh.dgid), 0);
	return ibv_create_ah(r->pd, &attr);
}

static struct ud up(void **state)
{
	struct ud u = {.r = *state};

	u.a = ud_new(u.r, &u.r->a, NULL);
	u.b = ud_new(u.r, &u.r->b, NULL);
	u.ah = ah_of(u.r, NULL);
	assert_non_null(u.ah);
	return u;
}

static void down(struct ud *u)
{
	assert_int_equal(ibv_destroy_ah(u->ah), 0);
	assert_int_equal(ibv_destroy_qp(u->a), 0);
	assert_int_equal(ibv_destroy_qp(u->b), 0);
}

static int post_recv(struct ibv_qp *qp, struct end *e, uint64_t id, size_t off, uint32_t len)
{
	struct ibv_sge sge = {(uintptr_t)e->buf + off, len, e->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;

	return ibv_post_recv(qp, &wr, &bad);
}

static struct ibv_send_wr datagram(struct ud *u, struct ibv_sge *sge, uint64_t id, uint32_t len)
{
	*sge = (struct ibv_sge){(uintptr_t)u->r->a.buf, len, u->r->a.mr->lkey};
	return (struct ibv_send_wr){.wr_id = id,
				    .sg_list = sge,
				    .num_sge = 1,
				    .opcode = IBV_WR_SEND,
				    .send_flags = IBV_SEND_SIGNALED,
				    .wr.ud = {u->ah, u->b->qp_num, QKEY}};
}

static int post(struct ud *u, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	return ibv_post_send(u->a, wr, &bad);
}

static int send_len(struct ud *u, uint64_t id, uint32_t len)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = datagram(u, &sge, id, len);

	return post(u, &wr);
}

/* ---- states ---- */

static void datagram_masks_are_exact(void **state)
{
	struct rig *r = *state;
	struct ibv_qp_init_attr init = {.send_cq = r->a.scq,
					.recv_cq = r->a.rcq,
					.cap = rig_opts.init.cap,
					.qp_type = IBV_QPT_UD};
	struct ibv_qp *qp = ibv_create_qp(r->pd, &init);
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_qp_init_attr got;

	assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX),
			 EINVAL);
	assert_int_equal(ibv_modify_qp(qp, &a,
				       IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX |
					       IBV_QP_QKEY | IBV_QP_ACCESS_FLAGS),
			 EINVAL);
	assert_int_equal(ud_to_init(qp, QKEY), 0);
	a.qp_state = IBV_QPS_RTR;
	assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_DEST_QPN), EINVAL);
	assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_STATE), 0);
	a.qp_state = IBV_QPS_RTS;
	assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_STATE), EINVAL);
	assert_int_equal(ud_to_rts(qp), 0);
	a.qkey = 7;
	assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_QKEY), 0);
	assert_int_equal(ibv_query_qp(qp, &a, IBV_QP_QKEY, &got), 0);
	assert_int_equal(a.qkey, 7);
	assert_int_equal(got.qp_type, IBV_QPT_UD);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void only_sends_with_an_address(void **state)
{
	static const enum ibv_wr_opcode others[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
						    IBV_WR_ATOMIC_FETCH_AND_ADD,
						    IBV_WR_SEND_WITH_INV};
	struct ud u = up(state);
	struct ibv_sge sge;
	struct ibv_send_wr wr = datagram(&u, &sge, 1, 8);

	for (unsigned i = 0; i < n_of(others); i++) {
		wr.opcode = others[i];
		assert_int_equal(post(&u, &wr), EINVAL);
	}
	wr.opcode = IBV_WR_SEND;
	wr.wr.ud.ah = NULL;
	assert_int_equal(post(&u, &wr), EINVAL);
	down(&u);
}

/* ---- what arrives ---- */

static void check_arrival(struct ud *u, uint32_t len, unsigned flags, uint32_t imm)
{
	struct ibv_wc wc = next_wc(u->r->b.rcq);

	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.byte_len, GRH + len);
	assert_int_equal(wc.wc_flags, IBV_WC_GRH | flags);
	assert_int_equal(wc.src_qp, u->a->qp_num);
	assert_int_equal(wc.qp_num, u->b->qp_num);
	if (flags)
		assert_int_equal(wc.imm_data, imm);
	assert_memory_equal(u->r->b.buf + GRH, u->r->a.buf, len);
	wc = next_wc(u->r->a.scq);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_SEND);
}

/* Up to 24 bytes travel inside the completion, longer ones do not. */
static void data_behind_a_header(void **state)
{
	static const uint32_t sizes[] = {0, 1, 24, 25, 1000, 4096};
	struct ud u = up(state);

	for (unsigned i = 0; i < n_of(sizes); i++) {
		memset(u.r->b.buf, 0xee, 8192);
		memset(u.r->a.buf, (int)i + 1, 8192);
		assert_int_equal(post_recv(u.b, &u.r->b, i, 0, 8192), 0);
		assert_int_equal(send_len(&u, i, sizes[i]), 0);
		check_arrival(&u, sizes[i], 0, 0);
		assert_int_equal(u.r->b.buf[GRH + sizes[i]], 0xee);
	}
	down(&u);
}

static void immediate_and_inline(void **state)
{
	struct ud u = up(state);
	struct ibv_sge sge;
	struct ibv_send_wr wr = datagram(&u, &sge, 1, 64);

	wr.opcode = IBV_WR_SEND_WITH_IMM;
	wr.imm_data = htonl(0x01020304);
	wr.send_flags |= IBV_SEND_INLINE;
	sge.lkey = 0;
	assert_int_equal(post_recv(u.b, &u.r->b, 1, 0, 8192), 0);
	assert_int_equal(post(&u, &wr), 0);
	check_arrival(&u, 64, IBV_WC_WITH_IMM, htonl(0x01020304));
	down(&u);
}

/* The receiver finds its sender by the header alone. */
static void header_leads_back(void **state)
{
	struct ud u = up(state);
	struct ibv_ah_attr attr;
	union ibv_gid first;
	struct ibv_ah *back;
	struct ibv_wc wc;
	struct ibv_sge sge;
	struct ibv_send_wr wr, *bad;

	assert_int_equal(post_recv(u.b, &u.r->b, 1, 0, 8192), 0);
	assert_int_equal(send_len(&u, 1, 100), 0);
	wc = next_wc(u.r->b.rcq);
	assert_int_equal(ibv_init_ah_from_wc(u.r->ctx, 1, &wc, (void *)u.r->b.buf, &attr), 0);
	assert_int_equal(ibv_query_gid(u.r->ctx, 1, 0, &first), 0);
	assert_memory_equal(&attr.grh.dgid, &first, sizeof(first));
	back = ibv_create_ah_from_wc(u.r->pd, &wc, (void *)u.r->b.buf, 1);
	assert_non_null(back);
	assert_int_equal(post_recv(u.a, &u.r->a, 2, 0, 8192), 0);
	wr = datagram(&u, &sge, 3, 10);
	wr.wr.ud.ah = back;
	wr.wr.ud.remote_qpn = wc.src_qp;
	assert_int_equal(ibv_post_send(u.b, &wr, &bad), 0);
	expect_wc(u.r->a.rcq, 2, IBV_WC_SUCCESS);
	assert_int_equal(ibv_destroy_ah(back), 0);
	down(&u);
}

static void handle_may_go_after_posting(void **state)
{
	struct ud u = up(state);
	struct ibv_ah *other = ah_of(u.r, NULL);
	struct ibv_sge sge;
	struct ibv_send_wr wr = datagram(&u, &sge, 1, 30);

	wr.wr.ud.ah = other;
	assert_int_equal(post_recv(u.b, &u.r->b, 1, 0, 8192), 0);
	assert_int_equal(post(&u, &wr), 0);
	assert_int_equal(ibv_dealloc_pd(u.r->pd), EBUSY);
	assert_int_equal(ibv_destroy_ah(other), 0);
	check_arrival(&u, 30, 0, 0);
	down(&u);
}

/* ---- what does not ---- */

static void dropped_in_silence(void **state)
{
	struct ud u = up(state);
	struct ibv_sge sge;
	struct ibv_send_wr wr = datagram(&u, &sge, 1, 8);

	assert_int_equal(post(&u, &wr), 0); /* no receive */
	expect_wc(u.r->a.scq, 1, IBV_WC_SUCCESS);
	assert_int_equal(post_recv(u.b, &u.r->b, 1, 0, 8192), 0);
	wr.wr.ud.remote_qkey = QKEY + 1;
	assert_int_equal(post(&u, &wr), 0);
	expect_wc(u.r->a.scq, 1, IBV_WC_SUCCESS);
	wr.wr.ud.remote_qkey = QKEY;
	wr.wr.ud.remote_qpn = u.b->qp_num ^ 0x40; /* none has it */
	assert_int_equal(post(&u, &wr), 0);
	expect_wc(u.r->a.scq, 1, IBV_WC_SUCCESS);
	wr.wr.ud.remote_qpn = u.r->a.qp->qp_num; /* a connected one */
	assert_int_equal(post(&u, &wr), 0);
	expect_wc(u.r->a.scq, 1, IBV_WC_SUCCESS);
	expect_empty(u.r->b.rcq);
	wr.wr.ud.remote_qpn = u.b->qp_num;
	wr.wr.ud.remote_qkey = CONTROLLED; /* stands for the sender's own */
	assert_int_equal(post(&u, &wr), 0);
	expect_wc(u.r->b.rcq, 1, IBV_WC_SUCCESS);
	down(&u);
}

/* No process owns the number: the datagram waits until that is certain, and those behind it. */
static void no_such_process(void **state)
{
	struct ud u = up(state);
	struct ibv_sge sge;
	struct ibv_send_wr wr = datagram(&u, &sge, 1, 8);

	assert_int_equal(post_recv(u.b, &u.r->b, 7, 0, 8192), 0);
	wr.wr.ud.remote_qpn = u.b->qp_num ^ 0xa5a500;
	assert_int_equal(post(&u, &wr), 0);
	assert_int_equal(send_len(&u, 2, 8), 0);
	expect_wc(u.r->a.scq, 1, IBV_WC_SUCCESS);
	expect_wc(u.r->a.scq, 2, IBV_WC_SUCCESS);
	expect_wc(u.r->b.rcq, 7, IBV_WC_SUCCESS);
	down(&u);
}

static void longer_than_the_path(void **state)
{
	struct ud u = up(state);

	assert_int_equal(send_len(&u, 1, 4097), 0);
	expect_wc(u.r->a.scq, 1, IBV_WC_LOC_LEN_ERR);
	assert_int_equal(state_of(u.a), IBV_QPS_ERR);
	down(&u);
}

static void receive_too_short(void **state)
{
	struct ud u = up(state);

	assert_int_equal(post_recv(u.b, &u.r->b, 1, 0, GRH + 7), 0);
	assert_int_equal(post_recv(u.b, &u.r->b, 2, 0, 8192), 0);
	assert_int_equal(send_len(&u, 3, 8), 0);
	expect_wc(u.r->a.scq, 3, IBV_WC_SUCCESS);
	expect_wc(u.r->b.rcq, 1, IBV_WC_LOC_LEN_ERR);
	expect_wc(u.r->b.rcq, 2, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(state_of(u.b), IBV_QPS_ERR);
	assert_int_equal(state_of(u.a), IBV_QPS_RTS);
	down(&u);
}

static void bad_local_keys(void **state)
{
	struct ud u = up(state);
	struct ibv_sge sge;
	struct ibv_send_wr wr = datagram(&u, &sge, 1, 8);

	sge.lkey ^= 0x100;
	assert_int_equal(post(&u, &wr), 0);
	expect_wc(u.r->a.scq, 1, IBV_WC_LOC_PROT_ERR);
	down(&u);
}

/* ---- handles ---- */

static void handles_need_a_global_address(void **state)
{
	struct rig *r = *state;
	struct ibv_ah_attr attr = {.port_num = 1};
	union ibv_gid far = {.raw = {[10] = 0xff, [11] = 0xff, 203, 0, 113, 77}};

	assert_null(ibv_create_ah(r->pd, &attr));
	assert_int_equal(errno, EINVAL);
	attr.is_global = 1;
	attr.port_num = 2;
	assert_null(ibv_create_ah(r->pd, &attr));
	assert_null(ah_of(r, &far)); /* RoCE is not allowed here */
	assert_int_equal(errno, EHOSTUNREACH);
}

static void extended_posts(void **state)
{
	struct rig *r = *state;
	struct ibv_qp_init_attr_ex init = {
		.send_cq = r->a.scq,
		.recv_cq = r->a.rcq,
		.cap = rig_opts.init.cap,
		.qp_type = IBV_QPT_UD,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = r->pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM};
	struct ibv_qp *qp = ibv_create_qp_ex(r->ctx, &init);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
	struct ibv_ah *ah = ah_of(r, NULL);

	assert_int_equal(ud_to_init(qp, QKEY), 0);
	assert_int_equal(to_state(qp, IBV_QPS_RTR), 0);
	assert_int_equal(ud_to_rts(qp), 0);
	assert_int_equal(post_recv(qp, &r->a, 1, 4096, 4096), 0);
	ibv_wr_start(ex);
	ex->wr_id = 2;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send_imm(ex, 5);
	ibv_wr_set_ud_addr(ex, ah, qp->qp_num, QKEY);
	ibv_wr_set_sge(ex, r->a.mr->lkey, (uintptr_t)r->a.buf, 100);
	assert_int_equal(ibv_wr_complete(ex), 0);
	expect_wc(r->a.rcq, 1, IBV_WC_SUCCESS);
	expect_wc(r->a.scq, 2, IBV_WC_SUCCESS);
	ibv_wr_start(ex);
	ibv_wr_rdma_write(ex, 1, 2);
	assert_int_equal(ibv_wr_complete(ex), EINVAL);
	ibv_wr_start(ex);
	ex->wr_id = 3;
	ibv_wr_send(ex); /* without an address */
	ibv_wr_set_sge(ex, r->a.mr->lkey, (uintptr_t)r->a.buf, 100);
	assert_int_equal(ibv_wr_complete(ex), 0);
	expect_wc(r->a.scq, 3, IBV_WC_LOC_QP_OP_ERR);
	assert_int_equal(ibv_destroy_ah(ah), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void shared_receive_queue(void **state)
{
	struct ud u = up(state);
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(u.r->pd, &init);
	struct ibv_qp *qp = ud_new(u.r, &u.r->b, srq);
	struct ibv_sge to = {(uintptr_t)u.r->b.buf, 8192, u.r->b.mr->lkey}, sge;
	struct ibv_recv_wr recv = {.wr_id = 9, .sg_list = &to, .num_sge = 1}, *bad;
	struct ibv_send_wr wr = datagram(&u, &sge, 1, 500);

	wr.wr.ud.remote_qpn = qp->qp_num;
	assert_int_equal(ibv_post_srq_recv(srq, &recv, &bad), 0);
	assert_int_equal(post(&u, &wr), 0);
	expect_wc(u.r->b.rcq, 9, IBV_WC_SUCCESS);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	down(&u);
}

/* ---- multicast ---- */

static void each_member_gets_it(void **state)
{
	union ibv_gid group = {.raw = {[10] = 0xff, [11] = 0xff, 239, 1, 2, 3}}, own;
	struct ud u = up(state);
	struct ibv_ah *ah = ah_of(u.r, &group);
	struct ibv_sge sge;
	struct ibv_send_wr wr = datagram(&u, &sge, 1, 200);

	assert_int_equal(ibv_query_gid(u.r->ctx, 1, 0, &own), 0);
	assert_int_equal(ibv_attach_mcast(u.b, &own, 0), EINVAL);
	assert_int_equal(ibv_attach_mcast(u.r->a.qp, &group, 0), EINVAL);
	assert_int_equal(ibv_attach_mcast(u.a, &group, 0), 0);
	assert_int_equal(ibv_attach_mcast(u.b, &group, 0), 0);
	assert_int_equal(post_recv(u.a, &u.r->a, 11, 8192, 4096), 0);
	assert_int_equal(post_recv(u.b, &u.r->b, 12, 0, 4096), 0);
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = MCAST_QPN;
	assert_int_equal(post(&u, &wr), 0);
	expect_wc(u.r->a.rcq, 11, IBV_WC_SUCCESS);
	expect_wc(u.r->b.rcq, 12, IBV_WC_SUCCESS);
	expect_wc(u.r->a.scq, 1, IBV_WC_SUCCESS);
	assert_int_equal(ibv_detach_mcast(u.b, &group, 0), 0);
	assert_int_equal(ibv_detach_mcast(u.b, &group, 0), EINVAL);
	assert_int_equal(post_recv(u.b, &u.r->b, 13, 0, 4096), 0);
	assert_int_equal(post(&u, &wr), 0);
	expect_wc(u.r->a.scq, 1, IBV_WC_SUCCESS);
	expect_empty(u.r->b.rcq);
	assert_int_equal(ibv_destroy_ah(ah), 0);
	down(&u);
}

/* ---- another process ---- */

/* Waits for a datagram, and answers it. */
static int answer_one(int to_parent)
{
	struct rig r;
	struct ibv_qp *qp;
	struct ibv_ah *ah;
	struct ibv_wc wc;
	struct ibv_sge sge;
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;

	rig_up(&r);
	qp = ud_new(&r, &r.b, NULL);
	post_recv(qp, &r.b, 1, 0, 8192);
	if (write(to_parent, &qp->qp_num, sizeof(qp->qp_num)) != sizeof(qp->qp_num))
		return 1;
	wc = next_wc(r.b.rcq);
	ah = ibv_create_ah_from_wc(r.pd, &wc, (void *)r.b.buf, 1);
	sge = (struct ibv_sge){(uintptr_t)r.b.buf + GRH, wc.byte_len - GRH, r.b.mr->lkey};
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = wc.src_qp;
	wr.wr.ud.remote_qkey = QKEY;
	wr.send_flags = IBV_SEND_SIGNALED;
	if (!ah || ibv_post_send(qp, &wr, &bad))
		return 2;
	return next_wc(r.b.scq).status;
}

/* The processes meet by the first datagram: it is not lost. */
static void first_one_to_another_process(void **state)
{
	int ends[2], status;
	uint32_t qpn;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct rig rig;
	struct ud u;
	pid_t child;

	assert_int_equal(pipe(ends), 0);
	child = fork();
	if (!child)
		_exit(answer_one(ends[1]));
	assert_int_equal(read(ends[0], &qpn, sizeof(qpn)), sizeof(qpn));
	rig_up(&rig);
	u = up((void *[]){&rig});
	wr = datagram(&u, &sge, 1, 3000);
	wr.wr.ud.remote_qpn = qpn;
	assert_int_equal(post_recv(u.a, &u.r->a, 5, 8192, 8192), 0);
	memset(u.r->a.buf, 0x77, 3000);
	assert_int_equal(post(&u, &wr), 0);
	expect_wc(u.r->a.rcq, 5, IBV_WC_SUCCESS);
	assert_memory_equal(u.r->a.buf, u.r->a.buf + 8192 + GRH, 3000);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	close(ends[0]);
	close(ends[1]);
	expect_wc(u.r->a.scq, 1, IBV_WC_SUCCESS);
	down(&u);
	rig_down(&rig);
}

/* ---- rdma_cm ---- */

static struct rdma_cm_event *next_event(struct rdma_event_channel *ch, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *e;

	assert_int_equal(rdma_get_cm_event(ch, &e), 0);
	assert_int_equal(e->event, type);
	return e;
}

static void expect_event(struct rdma_event_channel *ch, enum rdma_cm_event_type type)
{
	rdma_ack_cm_event(next_event(ch, type));
}

struct resolution {
	struct rdma_event_channel *ch;
	struct rdma_cm_id *listener, *active;
	struct sockaddr_in to;
};

static struct resolution resolve(bool listens)
{
	struct resolution r = {.to = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}}};

	r.ch = rdma_create_event_channel();
	assert_int_equal(rdma_create_id(r.ch, &r.listener, NULL, RDMA_PS_UDP), 0);
	assert_int_equal(rdma_bind_addr(r.listener, (void *)&r.to), 0);
	r.to.sin_port = rdma_get_src_port(r.listener);
	if (listens)
		assert_int_equal(rdma_listen(r.listener, 4), 0);
	assert_int_equal(rdma_create_id(r.ch, &r.active, NULL, RDMA_PS_UDP), 0);
	assert_int_equal(rdma_resolve_addr(r.active, NULL, (void *)&r.to, 1000), 0);
	expect_event(r.ch, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_resolve_route(r.active, 1000), 0);
	expect_event(r.ch, RDMA_CM_EVENT_ROUTE_RESOLVED);
	return r;
}

static void end_resolution(struct resolution *r)
{
	rdma_destroy_id(r->active);
	rdma_destroy_id(r->listener);
	rdma_destroy_event_channel(r->ch);
}

static void service_is_resolved(void **state)
{
	char question[180], reply[136];
	struct rdma_conn_param ask = {.private_data = question, .private_data_len = 180};
	struct rdma_conn_param tell = {
		.private_data = reply, .private_data_len = 136, .qp_num = 0x123};
	struct resolution r = resolve(true);
	struct rdma_cm_event *e;
	struct rdma_cm_id *passive;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
	int mask;

	memset(question, 'q', sizeof(question));
	memset(reply, 'r', sizeof(reply));
	assert_int_equal(rdma_init_qp_attr(r.active, &attr, &mask), 0);
	assert_int_equal(mask, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	assert_int_equal(attr.qkey, RDMA_UDP_QKEY);
	ask.private_data_len = 181;
	assert_int_equal(rdma_connect(r.active, &ask), -1);
	ask.private_data_len = 180;
	assert_int_equal(rdma_connect(r.active, &ask), 0);
	e = next_event(r.ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_int_equal(e->param.ud.private_data_len, 180);
	assert_memory_equal(e->param.ud.private_data, question, 180);
	passive = e->id;
	assert_int_equal(rdma_accept(passive, &tell), 0);
	rdma_ack_cm_event(e);
	e = next_event(r.ch, RDMA_CM_EVENT_ESTABLISHED);
	assert_ptr_equal(e->id, r.active);
	assert_int_equal(e->param.ud.qp_num, 0x123);
	assert_int_equal(e->param.ud.qkey, RDMA_UDP_QKEY);
	assert_int_equal(e->param.ud.private_data_len, 136);
	assert_memory_equal(e->param.ud.private_data, reply, 136);
	assert_true(e->param.ud.ah_attr.is_global);
	rdma_ack_cm_event(e);
	rdma_destroy_id(passive);
	end_resolution(&r);
}

/* Both ways to fail have the event UNREACHABLE, and the status of the answer. */
static void service_is_refused(void **state)
{
	struct rdma_conn_param ask = {0};
	struct resolution r = resolve(true);
	struct rdma_cm_event *e;
	struct rdma_cm_id *passive;

	assert_int_equal(rdma_connect(r.active, &ask), 0);
	e = next_event(r.ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_int_equal(rdma_reject(e->id, NULL, 0), 0);
	passive = e->id;
	rdma_ack_cm_event(e);
	rdma_destroy_id(passive);
	e = next_event(r.ch, RDMA_CM_EVENT_UNREACHABLE);
	assert_int_equal(e->status, 2);
	rdma_ack_cm_event(e);
	end_resolution(&r);
}

static void service_has_no_listener(void **state)
{
	struct rdma_conn_param ask = {0};
	struct resolution r = resolve(false);
	struct rdma_cm_event *e;

	assert_int_equal(rdma_connect(r.active, &ask), 0);
	e = next_event(r.ch, RDMA_CM_EVENT_UNREACHABLE);
	assert_int_equal(e->status, 1);
	rdma_ack_cm_event(e);
	end_resolution(&r);
}

static void group_is_joined(void **state)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct sockaddr_in group = {.sin_family = AF_INET, .sin_addr = {htonl(0xef010204)}};
	struct rdma_cm_event *e;
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(ch, &id, NULL, RDMA_PS_UDP), 0);
	assert_int_equal(rdma_join_multicast(id, (void *)&group, NULL), -1); /* not bound */
	assert_int_equal(rdma_resolve_addr(id, NULL, (void *)&group, 1000), 0);
	expect_event(ch, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_join_multicast(id, (void *)&group, &group), 0);
	e = next_event(ch, RDMA_CM_EVENT_MULTICAST_JOIN);
	assert_ptr_equal(e->param.ud.private_data, &group);
	assert_int_equal(e->param.ud.qp_num, MCAST_QPN);
	assert_int_equal(e->param.ud.ah_attr.grh.dgid.raw[12], 239);
	rdma_ack_cm_event(e);
	assert_int_equal(rdma_leave_multicast(id, (void *)&group), 0);
	assert_int_equal(rdma_leave_multicast(id, (void *)&group), -1);
	rdma_destroy_id(id);
	rdma_destroy_event_channel(ch);
}

#define T(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(first_one_to_another_process),
		T(datagram_masks_are_exact),
		T(only_sends_with_an_address),
		T(data_behind_a_header),
		T(immediate_and_inline),
		T(header_leads_back),
		T(handle_may_go_after_posting),
		T(dropped_in_silence),
		T(no_such_process),
		T(longer_than_the_path),
		T(receive_too_short),
		T(bad_local_keys),
		T(handles_need_a_global_address),
		T(extended_posts),
		T(shared_receive_queue),
		T(each_member_gets_it),
		T(service_is_resolved),
		T(service_is_refused),
		T(service_has_no_listener),
		T(group_is_joined),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
