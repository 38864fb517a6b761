/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fake target's fabric: one thread, one completion queue, poll(2) on the connection manager's
 * channel, the completion channel and stdin.
 *
 * A receive's buffer holds its command until the response is sent, in the same step in which the
 * receive is posted again. Responses are inline. wr_id is the slot's address with a tag in its low
 * bits.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/hostile_target/fake.h"

enum tag {
	TAG_RECV,
	TAG_READ,
	TAG_SEND,
	TAG_MASK = 3,
};

static struct rdma_event_channel *channel;
static struct rdma_cm_id *listener;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_comp_channel *comp;
static struct ibv_mr *ram_mr;
static struct conn *conns[MAX_CONNS];

struct conn *fabric_conn(unsigned index)
{
	for (; index < MAX_CONNS; index++)
		if (conns[index])
			return conns[index];
	return NULL;
}

/* ---- connections ---- */

static void post_recv(struct slot *slot)
{
	struct ibv_sge sge = {.addr = (uintptr_t)slot->capsule,
			      .length = slot->conn->n_recv_bytes,
			      .lkey = slot->conn->mr->lkey};
	struct ibv_recv_wr wr = {
		.wr_id = (uintptr_t)slot | TAG_RECV, .sg_list = &sge, .num_sge = 1};
	struct ibv_recv_wr *bad;

	if (ibv_post_recv(slot->conn->id->qp, &wr, &bad))
		slot->conn->is_dead = true;
}

static bool make_slots(struct conn *conn)
{
	size_t stride = conn->n_recv_bytes + DATA_BYTES, n = conn->n_slots * stride;

	conn->slots = calloc(conn->n_slots, sizeof(*conn->slots));
	conn->memory = aligned_alloc(4096, (n + 4095) / 4096 * 4096);
	conn->busy_cids = calloc(1, 65536 / 8);
	if (!conn->slots || !conn->memory || !conn->busy_cids)
		return false;
	conn->mr = ibv_reg_mr(pd, conn->memory, n, IBV_ACCESS_LOCAL_WRITE);
	if (!conn->mr)
		return false;
	for (unsigned i = 0; i < conn->n_slots; i++) {
		conn->slots[i].conn = conn;
		conn->slots[i].capsule = conn->memory + i * stride;
		conn->slots[i].data = conn->slots[i].capsule + conn->n_recv_bytes;
		post_recv(&conn->slots[i]);
	}
	return true;
}

static void free_conn(struct conn *conn)
{
	conns[conn->index] = NULL;
	if (conn->id->qp)
		rdma_destroy_qp(conn->id);
	rdma_destroy_id(conn->id);
	if (conn->mr)
		ibv_dereg_mr(conn->mr);
	free(conn->slots);
	free(conn->memory);
	free(conn->busy_cids);
	free(conn);
}

void fabric_disconnect(struct conn *conn)
{
	rdma_disconnect(conn->id);
	conn->is_dead = true;
}

void fabric_disconnect_all(void)
{
	for (unsigned i = 0; i < MAX_CONNS; i++)
		if (conns[i])
			fabric_disconnect(conns[i]);
}

static void reject(struct rdma_cm_id *id, unsigned status)
{
	uint8_t rej[4] = {0};

	wr16(rej + 2, status);
	rdma_reject(id, rej, sizeof(rej));
	rdma_destroy_id(id);
}

static void check_private(const uint8_t *p, size_t n)
{
	if (n < 32)
		violation("private data has %zu bytes", n);
	else if (rd16(p))
		violation("record format %u", rd16(p));
	else if (!rd16(p + 4) || !rd16(p + 6))
		violation("hrqsize %u, hsqsize %u", rd16(p + 4), rd16(p + 6));
	else if (rd16(p + 4) < rd16(p + 6))
		violation("fewer receives (%u) than commands (%u)", rd16(p + 4), rd16(p + 6));
}

