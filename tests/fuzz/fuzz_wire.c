/* SPDX-License-Identifier: BSD-3-Clause */
/* See fuzz_wire.h. The comments of the functions are those of transport/. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/check.h"
#include "tests/fuzz/fuzz_wire.h"
#include "transport/cq.h"
#include "transport/cq_poll.h"
#include "transport/qp.h"
#include "transport/qp_post.h"
#include "transport/recv_ring.h"

enum {
	PENDING_MAX = 1024,
	KEYS = 64,
	LISTENERS = 4,
	FLUSHED = 5, /* IBV_WC_WR_FLUSH_ERR */
};

enum kind {
	SEND,
	WRITE,
	READ,
	DRAIN,
};

struct pending {
	enum kind kind;
	struct qp *qp;
	struct work *work;
	unsigned status;
};

static struct {
	struct device device;
	struct pending pending[PENDING_MAX];
	unsigned first, n;
	bool is_held;
	unsigned max_inline;
	struct {
		const uint8_t *bytes;
		size_t n;
	} memory[KEYS];
	uint8_t *sink;
	size_t n_sink;
	struct cm_listener *listeners[LISTENERS];
	unsigned n_listeners, n_conns, n_recvs;
} wire = {.max_inline = QP_INLINE_MAX};

void wire_start(void)
{
	wire.device.limits = (struct device_limits){.max_qp_wr = 1024,
						    .max_cqe = 65536,
						    .max_sge = 2,
						    .max_sge_rd = 1,
						    .max_srq_wr = 1024,
						    .max_rd_atom = 2,
						    .max_init_rd_atom = 2,
						    .has_srq = true,
						    .has_send_invalidate = true};
}

void wire_set_inline(bool has_inline)
{
	wire.max_inline = has_inline ? QP_INLINE_MAX : 0;
}

void wire_set_memory(unsigned key, const uint8_t *bytes, size_t n)
{
	wire.memory[key % KEYS].bytes = bytes;
	wire.memory[key % KEYS].n = n;
}

void wire_forget_memory(void)
{
	memset(wire.memory, 0, sizeof(wire.memory));
}

void wire_set_sink(uint8_t *bytes, size_t n)
{
	wire.sink = bytes;
	wire.n_sink = n;
}

void wire_hold(bool is_held)
{
	wire.is_held = is_held;
}

/* ---- receives ------------------------------------------------------------------------------- */

void wire_deliver(struct qp *qp, const void *sqe, const uint8_t *data, size_t n)
{
	struct recv *recv = calloc(1, sizeof(*recv));
	struct completion c = {0};

	check(recv && n <= WIRE_IN_CAPSULE_MAX);
	recv->ring = qp->ring;
	recv->capsule = malloc(sizeof(struct nvme_sqe));
	recv->data = malloc(n ? n : 1);
	check(recv->capsule && recv->data);
	memcpy(recv->capsule, sqe, sizeof(struct nvme_sqe));
	if (n)
		memcpy(recv->data, data, n);
	c.byte_len = (uint32_t)(sizeof(struct nvme_sqe) + n);
	wire.n_recvs++;
	qp->ring->on_recv(recv, qp, &c);
}

void recv_give(struct recv *recv)
{
	check(wire.n_recvs > 0);
	wire.n_recvs--;
	free(recv->capsule);
	free(recv->data);
	free(recv);
}

int recv_ring_init(struct recv_ring *ring, struct cq *cq, const struct domain *domain, bool shared,
		   unsigned n_max, uint32_t capsule_bytes, uint32_t data_bytes)
{
	ring->cq = cq;
	ring->n_max = n_max;
	return 0;
}

int recv_ring_add(struct recv_ring *ring, const struct domain *domain, unsigned n,
		  struct recv_part **ret_part)
{
	static struct recv_part part;

	ring->n_made += n;
	*ret_part = &part;
	return 0;
}

