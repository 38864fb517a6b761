/* SPDX-License-Identifier: BSD-3-Clause */
/* See pair.h. */
#include <arpa/inet.h>
#include <sys/mman.h>

#include "base/check.h"
#include "base/clock.h"
#include "tests/transport/pair.h"
#include "transport/cq.h"
#include "transport/cq_poll.h"
#include "transport/recv_ring.h"
#include "transport/wire/rdma_cm.h"

/* generous, for a busy machine */
#define PATIENCE_NS (60 * NSEC_PER_SEC)

static struct side *side_of(struct qp *qp)
{
	return container_of(qp, struct side, qp);
}

static void on_recv(struct recv *recv, struct qp *qp, const struct completion *c)
{
	struct side *side = side_of(qp);

	side->n_received++;
	side->last_len = c->byte_len;
	memcpy(side->last_capsule, recv->capsule, PAIR_CAPSULE);
	memcpy(side->last_data, recv->data, PAIR_DATA);
	if (!side->keeps_receives)
		recv_give(recv);
}

static void on_broken(struct qp *qp, const struct completion *c)
{
	side_of(qp)->n_broken++;
}

static void on_drained(struct qp *qp)
{
	side_of(qp)->n_drained++;
}

static void on_credit(struct qp *qp)
{
	side_of(qp)->n_credits++;
}

static void make_side(struct pair *p, struct side *side)
{
	struct device *device = side->conn->device;
	struct qp_config config = {.cq = &side->cq,
				   .domain = &side->domain,
				   .n_recv = PAIR_RECEIVES,
				   .recv_capsule_bytes = PAIR_CAPSULE,
				   .recv_data_bytes = PAIR_DATA,
				   .send_depth = PAIR_DEPTH,
				   .n_sges = QP_SGE_MAX,
				   .inline_bytes = QP_INLINE_MAX};
	struct recv_part *part;

	check(cq_init(&side->cq, device, &p->loop, 16, PAIR_CQES) == 0);
	check(cq_start(&side->cq) == 0);
	check(domain_open(device, &side->domain) == 0);
	side->memory = mmap(NULL, PAIR_MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);
	check(side->memory != MAP_FAILED);
	check(mr_open(&side->domain, side->memory, PAIR_MEMORY, MR_REMOTE_BOTH, &side->mr) == 0);
	if (p->uses_shared_ring) {
		check(recv_ring_init(&side->shared, &side->cq, &side->domain, true,
				     2 * PAIR_RECEIVES, PAIR_CAPSULE, PAIR_DATA) == 0);
		side->shared.on_recv = on_recv;
		check(recv_ring_add(&side->shared, &side->domain, PAIR_RECEIVES, &part) == 0);
		check(recv_part_post(part) == 0);
		config.shared_ring = &side->shared;
	}
	check(qp_init(&side->qp, side->conn->id, &config) == 0);
	side->qp.own_ring.on_recv = on_recv;
	side->qp.on_broken = on_broken;
	side->qp.on_drained = on_drained;
	side->qp.on_credit = on_credit;
	side->qp.max_reads = 4;
	check(qp_attach(&side->qp) == 0);
}

static void on_resolved(struct cm_conn *conn)
{
	struct pair *p = conn->context;
	struct nvmf_cm_req req = {.qid = put_le16(7)};

	make_side(p, &p->active);
	check(cm_connect(conn, &req, sizeof(req), 4) == 0);
}

static void on_established(struct cm_conn *conn, const void *data, size_t n)
{
	struct pair *p = conn->context;

	if (conn == p->passive.conn) {
		p->passive.is_established = true;
		return;
	}
	p->active.is_established = true;
	p->n_rep = n;
	if (n >= sizeof(p->seen_rep))
		memcpy(p->seen_rep, data, sizeof(p->seen_rep));
}

static void on_failed(struct cm_conn *conn, const struct cm_error *error)
{
	struct pair *p = conn->context;

	p->has_failed = true;
	p->error = *error;
}

static void on_disconnected(struct cm_conn *conn)
{
	struct pair *p = conn->context;

	if (conn == p->passive.conn)
		p->passive.n_disconnected++;
	else
		p->active.n_disconnected++;
}

static const struct cm_conn_ops ops = {.on_resolved = on_resolved,
				       .on_established = on_established,
				       .on_failed = on_failed,
				       .on_disconnected = on_disconnected};

static void on_request(struct cm_listener *listener, struct cm_conn *conn,
		       const struct cm_request *request)
{
	struct pair *p = listener->context;
	struct nvmf_cm_rep rep = {.crqsize = put_le16(PAIR_RECEIVES)};

	p->n_req = request->n_private;
	memcpy(p->seen_req, request->private_data, sizeof(p->seen_req));
	if (p->reject_status) {
		struct nvmf_cm_rej rej = {.sts = put_le16((uint16_t)p->reject_status)};

		cm_reject(conn, &rej, sizeof(rej));
		return;
	}
	conn->ops = &ops;
	conn->context = p;
	p->passive.conn = conn;
	make_side(p, &p->passive);
	check(cm_accept(conn, &rep, sizeof(rep), request->initiator_depth) == 0);
}

void pair_init(struct pair *p)
{
	union addr any = {.in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
	bool shared = p->uses_shared_ring;

	*p = (struct pair){.uses_shared_ring = shared};
	check(loop_init(&p->loop, 0, NULL) == 0);
	check(cm_new(&p->loop, &p->cm) == 0);
	p->listener.on_request = on_request;
	p->listener.context = p;
	check(cm_listen(p->cm, &any, 8, &p->listener) == 0);
}

void pair_connect(struct pair *p)
{
	uint64_t deadline = clock_ns() + PATIENCE_NS;

	check(cm_resolve(p->cm, &p->listener.address, NULL, 60000, &ops, p, &p->active.conn) == 0);
	while (!p->has_failed && !(p->active.is_established && p->passive.is_established)) {
		check(clock_ns() < deadline);
		loop_turn(&p->loop, 100 * NSEC_PER_MSEC);
	}
}

bool pair_wait(struct pair *p, const unsigned *counter, unsigned at_least)
{
	uint64_t deadline = clock_ns() + PATIENCE_NS;

	while (*counter < at_least && clock_ns() < deadline)
		loop_turn(&p->loop, 10 * NSEC_PER_MSEC);
	return *counter >= at_least;
}

void pair_settle(struct pair *p)
{
	for (unsigned i = 0; i < 20; i++)
		loop_turn(&p->loop, NSEC_PER_MSEC);
}

void side_drain(struct pair *p, struct side *side)
{
	if (!qp_is_draining(side->qp.state))
		qp_drain(&side->qp);
	check(pair_wait(p, &side->n_drained, 1));
}

static void side_deinit(struct pair *p, struct side *side)
{
	if (side->qp.cq) {
		side_drain(p, side);
		qp_detach(&side->qp);
		qp_deinit(&side->qp);
	}
	cm_conn_destroy(side->conn);
	recv_ring_deinit(&side->shared);
	if (side->cq.verbs) {
		cq_stop(&side->cq);
		cq_deinit(&side->cq);
	}
	mr_close(&side->mr);
	if (side->memory)
		munmap(side->memory, PAIR_MEMORY);
	domain_close(&side->domain);
}

void pair_deinit(struct pair *p)
{
	side_deinit(p, &p->active);
	side_deinit(p, &p->passive);
	cm_listener_close(&p->listener);
	cm_free(p->cm);
	loop_deinit(&p->loop);
}