static struct conn *new_conn(struct rdma_cm_id *id, const uint8_t *p)
{
	struct conn *conn = calloc(1, sizeof(*conn));
	struct ibv_qp_init_attr attr = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC};

	while (conn && conns[conn->index])
		if (++conn->index == MAX_CONNS)
			exit(4);
	if (!conn)
		return NULL;
	conn->id = id;
	conn->qid = rd16(p + 2);
	conn->n_sq = rd16(p + 6) + 1u;
	conn->n_slots = conn->n_sq;
	conn->n_recv_bytes = SQE_BYTES + (conn->qid ? opt.icd : 0);
	conns[conn->index] = conn;
	attr.cap = (struct ibv_qp_cap){.max_send_wr = 4 * conn->n_slots + 8,
				       .max_recv_wr = conn->n_slots,
				       .max_send_sge = 1,
				       .max_recv_sge = 1,
				       .max_inline_data = CQE_BYTES};
	if (rdma_create_qp(id, pd, &attr) || !make_slots(conn)) {
		fprintf(stderr, "fake_target: cannot make a queue pair: %s\n", strerror(errno));
		free_conn(conn);
		return NULL;
	}
	id->context = conn;
	return conn;
}

static void on_request(struct rdma_cm_id *id, const struct rdma_conn_param *param)
{
	const uint8_t *p = param->private_data;
	uint8_t rep[32] = {0};
	struct rdma_conn_param accept = {.private_data = rep,
					 .private_data_len = sizeof(rep),
					 .initiator_depth = param->initiator_depth,
					 .retry_count = 7,
					 .rnr_retry_count = 7};
	const struct rule *rule;
	struct conn *conn;

	check_private(p, param->private_data_len);
	if (!param->initiator_depth)
		violation("the host takes no RDMA READ");
	if (param->private_data_len < 32) {
		reject(id, 1);
		return;
	}
	rule = rules_find(rd16(p + 2) ? EV_CM_IO : EV_CM_ADMIN);
	if (rule && rule->action == ACT_REJECT) {
		reject(id, (unsigned)rule->argument);
		return;
	}
	if (rule && rule->action == ACT_EXIT)
		_exit(0);
	if (rule && rule->action == ACT_SILENCE)
		return; /* neither answered nor freed */
	conn = new_conn(id, p);
	if (!conn) {
		reject(id, 6);
		return;
	}
	wr16(rep + 2, conn->qid && opt.crqsize ? opt.crqsize : conn->n_slots);
	if (rule && rule->action == ACT_BAD_PRIVATE)
		wr16(rep, 7);
	if (rule && rule->action == ACT_NO_PRIVATE)
		accept.private_data_len = 0;
	if (rdma_accept(id, &accept))
		fabric_disconnect(conn);
	else if (rule && rule->action == ACT_DISCONNECT)
		fabric_disconnect(conn);
}

static void on_cm_event(void)
{
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;
	enum rdma_cm_event_type type;

	if (rdma_get_cm_event(channel, &ev))
		return;
	type = ev->event;
	id = ev->id;
	if (type == RDMA_CM_EVENT_CONNECT_REQUEST)
		on_request(id, &ev->param.conn);
	rdma_ack_cm_event(ev);
	if (type == RDMA_CM_EVENT_DISCONNECTED && id->context) {
		struct conn *conn = id->context;

		rdma_disconnect(id);
		conn->is_dead = true;
	}
}

/* ---- data and answers ---- */

static void post_send(struct conn *conn, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	if (!conn->is_dead && ibv_post_send(conn->id->qp, wr, &bad))
		conn->is_dead = true;
}

static const uint8_t *sgl(const struct slot *slot)
{
	return slot->capsule + 24;
}

static uint32_t lkey_of(const struct slot *slot, const void *p)
{
	const uint8_t *at = p;
	size_t n = opt.blocks * opt.block_size;

	return at >= ram && at < ram + n ? ram_mr->lkey : slot->conn->mr->lkey;
}

void fabric_read(struct slot *slot, void *to, uint32_t n)
{
	struct ibv_sge sge = {.addr = (uintptr_t)to, .length = n, .lkey = lkey_of(slot, to)};
	struct ibv_send_wr wr = {
		.wr_id = (uintptr_t)slot | TAG_READ,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {.remote_addr = rd64(sgl(slot)), .rkey = rd32(sgl(slot) + 11)}};

	post_send(slot->conn, &wr);
}

