/* SPDX-License-Identifier: BSD-3-Clause */
/* A raw host; see host.h. One completion queue a connection, polled; cmocka asserts on the way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <poll.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "tests/raw/host.h"

enum {
	RECV_BYTES = 64,
	TIMEOUT_MS = 60000, /* for a busy machine under a sanitizer */
	RESOLVE_MS = 60000,
	POLL_US = 20,
	RECVS_AT = RAW_CAPSULE_MAX,
	DATA_AT = 64 * 1024,
};

/* ---- connecting ---------------------------------------------------------------------------- */

static void post_recv(struct raw_queue *q, unsigned i)
{
	struct ibv_sge sge = {.addr = (uintptr_t)q->memory + RECVS_AT + i * RECV_BYTES,
			      .length = RECV_BYTES,
			      .lkey = q->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = i + 1, .sg_list = &sge, .num_sge = 1}, *bad;

	ibv_post_recv(q->id->qp, &wr, &bad);
}

static void make_qp(struct raw_queue *q)
{
	struct ibv_qp_init_attr attr = {.cap = {.max_send_wr = RAW_DEPTH,
						.max_recv_wr = RAW_RECVS,
						.max_send_sge = 1,
						.max_recv_sge = 1},
					.qp_type = IBV_QPT_RC};

	q->pd = ibv_alloc_pd(q->id->verbs);
	assert_non_null(q->pd);
	q->cq = ibv_create_cq(q->id->verbs, RAW_DEPTH + RAW_RECVS, NULL, NULL, 0);
	assert_non_null(q->cq);
	q->memory = mmap(NULL, DATA_AT + RAW_DATA_BYTES, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(q->memory, MAP_FAILED);
	q->data = q->memory + DATA_AT;
	q->mr = ibv_reg_mr(q->pd, q->memory, DATA_AT + RAW_DATA_BYTES,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND);
	assert_non_null(q->mr);
	attr.send_cq = attr.recv_cq = q->cq;
	assert_int_equal(rdma_create_qp(q->id, q->pd, &attr), 0);
	for (unsigned i = 0; i < RAW_RECVS; i++)
		post_recv(q, i);
}

/* The next event of the connection, of any type; -1 on timeout. */
static int next_event(struct raw_queue *q, int timeout_ms)
{
	struct pollfd pfd = {.fd = q->channel->fd, .events = POLLIN};
	struct rdma_cm_event *ev;
	int type;

	if (poll(&pfd, 1, timeout_ms) != 1 || rdma_get_cm_event(q->channel, &ev))
		return -1;
	type = ev->event;
	q->n_private = 0;
	if ((type == RDMA_CM_EVENT_ESTABLISHED || type == RDMA_CM_EVENT_REJECTED) &&
	    ev->param.conn.private_data) {
		q->n_private = ev->param.conn.private_data_len;
		if (q->n_private > sizeof(q->private_data))
			q->n_private = sizeof(q->private_data);
		memcpy(q->private_data, ev->param.conn.private_data, q->n_private);
	}
	rdma_ack_cm_event(ev);
	return type;
}

static int reject_status(const struct raw_queue *q)
{
	struct nvmf_cm_rej rej;

	if (q->n_private < sizeof(rej))
		return -1;
	memcpy(&rej, q->private_data, sizeof(rej));
	return get_le16(rej.sts);
}

static struct sockaddr_in source = {.sin_family = AF_INET};

void raw_come_from(unsigned number)
{
	source.sin_addr.s_addr = htobe32(number ? 0x7f000000 + number : 0);
}

int raw_open_bytes(struct raw_queue *q, uint16_t port, const void *private_data, uint8_t n,
		   uint8_t responder_resources)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_port = htobe16(port),
				 .sin_addr.s_addr = htobe32(0x7f000001)};
	struct rdma_conn_param param = {.private_data = private_data,
					.private_data_len = n,
					.responder_resources = responder_resources,
					.retry_count = 7,
					.rnr_retry_count = 7};
	int type;

	*q = (struct raw_queue){.next_cid = 0x1000};
	q->channel = rdma_create_event_channel();
	assert_non_null(q->channel);
	assert_int_equal(rdma_create_id(q->channel, &q->id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(
		rdma_resolve_addr(q->id, source.sin_addr.s_addr ? (struct sockaddr *)&source : NULL,
				  (struct sockaddr *)&to, RESOLVE_MS),
		0);
	assert_int_equal(next_event(q, TIMEOUT_MS), RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_resolve_route(q->id, RESOLVE_MS), 0);
	assert_int_equal(next_event(q, TIMEOUT_MS), RDMA_CM_EVENT_ROUTE_RESOLVED);
	make_qp(q);
	assert_int_equal(rdma_connect(q->id, &param), 0);
	type = next_event(q, TIMEOUT_MS);
	q->is_connected = type == RDMA_CM_EVENT_ESTABLISHED;
	if (type == RDMA_CM_EVENT_REJECTED)
		return reject_status(q);
	return q->is_connected ? 0 : -1;
}

int raw_open(struct raw_queue *q, uint16_t port, uint16_t qid, unsigned n_entries)
{
	struct nvmf_cm_req req = {.qid = put_le16(qid),
				  .hrqsize = put_le16((uint16_t)n_entries),
				  .hsqsize = put_le16((uint16_t)(n_entries - 1))};

	return raw_open_bytes(q, port, &req, sizeof(req), 16);
}

void raw_close(struct raw_queue *q)
{
	if (!q->channel)
		return;
	if (q->is_connected)
		rdma_disconnect(q->id);
	if (q->id && q->id->qp)
		rdma_destroy_qp(q->id);
	if (q->mr)
		ibv_dereg_mr(q->mr);
	if (q->memory)
		munmap(q->memory, DATA_AT + RAW_DATA_BYTES);
	if (q->cq)
		ibv_destroy_cq(q->cq);
	if (q->pd)
		ibv_dealloc_pd(q->pd);
	if (q->id)
		rdma_destroy_id(q->id);
	rdma_destroy_event_channel(q->channel);
	*q = (struct raw_queue){0};
}

/* ---- capsules ------------------------------------------------------------------------------- */

static void take_completion(struct raw_queue *q, const struct ibv_wc *wc, bool *is_send)
{
	if (wc->status != IBV_WC_SUCCESS) {
		q->is_dead = true;
		return;
	}
	if (wc->wr_id == 0) {
		*is_send = true;
		return;
	}
	assert_int_equal(wc->byte_len, sizeof(struct nvme_cqe));
	assert_true(q->n_arrived < RAW_RECVS);
	memcpy(&q->arrived[q->n_arrived++], q->memory + RECVS_AT + (wc->wr_id - 1) * RECV_BYTES,
	       sizeof(struct nvme_cqe));
	q->invalidated_rkey = wc->wc_flags & IBV_WC_WITH_INV ? wc->invalidated_rkey : 0;
	if (q->keeps_receives)
		q->is_kept[wc->wr_id - 1] = true;
	else
		post_recv(q, (unsigned)wc->wr_id - 1);
}

void raw_give_receives(struct raw_queue *q)
{
	q->keeps_receives = false;
	for (unsigned i = 0; i < RAW_RECVS; i++)
		if (q->is_kept[i])
			post_recv(q, i);
	memset(q->is_kept, 0, sizeof(q->is_kept));
}

/* Polls completions; true when a SEND was among them. */
static bool take_completions(struct raw_queue *q)
{
	struct ibv_wc wc;
	bool is_send = false;

	while (ibv_poll_cq(q->cq, 1, &wc) == 1)
		take_completion(q, &wc, &is_send);
	return is_send;
}

void raw_send(struct raw_queue *q, const void *capsule, uint32_t n)
{
	struct ibv_sge sge = {.addr = (uintptr_t)q->memory, .length = n, .lkey = q->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	uint64_t deadline = clock_ns() + TIMEOUT_MS * NSEC_PER_MSEC;

	assert_true(n <= RAW_CAPSULE_MAX);
	memcpy(q->memory, capsule, n);
	if (ibv_post_send(q->id->qp, &wr, &bad)) {
		q->is_dead = true;
		return;
	}
	while (!take_completions(q) && !q->is_dead && clock_ns() < deadline)
		usleep(POLL_US);
}

static void look_at_events(struct raw_queue *q, int timeout_ms)
{
	int type = q->is_dead ? -1 : next_event(q, timeout_ms);

	if (type == RDMA_CM_EVENT_DISCONNECTED || type == RDMA_CM_EVENT_TIMEWAIT_EXIT)
		q->is_dead = true;
}

bool raw_receive(struct raw_queue *q, struct nvme_cqe *ret_cqe, unsigned timeout_ms)
{
	uint64_t deadline = clock_ns() + timeout_ms * NSEC_PER_MSEC;

	while (!q->n_arrived) {
		look_at_events(q, 0);
		take_completions(q);
		if (q->n_arrived)
			break;
		if (q->is_dead || clock_ns() > deadline)
			return false;
		usleep(POLL_US);
	}
	*ret_cqe = q->arrived[0];
	memmove(&q->arrived[0], &q->arrived[1], --q->n_arrived * sizeof(q->arrived[0]));
	return true;
}

bool raw_collect(struct raw_queue *q, unsigned n, unsigned timeout_ms)
{
	struct nvme_cqe cqe;

	while (n--)
		if (!raw_receive(q, &cqe, timeout_ms) || get_nvme_status(cqe.status) != NVME_OK)
			return false;
	return true;
}

bool raw_bind_window(struct raw_queue *q, struct ibv_mw *mw, size_t offset, uint32_t length)
{
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_mw = {.mw = mw,
			    .rkey = ibv_inc_rkey(mw->rkey),
			    .bind_info = {.mr = q->mr,
					  .addr = (uintptr_t)q->data + offset,
					  .length = length,
					  .mw_access_flags = IBV_ACCESS_REMOTE_READ |
							     IBV_ACCESS_REMOTE_WRITE}}};
	uint64_t deadline = clock_ns() + TIMEOUT_MS * NSEC_PER_MSEC;
	struct ibv_send_wr *bad;

	if (ibv_post_send(q->id->qp, &wr, &bad))
		return false;
	while (!take_completions(q) && !q->is_dead && clock_ns() < deadline)
		usleep(POLL_US);
	mw->rkey = wr.bind_mw.rkey;
	return !q->is_dead;
}

bool raw_is_dropped(struct raw_queue *q)
{
	uint64_t deadline = clock_ns() + TIMEOUT_MS * NSEC_PER_MSEC;

	while (!q->is_dead && clock_ns() < deadline)
		look_at_events(q, TIMEOUT_MS);
	return q->is_dead;
}

/* ---- commands ------------------------------------------------------------------------------- */

struct nvme_sqe raw_sqe(struct raw_queue *q, uint8_t opcode, uint32_t nsid)
{
	struct nvme_sqe sqe = {.opcode = opcode,
			       .flags = NVME_FLAGS_PSDT_SGL,
			       .cid = put_le16(q->next_cid++),
			       .nsid = put_le32(nsid)};

	sqe.sgl.keyed.type = NVME_SGL_KEYED_ADDRESS;
	return sqe;
}

struct nvme_sqe raw_blocks(struct raw_queue *q, uint8_t opcode, uint32_t nsid, uint64_t slba,
			   unsigned n_blocks)
{
	struct nvme_sqe sqe = raw_sqe(q, opcode, nsid);

	sqe.cdw10 = put_le32((uint32_t)slba);
	sqe.cdw11 = put_le32((uint32_t)(slba >> 32));
	sqe.cdw12 = put_le32(n_blocks - 1);
	return sqe;
}

void raw_describe(struct raw_queue *q, struct nvme_sqe *sqe, size_t offset, uint32_t length)
{
	sqe->sgl.keyed.address = put_le64((uintptr_t)q->data + offset);
	sqe->sgl.keyed.length = put_le24(length);
	sqe->sgl.keyed.key = put_le32(q->mr->rkey);
	sqe->sgl.keyed.type = NVME_SGL_KEYED_ADDRESS;
}

enum nvme_status raw_run(struct raw_queue *q, const struct nvme_sqe *sqe, const void *data,
			 uint32_t n, struct nvme_cqe *ret_cqe)
{
	uint8_t capsule[RAW_CAPSULE_MAX];

	memcpy(capsule, sqe, sizeof(*sqe));
	if (n)
		memcpy(capsule + sizeof(*sqe), data, n);
	raw_send(q, capsule, (uint32_t)sizeof(*sqe) + n);
	if (!raw_receive(q, ret_cqe, TIMEOUT_MS))
		fail_msg("no response to opcode %02x", sqe->opcode);
	assert_memory_equal(&ret_cqe->cid, &sqe->cid, sizeof(le16));
	assert_int_equal(get_le16(ret_cqe->status) & 1, 0);
	return get_nvme_status(ret_cqe->status);
}

enum nvme_status raw_reserve(struct raw_queue *q, uint32_t nsid, uint8_t opcode, uint32_t cdw10,
			     uint64_t first, uint64_t second)
{
	struct nvme_sqe sqe = raw_sqe(q, opcode, nsid);
	le64 keys[2] = {put_le64(first), put_le64(second)};
	struct nvme_cqe cqe;

	memcpy(q->data, keys, sizeof(keys));
	raw_describe(q, &sqe, 0, opcode == NVME_IO_RESERVATION_RELEASE ? 8 : 16);
	sqe.cdw10 = put_le32(cdw10);
	return nvme_status_code(raw_run(q, &sqe, NULL, 0, &cqe));
}

struct nvme_resv_status raw_report(struct raw_queue *q, uint32_t nsid)
{
	struct nvme_sqe sqe = raw_sqe(q, NVME_IO_RESERVATION_REPORT, nsid);
	struct nvme_resv_status status;
	struct nvme_cqe cqe;

	raw_describe(q, &sqe, 0, sizeof(status));
	sqe.cdw10 = put_le32(sizeof(status) / 4 - 1);
	sqe.cdw11 = put_le32(NVME_RESV_EDS);
	assert_int_equal(raw_run(q, &sqe, NULL, 0, &cqe), NVME_OK);
	memcpy(&status, q->data, sizeof(status));
	return status;
}

void raw_connect_init(struct raw_connect *c, struct raw_queue *q, uint16_t qid, uint16_t sqsize,
		      uint16_t cntlid)
{
	*c = (struct raw_connect){
		.cmd = {.opcode = NVME_FABRICS,
			.flags = NVME_FLAGS_PSDT_SGL,
			.cid = put_le16(q->next_cid++),
			.fctype = NVMF_CONNECT,
			.qid = put_le16(qid),
			.sqsize = put_le16(sqsize)},
		.data = {.hostid = "raw host 16 byte", .cntlid = put_le16(cntlid)}};
	strcpy((char *)c->data.subnqn, RAW_SUBNQN);
	strcpy((char *)c->data.hostnqn, RAW_HOSTNQN);
	if (qid == 0) {
		c->cmd.sgl.keyed.address = put_le64((uintptr_t)q->data);
		c->cmd.sgl.keyed.length = put_le24(sizeof(c->data));
		c->cmd.sgl.keyed.key = put_le32(q->mr->rkey);
		c->cmd.sgl.keyed.type = NVME_SGL_KEYED_ADDRESS;
	} else {
		c->cmd.sgl.block.length = put_le32(sizeof(c->data));
		c->cmd.sgl.block.type = NVME_SGL_DATA_BLOCK_OFFSET;
	}
}

enum nvme_status raw_connect(struct raw_queue *q, struct raw_connect *c, struct nvme_cqe *ret_cqe)
{
	struct nvme_sqe sqe;
	bool is_in_capsule = c->cmd.sgl.block.type == NVME_SGL_DATA_BLOCK_OFFSET;

	memcpy(&sqe, &c->cmd, sizeof(sqe));
	memcpy(q->data, &c->data, sizeof(c->data));
	return raw_run(q, &sqe, &c->data, is_in_capsule ? sizeof(c->data) : 0, ret_cqe);
}

static struct nvmf_property_cmd property(struct raw_queue *q, uint8_t fctype, uint32_t offset)
{
	struct nvmf_property_cmd cmd = {.opcode = NVME_FABRICS,
					.flags = NVME_FLAGS_PSDT_SGL,
					.cid = put_le16(q->next_cid++),
					.fctype = fctype,
					.offset = put_le32(offset)};

	((struct nvme_sqe *)&cmd)->sgl.keyed.type = NVME_SGL_KEYED_ADDRESS;
	return cmd;
}

enum nvme_status raw_property_set(struct raw_queue *q, uint32_t offset, uint64_t value)
{
	struct nvmf_property_cmd cmd = property(q, NVMF_PROPERTY_SET, offset);
	struct nvme_sqe sqe;
	struct nvme_cqe cqe;

	cmd.value = put_le64(value);
	memcpy(&sqe, &cmd, sizeof(sqe));
	return raw_run(q, &sqe, NULL, 0, &cqe);
}

enum nvme_status raw_property_get(struct raw_queue *q, uint32_t offset, bool is_8_bytes,
				  uint64_t *ret_value)
{
	struct nvmf_property_cmd cmd = property(q, NVMF_PROPERTY_GET, offset);
	struct nvme_sqe sqe;
	struct nvme_cqe cqe;
	enum nvme_status status;

	cmd.attrib = is_8_bytes;
	memcpy(&sqe, &cmd, sizeof(sqe));
	status = raw_run(q, &sqe, NULL, 0, &cqe);
	*ret_value = get_le64(cqe.result);
	return status;
}

void raw_wait_csts(struct raw_queue *q, uint32_t mask, uint32_t wanted)
{
	uint64_t csts = 0, deadline = clock_ns() + TIMEOUT_MS * NSEC_PER_MSEC;

	do
		assert_int_equal(raw_property_get(q, NVME_PROP_CSTS, false, &csts), NVME_OK);
	while ((csts & mask) != wanted && clock_ns() < deadline);
	assert_int_equal(csts & mask, wanted);
}

enum nvme_status raw_io(struct raw_queue *q, uint8_t opcode, uint32_t nsid, uint64_t slba,
			unsigned n_blocks, uint32_t n_bytes)
{
	struct nvme_sqe sqe = raw_sqe(q, opcode, nsid);
	struct nvme_cqe cqe;

	if (n_bytes)
		raw_describe(q, &sqe, 0, n_bytes);
	sqe.cdw10 = put_le32((uint32_t)slba);
	sqe.cdw11 = put_le32((uint32_t)(slba >> 32));
	sqe.cdw12 = put_le32(n_blocks - 1);
	return raw_run(q, &sqe, NULL, 0, &cqe);
}

/* ---- a whole host --------------------------------------------------------------------------- */

/* change may be NULL. */
static void open_admin(struct raw_host *h, uint16_t port, const char *subnqn,
		       void (*change)(struct raw_connect *c))
{
	struct raw_connect c;
	struct nvme_cqe cqe;
	uint64_t csts;

	*h = (struct raw_host){0};
	assert_int_equal(raw_open(&h->admin, port, 0, NVMF_ADMIN_SQ_ENTRIES), 0);
	raw_connect_init(&c, &h->admin, 0, NVMF_ADMIN_SQ_ENTRIES - 1, NVMF_CNTLID_DYNAMIC);
	memset(c.data.subnqn, 0, sizeof(c.data.subnqn));
	strcpy((char *)c.data.subnqn, subnqn);
	if (change)
		change(&c);
	assert_int_equal(raw_connect(&h->admin, &c, &cqe), NVME_OK);
	h->cntlid = (uint16_t)get_le32(cqe.dw0);
	assert_int_equal(raw_property_set(&h->admin, NVME_PROP_CC, NVME_CC_ENABLE_VALUE), NVME_OK);
	assert_int_equal(raw_property_get(&h->admin, NVME_PROP_CSTS, false, &csts), NVME_OK);
	assert_int_equal(csts, NVME_CSTS_RDY);
}

void raw_host_open_admin(struct raw_host *h, uint16_t port, const char *subnqn)
{
	open_admin(h, port, subnqn, NULL);
}

void raw_host_open_with(struct raw_host *h, uint16_t port, void (*change)(struct raw_connect *c))
{
	struct raw_connect c;
	struct nvme_cqe cqe;

	open_admin(h, port, RAW_SUBNQN, change);
	assert_int_equal(raw_open(&h->io, port, 1, 32), 0);
	raw_connect_init(&c, &h->io, 1, 31, h->cntlid);
	if (change)
		change(&c);
	assert_int_equal(raw_connect(&h->io, &c, &cqe), NVME_OK);
}

static unsigned host_number;

static void number_host(struct raw_connect *c)
{
	uint8_t *last = &c->data.hostid[sizeof(c->data.hostid) - 1];

	*last = (uint8_t)(*last + host_number);
}

void raw_host_open_as(struct raw_host *h, uint16_t port, unsigned number)
{
	host_number = number;
	raw_host_open_with(h, port, number_host);
}

void raw_host_open(struct raw_host *h, uint16_t port)
{
	raw_host_open_with(h, port, NULL);
}

void raw_host_close(struct raw_host *h)
{
	raw_close(&h->io);
	raw_close(&h->admin);
}