int recv_part_post(struct recv_part *part)
{
	return 0;
}

void recv_ring_deinit(struct recv_ring *ring)
{
}

/* ---- queue pairs ---------------------------------------------------------------------------- */

int qp_init(struct qp *qp, struct rdma_cm_id *id, const struct qp_config *config)
{
	*qp = (struct qp){.cq = config->cq,
			  .depth = config->send_depth,
			  .max_inline = wire.max_inline,
			  .ring = config->shared_ring};
	if (!qp->ring) {
		qp->own_ring.n_max = config->n_recv;
		qp->ring = &qp->own_ring;
	}
	return 0;
}

int qp_attach(struct qp *qp)
{
	qp->state = QP_LIVE;
	return 0;
}

static void post(struct qp *qp, enum kind kind, struct work *work)
{
	check(wire.n < PENDING_MAX);
	wire.pending[(wire.first + wire.n++) % PENDING_MAX] = (struct pending){
		.kind = kind, .qp = qp, .work = work};
	if (kind == DRAIN)
		return;
	check(qp_is_attached(qp->state) && qp_n_free(qp) > 0);
	qp->n_posted++;
}

/* Touches each byte, so that a sanitizer reports memory that does not exist. */
static void look_at(const void *at, size_t n)
{
	const volatile uint8_t *bytes = at;
	uint8_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum ^= bytes[i];
	(void)sum;
}

void qp_send(struct qp *qp, struct work *work, const struct sge *sges, unsigned n_sges,
	     unsigned flags, uint32_t invalidate_rkey)
{
	check(n_sges == 1 && sges[0].length == sizeof(struct nvme_cqe));
	look_at(sges[0].addr, sges[0].length);
	post(qp, SEND, work);
}

void qp_write(struct qp *qp, struct sge sge, uint64_t remote_addr, uint32_t rkey)
{
	look_at(sge.addr, sge.length);
	if (wire.sink)
		memcpy(wire.sink, sge.addr, MIN(wire.n_sink, sge.length));
	post(qp, WRITE, NULL);
}

void qp_read(struct qp *qp, struct work *work, struct sge sge, uint64_t remote_addr, uint32_t rkey)
{
	size_t n = MIN(wire.memory[rkey % KEYS].n, sge.length);

	check(qp_has_read_credit(qp));
	qp->n_reads++;
	memset(sge.addr, 0, sge.length);
	if (n)
		memcpy(sge.addr, wire.memory[rkey % KEYS].bytes, n);
	post(qp, READ, work);
}

void qp_flush(struct qp *qp)
{
}

/* Each request completes by itself. */
void qp_settle(struct qp *qp)
{
}

/* The drain completes after all posted work. */
void qp_drain(struct qp *qp)
{
	for (unsigned i = 0; i < wire.n; i++) {
		struct pending *p = &wire.pending[(wire.first + i) % PENDING_MAX];

		if (p->qp == qp)
			p->status = FLUSHED;
	}
	check(!qp_is_draining(qp->state));
	qp->state = QP_DRAINING;
	post(qp, DRAIN, NULL);
}

void qp_detach(struct qp *qp)
{
	check(qp->n_posted == 0);
	qp->state = QP_DETACHED;
}

void qp_deinit(struct qp *qp)
{
	check(!qp_is_attached(qp->state));
}

static void end(const struct pending *p)
{
	struct completion c = {.status = p->status};
	struct qp *qp = p->qp;

	if (p->kind == DRAIN) {
		qp->on_drained(qp); /* may free the queue */
		return;
	}
	qp->n_posted--;
	qp->n_reads -= p->kind == READ;
	if (p->work)
		p->work->done(p->work, &c);
	if (!qp_is_draining(qp->state))
		qp->on_credit(qp);
}