static void write_out(struct slot *slot, bool is_past)
{
	struct ibv_sge sge = {.addr = (uintptr_t)slot->out,
			      .length = slot->n_out,
			      .lkey = lkey_of(slot, slot->out)};
	struct ibv_send_wr wr = {
		.wr_id = (uintptr_t)slot | TAG_SEND,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.wr.rdma = {.remote_addr = rd64(sgl(slot)) + (is_past ? 1ull << 40 : 0),
			    .rkey = rd32(sgl(slot) + 11)}};

	post_send(slot->conn, &wr);
}

static uint32_t key_of(const struct slot *slot)
{
	return rd32(slot->capsule + 24 + 11);
}

static uint32_t key_of_another(const struct slot *slot)
{
	const struct conn *conn = slot->conn;

	for (unsigned i = 0; i < conn->n_slots; i++)
		if (conn->slots[i].is_busy && key_of(&conn->slots[i]) != key_of(slot))
			return key_of(&conn->slots[i]);
	return ~key_of(slot);
}

static void send_cqe(struct slot *slot, const uint8_t *cqe, uint32_t n, enum action action)
{
	struct ibv_sge sge = {.addr = (uintptr_t)cqe, .length = n};
	struct ibv_send_wr wr = {.wr_id = (uintptr_t)slot | TAG_SEND,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE};

	if (action == ACT_INVALIDATE || action == ACT_INVALIDATE_OTHER) {
		wr.opcode = IBV_WR_SEND_WITH_INV;
		wr.invalidate_rkey = action == ACT_INVALIDATE ? key_of(slot) : key_of_another(slot);
	}
	post_send(slot->conn, &wr);
}

void fabric_answer(struct slot *slot)
{
	struct conn *conn = slot->conn;
	enum action action = slot->rule ? slot->rule->action : ACT_NONE;
	uint16_t cid = rd16(slot->capsule + 2), told = cid;
	uint8_t cqe[CQE_BYTES] = {0};

	conn->n_in_flight--;
	conn->busy_cids[cid / 8] &= (uint8_t) ~(1u << cid % 8);
	slot->is_busy = false;
	if (action == ACT_WRONG_CID)
		told ^= 0x5555;
	if (action == ACT_OLD_CID)
		told = (uint16_t)(told - (1u << 12));
	conn->sqhd = (conn->sqhd + 1) % conn->n_sq;
	wr64(cqe, slot->result);
	wr16(cqe + 8, conn->sqhd);
	wr16(cqe + 10, conn->qid);
	wr16(cqe + 12, told);
	wr16(cqe + 14, (unsigned)slot->status << 1);
	if (slot->n_out && !slot->status)
		write_out(slot, action == ACT_WRITE_PAST);
	/* The host may use the receive as soon as it has the response, but the next command must
	 * not overwrite data that was not sent yet. */
	slot->is_posted_late = slot->n_out && slot->out == slot->data;
	if (!slot->is_posted_late)
		post_recv(slot);
	send_cqe(slot, cqe, action == ACT_SHORT ? 8 : CQE_BYTES, action);
	if (action == ACT_DUPLICATE)
		send_cqe(slot, cqe, CQE_BYTES, ACT_NONE);
}

/* ---- completions ---- */

static void on_command(struct slot *slot, uint32_t n)
{
	struct conn *conn = slot->conn;
	uint16_t cid;

	if (n < SQE_BYTES) {
		violation("a capsule of %u bytes", n);
		fabric_disconnect(conn);
		return;
	}
	cid = rd16(slot->capsule + 2);
	if (conn->busy_cids[cid / 8] & 1u << cid % 8)
		violation("command id %04x is in use", cid);
	if (++conn->n_in_flight >= conn->n_sq && conn->qid)
		violation("%u commands in a queue of %u", conn->n_in_flight, conn->n_sq);
	if (opt.crqsize && conn->qid && conn->n_in_flight > opt.crqsize)
		violation("%u commands for %u receives", conn->n_in_flight, opt.crqsize);
	conn->busy_cids[cid / 8] |= (uint8_t)(1u << cid % 8);
	slot->n_received = n;
	slot->is_busy = true;
	slot->answer_at_ns = 0;
	command_start(slot);
}

static void on_completion(const struct ibv_wc *wc)
{
	struct slot *slot = (struct slot *)(wc->wr_id & ~(uintptr_t)TAG_MASK);
	enum tag tag = wc->wr_id & TAG_MASK;

	if (wc->status != IBV_WC_SUCCESS) {
		if (wc->status != IBV_WC_WR_FLUSH_ERR && !slot->conn->is_dead &&
		    (!slot->rule || slot->rule->action != ACT_WRITE_PAST))
			fprintf(stderr, "fake_target: %s\n", ibv_wc_status_str(wc->status));
		if (!slot->conn->is_dead)
			fabric_disconnect(slot->conn);
		return;
	}
	if (tag == TAG_RECV)
		on_command(slot, wc->byte_len);
	else if (tag == TAG_READ)
		command_have_data(slot);
	else if (slot->is_posted_late && wc->opcode == IBV_WC_SEND) {
		slot->is_posted_late = false;
		post_recv(slot);
	}
}

static void drain_cq(void)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(cq, 1, &wc) == 1)
		on_completion(&wc);
}

/* Dead connections are freed only here, when the completion queue is empty of them. */
static void bury(void)
{
	for (unsigned i = 0; i < MAX_CONNS; i++) {
		struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

		if (!conns[i] || !conns[i]->is_dead)
			continue;
		ibv_modify_qp(conns[i]->id->qp, &attr, IBV_QP_STATE);
		drain_cq();
		free_conn(conns[i]);
	}
}

static int run_late(void)
{
	uint64_t now = now_ns(), next = UINT64_MAX;

	for (unsigned i = 0; i < MAX_CONNS; i++) {
		for (unsigned j = 0; conns[i] && j < conns[i]->n_slots; j++) {
			struct slot *slot = &conns[i]->slots[j];

			if (!slot->is_busy || !slot->answer_at_ns)
				continue;
			if (slot->answer_at_ns <= now)
				fabric_answer(slot);
			else if (slot->answer_at_ns < next)
				next = slot->answer_at_ns;
		}
	}
	return next == UINT64_MAX ? -1 : (int)((next - now) / 1000000 + 1);
}

/* ---- the loop ---- */

int fabric_listen(void)
{
	struct sockaddr_in in = {.sin_family = AF_INET,
				 .sin_port = htons((uint16_t)opt.port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	channel = rdma_create_event_channel();
	if (!channel || rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(listener, (struct sockaddr *)&in) || rdma_listen(listener, 64))
		return -1;
	fcntl(channel->fd, F_SETFL, O_NONBLOCK);
	pd = ibv_alloc_pd(listener->verbs);
	comp = ibv_create_comp_channel(listener->verbs);
	cq = comp ? ibv_create_cq(listener->verbs, 16384, NULL, comp, 0) : NULL;
	if (!pd || !cq)
		return -1;
	fcntl(comp->fd, F_SETFL, O_NONBLOCK);
	ram_mr = ibv_reg_mr(pd, ram, opt.blocks * opt.block_size, IBV_ACCESS_LOCAL_WRITE);
	if (!ram_mr)
		return -1;
	printf("port %u\n", ntohs(rdma_get_src_port(listener)));
	fflush(stdout);
	return 0;
}

static bool on_stdin(void)
{
	static char line[256];
	static size_t used;
	ssize_t n = read(0, line + used, sizeof(line) - 1 - used);
	char *end;

	if (n <= 0)
		return false;
	used += (size_t)n;
	line[used] = '\0';
	while ((end = strchr(line, '\n'))) {
		*end++ = '\0';
		command_line(line);
		used -= (size_t)(end - line);
		memmove(line, end, used + 1);
	}
	return true;
}

int fabric_run(void)
{
	struct pollfd fds[] = {{.fd = channel->fd, .events = POLLIN},
			       {.fd = comp->fd, .events = POLLIN},
			       {.fd = 0, .events = POLLIN}};
	struct ibv_cq *which;
	void *context;

	for (;;) {
		ibv_req_notify_cq(cq, 0);
		drain_cq();
		bury();
		poll(fds, 3, run_late());
		while (!ibv_get_cq_event(comp, &which, &context))
			ibv_ack_cq_events(which, 1);
		if (fds[0].revents)
			on_cm_event();
		if (fds[2].revents && !on_stdin())
			return violations() ? 3 : 0;
	}
}