bool wire_turn(void)
{
	unsigned n = wire.is_held ? 0 : wire.n;

	for (unsigned i = 0; i < n; i++) {
		struct pending p = wire.pending[wire.first];

		wire.first = (wire.first + 1) % PENDING_MAX;
		wire.n--;
		end(&p);
	}
	return n;
}

bool wire_is_quiet(void)
{
	return wire.is_held || wire.n == 0;
}

/* ---- completion queues ---------------------------------------------------------------------- */

bool completion_is_flush(const struct completion *c)
{
	return c->status == FLUSHED;
}

const char *completion_string(const struct completion *c)
{
	return "failed";
}

int cq_init(struct cq *cq, struct device *device, struct loop *loop, unsigned depth,
	    unsigned max_depth)
{
	return 0;
}

int cq_start(struct cq *cq)
{
	return 0;
}

void cq_stop(struct cq *cq)
{
}

void cq_deinit(struct cq *cq)
{
}

/* ---- devices -------------------------------------------------------------------------------- */

int domain_open(struct device *device, struct domain *domain)
{
	domain->device = device;
	domain->pd = (struct ibv_pd *)(void *)&wire;
	return 0;
}

void domain_close(struct domain *domain)
{
	domain->pd = NULL;
}

int mr_open(const struct domain *domain, void *base, size_t n_bytes, enum mr_access access,
	    struct mr *ret_mr)
{
	ret_mr->verbs = (struct ibv_mr *)(void *)&wire;
	return 0;
}

void mr_close(struct mr *mr)
{
	mr->verbs = NULL;
}

const char *mr_explain(int error, size_t n_bytes, char *buf, size_t n)
{
	*buf = '\0';
	return buf;
}

/* ---- connections ---------------------------------------------------------------------------- */

void wire_connect(unsigned listener, unsigned n_reads, const void *private_data, size_t n)
{
	struct cm_listener *l = wire.listeners[listener % wire.n_listeners];
	struct cm_conn *conn = calloc(1, sizeof(*conn));
	struct cm_request request = {.initiator_depth = n_reads,
				     .responder_resources = n_reads,
				     .private_data = private_data,
				     .n_private = n};

	check(conn);
	conn->device = &wire.device;
	conn->local.sa.sa_family = conn->remote.sa.sa_family = AF_INET;
	wire.n_conns++;
	l->on_request(l, conn, &request);
}

unsigned wire_n_conns(void)
{
	return wire.n_conns;
}

unsigned wire_n_recvs(void)
{
	return wire.n_recvs;
}

int cm_accept(struct cm_conn *conn, const void *private_data, size_t n, unsigned initiator_depth)
{
	look_at(private_data, n);
	return 0;
}

void cm_reject(struct cm_conn *conn, const void *private_data, size_t n)
{
	look_at(private_data, n);
	cm_conn_destroy(conn);
}

const char *cm_removed_device(const struct cm_conn *conn)
{
	return NULL;
}

void cm_disconnect(struct cm_conn *conn)
{
	conn->is_disconnected = true;
}

void cm_conn_destroy(struct cm_conn *conn)
{
	check(wire.n_conns > 0);
	wire.n_conns--;
	free(conn);
}

void cm_notify_established(struct cm_conn *conn)
{
}

int cm_new(struct loop *control, struct cm **ret_cm)
{
	*ret_cm = NULL; /* wire_connect takes its place */
	return 0;
}

void cm_free(struct cm *cm)
{
}

int cm_listen(struct cm *cm, const union addr *address, int backlog, struct cm_listener *listener)
{
	check(wire.n_listeners < LISTENERS);
	wire.listeners[wire.n_listeners++] = listener;
	listener->device = &wire.device;
	return 0;
}

int cm_hold_device(struct cm *cm, const union addr *address, struct device_user *ret_user)
{
	return -ENODEV;
}

void device_release(struct device_user *user)
{
}

void cm_listener_close(struct cm_listener *listener)
{
	wire.n_listeners = 0; /* all listeners close together */
}
