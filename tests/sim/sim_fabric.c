/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See sim_fabric.h: queue pairs, completion queues, receives and registered memory. sim_cm.c has
 * connections. The comments of the functions of transport/ are there.
 *
 * A request is POSTED, then it has ARRIVED at the other side, then it is ACKED; only then its
 * program gets the completion, after those of all requests before it. A WRITE or SEND reads its
 * memory when it arrives, and a READ's answer is written when it is acknowledged: memory that was
 * used again too early shows.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/check.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_fabric_internal.h"
#include "transport/window.h"

enum {
	REQUESTS = 2048, /* posted, of all queue pairs */
	ENTRIES = 2048,	 /* completions that no loop has taken */
	MEMORIES = 256,
	KEY_SHIFT = 8, /* the low bits of a key are its place */
	/* enum ibv_wc_status */
	STATUS_FLUSHED = 5,
	STATUS_ACCESS = 10,
	STATUS_RETRIES = 12,
	GIVE_UP_US = 700000, /* a sender breaks whose message waits for longer */
};

enum step {
	FREE,
	POSTED,
	ARRIVED,
	ACKED,
};

enum kind {
	SEND,
	WRITE,
	READ,
};

struct request {
	enum step step;
	enum kind kind;
	struct side *side; /* NULL: its program has it back; it is still on its way */
	struct side *to;
	unsigned life; /* of to */
	struct work *work;
	struct sge sges[QP_SGE_MAX];
	unsigned n_sges;
	uint64_t remote;
	uint32_t rkey, invalidates;
	uint8_t *bytes; /* owned: of a READ, or of what is on its way without its sender */
	size_t n;
	unsigned order;
};

enum entry_kind {
	ENTRY_DONE,
	ENTRY_RECEIVED,
	ENTRY_BROKEN,
	ENTRY_DRAINED,
};

struct entry {
	enum entry_kind kind;
	struct cq *cq;
	struct side *side;
	unsigned life;
	struct work *work;
	bool is_read;
	unsigned n_slots;
	struct completion c;
	uint8_t *bytes; /* owned */
};

struct memory {
	uint8_t *base; /* NULL: free */
	size_t n;
	enum mr_access access;
	uint32_t key;
};

static struct {
	struct device device;
	struct request requests[REQUESTS];
	struct entry entries[ENTRIES];
	unsigned first, n, order, n_recvs, n_keys, n_top; /* n_top: requests below are in use */
	struct memory memories[MEMORIES];
	const struct fabric_host *host;
} net;

/* ---- registered memory ---------------------------------------------------------------------- */

int domain_open(struct device *device, struct domain *domain)
{
	domain->device = device;
	domain->pd = (struct ibv_pd *)(void *)&net;
	return 0;
}

void domain_close(struct domain *domain)
{
	domain->pd = NULL;
}

int mr_open(const struct domain *domain, void *base, size_t n_bytes, enum mr_access access,
	    struct mr *ret_mr)
{
	unsigned i = 0;

	while (net.memories[i].base)
		check(++i < MEMORIES);
	net.memories[i] = (struct memory){.base = base,
					  .n = n_bytes,
					  .access = access,
					  .key = ++net.n_keys << KEY_SHIFT | i};
	ret_mr->verbs = (struct ibv_mr *)(void *)&net.memories[i];
	ret_mr->lkey = ret_mr->rkey = net.memories[i].key;
	return 0;
}

void mr_close(struct mr *mr)
{
	if (mr->verbs)
		((struct memory *)(void *)mr->verbs)->base = NULL;
	mr->verbs = NULL;
}

const char *mr_explain(int error, size_t n_bytes, char *buf, size_t n)
{
	*buf = '\0';
	return buf;
}

int window_open(const struct domain *domain, struct window *window)
{
	return -EOPNOTSUPP; /* the device has none */
}

void window_close(struct window *window)
{
}

/* NULL: the key does not allow it. */
static uint8_t *find_memory(uint32_t key, uint64_t at, size_t n, bool is_write)
{
	const struct memory *m = &net.memories[key & (MEMORIES - 1)];
	uint64_t base = (uintptr_t)m->base;
	bool may = m->access == MR_REMOTE_BOTH ||
		   m->access == (is_write ? MR_REMOTE_WRITE : MR_REMOTE_READ);

	if (!base || m->key != key || !may || at < base || n > m->n || at - base > m->n - n)
		return NULL;
	return m->base + (at - base);
}

struct device *fabric_device(void)
{
	if (!net.device.limits.max_qp_wr) {
		strcpy(net.device.name, "sim0");
		net.device.limits = (struct device_limits){.max_qp_wr = 1024,
							   .max_cqe = 65536,
							   .max_sge = 2,
							   .max_sge_rd = 1,
							   .max_srq_wr = 1024,
							   .max_rd_atom = 2,
							   .max_init_rd_atom = 2,
							   .has_srq = true,
							   .has_send_invalidate = true};
	}
	return &net.device;
}

/* ---- completions ---------------------------------------------------------------------------- */

static struct entry *add_entry(enum entry_kind kind, struct side *side)
{
	struct entry *e = &net.entries[(net.first + net.n++) % ENTRIES];

	check(net.n <= ENTRIES);
	*e = (struct entry){
		.kind = kind, .cq = side->qp->cq, .side = side, .life = side->life};
	return e;
}

static void end_request(const struct entry *e)
{
	struct qp *qp = e->side->qp;

	qp->n_posted -= e->n_slots;
	qp->n_reads -= e->is_read;
	if (e->work)
		e->work->done(e->work, &e->c);
	if (qp->on_credit && qp->state == QP_LIVE)
		qp->on_credit(qp);
}

static void receive(const struct entry *e)
{
	struct qp *qp = e->side->qp;
	struct recv *recv;
	size_t n = e->c.byte_len, n_capsule = MIN(n, sizeof(struct nvme_sqe));

	if (qp->state != QP_LIVE) {
		free(e->bytes);
		return;
	}
	recv = calloc(1, sizeof(*recv));
	check(recv);
	recv->ring = qp->ring;
	recv->capsule = malloc(sizeof(struct nvme_sqe));
	recv->data = malloc(n - n_capsule + 1);
	check(recv->capsule && recv->data);
	memcpy(recv->capsule, e->bytes, n_capsule);
	memcpy(recv->data, e->bytes + n_capsule, n - n_capsule);
	free(e->bytes);
	net.n_recvs++;
	qp->ring->on_recv(recv, qp, &e->c);
}

static void take_entry(const struct entry *e)
{
	struct qp *qp = e->side->qp;

	switch (e->kind) {
	case ENTRY_DONE:
		end_request(e);
		return;
	case ENTRY_RECEIVED:
		receive(e);
		return;
	case ENTRY_BROKEN:
		if (qp->state != QP_LIVE)
			return;
		qp->state = QP_BROKEN;
		qp->cause = e->c;
		qp->on_broken(qp, &qp->cause);
		return;
	case ENTRY_DRAINED:
		qp->state = QP_DRAINED;
		qp->on_drained(qp); /* may free the queue */
	}
}

/* Those of this queue that were there when it began. */
static unsigned poll_cq(struct loop_source *source)
{
	struct cq *cq = container_of(source, struct cq, source);
	unsigned n = net.n, n_taken = 0;

	for (unsigned i = 0; i < n; i++) {
		struct entry e = net.entries[net.first];

		net.first = (net.first + 1) % ENTRIES;
		net.n--;
		if (e.cq != cq) {
			net.entries[(net.first + net.n++) % ENTRIES] = e;
			continue;
		}
		n_taken++;
		if (e.side->life == e.life && e.side->qp)
			take_entry(&e);
		else
			free(e.bytes);
	}
	return n_taken;
}

bool fabric_has_entries(enum fabric_program program)
{
	for (unsigned i = 0; i < net.n; i++)
		if (net.entries[(net.first + i) % ENTRIES].side->program == program)
			return true;
	return false;
}

bool completion_is_flush(const struct completion *c)
{
	return c->status == STATUS_FLUSHED;
}

const char *completion_string(const struct completion *c)
{
	return c->status == STATUS_RETRIES ? "retries exceeded" : "failed";
}

int cq_init(struct cq *cq, struct device *device, struct loop *loop, unsigned depth,
	    unsigned max_depth)
{
	*cq = (struct cq){
		.device = device, .loop = loop, .depth = depth, .max_depth = max_depth};
	return 0;
}

int cq_start(struct cq *cq)
{
	cq->source = (struct loop_source){.poll = poll_cq};
	loop_source_add(cq->loop, &cq->source);
	return 0;
}

void cq_stop(struct cq *cq)
{
	loop_source_remove(&cq->source);
}

void cq_deinit(struct cq *cq)
{
}

int cq_reserve(struct cq *cq, unsigned n)
{
	return 0;
}

void cq_release(struct cq *cq, unsigned n)
{
}

/* ---- receives ------------------------------------------------------------------------------- */

void recv_give(struct recv *recv)
{
	check(net.n_recvs > 0);
	net.n_recvs--;
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

/* ---- requests on their way ------------------------------------------------------------------ */

static unsigned take_place(void)
{
	unsigned i = 0;

	while (net.requests[i].step != FREE)
		check(++i < REQUESTS);
	net.n_top = MAX(net.n_top, i + 1);
	return i;
}

/* The name of a request in an event; its place may be another's when the event comes. */
static unsigned name_of(const struct request *r)
{
	return (unsigned)(r - net.requests) + r->order * REQUESTS;
}

/* NULL: it is over. */
static struct request *find_request(unsigned name)
{
	struct request *r = &net.requests[name % REQUESTS];

	return r->step != FREE && name_of(r) == name ? r : NULL;
}

static size_t length_of(const struct request *r)
{
	size_t n = 0;

	for (unsigned i = 0; i < r->n_sges; i++)
		n += r->sges[i].length;
	return n;
}

static void gather(struct request *r)
{
	size_t at = 0;

	r->n = length_of(r);
	r->bytes = malloc(r->n + 1);
	check(r->bytes);
	for (unsigned i = 0; i < r->n_sges; at += r->sges[i++].length)
		memcpy(r->bytes + at, r->sges[i].addr, r->sges[i].length);
}

static void release(struct request *r)
{
	free(r->bytes);
	*r = (struct request){.step = FREE};
}

static void receive_at(struct side *to, struct request *r)
{
	struct entry *e = add_entry(ENTRY_RECEIVED, to);

	e->bytes = r->bytes;
	e->c.byte_len = (uint32_t)r->n;
	e->c.has_invalidated = r->invalidates;
	e->c.invalidated_rkey = r->invalidates;
	r->bytes = NULL;
}

/* At the other side. 0, or the status with which the request fails. */
static unsigned execute(struct request *r)
{
	struct side *to = r->to;
	size_t n = r->bytes ? r->n : length_of(r);
	uint8_t *at;

	if (to->life != r->life || !to->qp || to->qp->state != QP_LIVE || to->is_broken)
		return STATUS_RETRIES;
	if (r->kind == READ) {
		at = find_memory(r->rkey, r->remote, n, false);
		r->bytes = at ? malloc(n + 1) : NULL;
		if (at)
			memcpy(r->bytes, at, n);
		return at ? 0 : STATUS_ACCESS;
	}
	if (!r->bytes)
		gather(r);
	if (r->kind == WRITE) {
		at = find_memory(r->rkey, r->remote, n, true);
		if (at)
			memcpy(at, r->bytes, n);
		return at ? 0 : STATUS_ACCESS;
	}
	receive_at(to, r);
	return 0;
}

void side_break(struct side *side, unsigned status)
{
	if (!side->qp || side->is_broken || side->qp->state != QP_LIVE)
		return;
	side->is_broken = true;
	add_entry(ENTRY_BROKEN, side)->c.status = status;
}

static struct request *find_first(const struct side *side, enum step step)
{
	struct request *first = NULL;

	for (unsigned i = 0; i < net.n_top; i++) {
		struct request *r = &net.requests[i];

		if (r->step == step && r->side == side && (!first || r->order < first->order))
			first = r;
	}
	return first;
}

static void complete(struct request *r, unsigned status)
{
	struct entry *e = add_entry(ENTRY_DONE, r->side);

	if (r->kind == READ && !status)
		memcpy(r->sges[0].addr, r->bytes, r->sges[0].length);
	e->work = r->work;
	e->is_read = r->kind == READ;
	e->n_slots = 1;
	e->c.status = status;
	release(r);
}

/* Completions arrive in order. */
static void complete_acked(struct side *side)
{
	for (;;) {
		struct request *r = find_first(side, ACKED), *posted = find_first(side, POSTED),
			       *arrived = find_first(side, ARRIVED);

		if (!r || (posted && posted->order < r->order) ||
		    (arrived && arrived->order < r->order))
			return;
		complete(r, 0);
	}
}

static void on_ack(unsigned what)
{
	struct request *r = find_request(what);

	if (!r || r->step != ARRIVED)
		return;
	r->step = ACKED;
	complete_acked(r->side);
}

static void on_arrival(unsigned what);

/* The link is cut: it is sent again and again. */
static void wait_or_break(struct request *r)
{
	uint64_t until = fabric_cut_until(r->to->path);

	if (r->side && until - sim_now() < GIVE_UP_US * NSEC_PER_USEC) {
		sim_at(until + sim_between_us(1, 3000), on_arrival, name_of(r));
		return;
	}
	if (r->side)
		side_break(r->side, STATUS_RETRIES);
	else
		release(r);
}

/* In order on one side: those before it go first. */
static void on_arrival(unsigned what)
{
	struct request *r = find_request(what), *first;
	unsigned status;

	if (!r || r->step != POSTED)
		return;
	if (fabric_cut_until(r->to->path) > sim_now()) {
		wait_or_break(r);
		return;
	}
	first = r->side ? find_first(r->side, POSTED) : r;
	if (first != r) {
		sim_after(sim_between_us(1, 50), on_arrival, what);
		return;
	}
	status = execute(r);
	if (!r->side) {
		release(r);
		return;
	}
	if (status) {
		side_break(r->side, status);
		return;
	}
	r->step = ARRIVED;
	sim_after(sim_between_us(2, 60), on_ack, what);
}

static uint64_t choose_delay(void)
{
	return sim_chance(1) ? sim_between_us(1000, 200000) : sim_between_us(3, 80);
}

static void to_raw(struct side *side, struct request *r)
{
	const struct fabric_host *host = net.host;

	if (r->kind == SEND && host)
		host->on_response(side->qp, (const struct nvme_cqe *)r->sges[0].addr);
	if (r->kind == WRITE && host)
		host->on_data(side->qp, r->rkey, r->sges[0].addr, r->sges[0].length);
	check(r->kind != READ);
	complete(r, 0);
}

static void post(struct qp *qp, struct request request)
{
	struct side *side = side_of(qp);
	unsigned i = take_place();

	check(qp_is_attached(qp->state) && !qp_is_draining(qp->state) && qp_n_free(qp) > 0);
	qp->n_posted++;
	request.step = POSTED;
	request.side = side;
	request.to = side->peer;
	request.life = side->peer->life;
	request.order = net.order++;
	net.requests[i] = request;
	if (qp->state != QP_LIVE || side->is_broken)
		complete(&net.requests[i], STATUS_FLUSHED);
	else if (side->peer->is_raw)
		to_raw(side, &net.requests[i]);
	else
		sim_after(choose_delay(), on_arrival, name_of(&net.requests[i]));
}

/* ---- queue pairs ---------------------------------------------------------------------------- */

int qp_init(struct qp *qp, struct rdma_cm_id *id, const struct qp_config *config)
{
	struct side *side = (struct side *)(void *)id;

	*qp = (struct qp){.cq = config->cq,
			  .id = id,
			  .verbs = (struct ibv_qp *)(void *)side,
			  .depth = MIN(config->send_depth, 1024u),
			  .max_inline = config->inline_bytes,
			  .max_reads = 2,
			  .ring = config->shared_ring};
	check(!side->qp);
	side->qp = qp;
	side->is_broken = false;
	if (!qp->ring) {
		qp->own_ring.n_max = config->n_recv;
		qp->ring = &qp->own_ring;
	}
	return 0;
}

int qp_attach(struct qp *qp)
{
	qp->state = QP_LIVE;
	if (side_of(qp)->is_dead)
		side_break(side_of(qp), STATUS_FLUSHED);
	return 0;
}

void qp_send(struct qp *qp, struct work *work, const struct sge *sges, unsigned n_sges,
	     unsigned flags, uint32_t invalidate_rkey)
{
	struct request r = {.kind = SEND, .work = work, .n_sges = n_sges};

	check(n_sges && n_sges <= QP_SGE_MAX);
	memcpy(r.sges, sges, n_sges * sizeof(*sges));
	r.invalidates = flags & QP_INVALIDATE ? invalidate_rkey : 0;
	if (flags & QP_INLINE)
		gather(&r);
	work->qp = qp;
	post(qp, r);
}

void qp_write(struct qp *qp, struct sge sge, uint64_t remote_addr, uint32_t rkey)
{
	post(qp, (struct request){.kind = WRITE,
				  .sges = {sge},
				  .n_sges = 1,
				  .remote = remote_addr,
				  .rkey = rkey});
}

void qp_read(struct qp *qp, struct work *work, struct sge sge, uint64_t remote_addr, uint32_t rkey)
{
	check(qp_has_read_credit(qp));
	qp->n_reads++;
	work->qp = qp;
	post(qp, (struct request){.kind = READ,
				  .work = work,
				  .sges = {sge},
				  .n_sges = 1,
				  .remote = remote_addr,
				  .rkey = rkey});
}

uint32_t qp_bind(struct qp *qp, struct window *window, const struct mr *mr, void *addr,
		 uint32_t length, enum mr_access access)
{
	check(!"the device has no windows");
	return 0;
}

void qp_invalidate(struct qp *qp, struct work *work, const struct window *window)
{
	check(!"the device has no windows");
}

void qp_flush(struct qp *qp)
{
}

/* What has left the device travels on without its sender. */
static void part(struct request *r)
{
	struct request *ghost;

	if (r->step != POSTED || r->kind == READ || r->side->is_dead || !sim_chance(70))
		return;
	ghost = &net.requests[take_place()];
	*ghost = *r;
	ghost->bytes = NULL;
	gather(ghost);
	ghost->order = net.order++;
	ghost->side = NULL;
	sim_after(choose_delay(), on_arrival, name_of(ghost));
}

void side_flush(struct side *side)
{
	for (;;) {
		struct request *r = NULL;

		for (unsigned i = 0; i < net.n_top; i++)
			if (net.requests[i].step != FREE && net.requests[i].side == side &&
			    (!r || net.requests[i].order < r->order))
				r = &net.requests[i];
		if (!r)
			return;
		part(r);
		complete(r, STATUS_FLUSHED);
	}
}

void qp_drain(struct qp *qp)
{
	struct side *side = side_of(qp);

	check(qp_is_attached(qp->state) && !qp_is_draining(qp->state));
	qp->state = QP_DRAINING;
	side_flush(side);
	side->is_broken = true;
	add_entry(ENTRY_DRAINED, side);
}

void qp_detach(struct qp *qp)
{
	check(qp->n_posted == 0);
	qp->state = QP_DETACHED;
}

void qp_deinit(struct qp *qp)
{
	struct side *side = side_of(qp);

	check(!qp_is_attached(qp->state));
	if (!side)
		return;
	side->qp = NULL;
	side->life++;
	qp->verbs = NULL;
	side_put(side);
}

/* ---- hosts of the test ---------------------------------------------------------------------- */

void fabric_set_host(const struct fabric_host *host)
{
	net.host = host;
}

void fabric_raw_deliver(struct qp *qp, const struct nvme_sqe *sqe, const void *data, size_t n)
{
	struct entry *e = add_entry(ENTRY_RECEIVED, side_of(qp));

	e->bytes = malloc(sizeof(*sqe) + n);
	check(e->bytes);
	memcpy(e->bytes, sqe, sizeof(*sqe));
	if (n)
		memcpy(e->bytes + sizeof(*sqe), data, n);
	e->c.byte_len = (uint32_t)(sizeof(*sqe) + n);
}

/* ---- of a seed ------------------------------------------------------------------------------ */

bool fabric_is_empty(void)
{
	for (unsigned i = 0; i < MEMORIES; i++)
		if (net.memories[i].base)
			return false;
	return !net.n && !net.n_recvs && sides_are_gone();
}

void fabric_forget(void)
{
	for (unsigned i = 0; i < REQUESTS; i++)
		if (net.requests[i].step != FREE)
			release(&net.requests[i]);
	net.order = net.first = net.n_top = 0;
	net.n_keys = 0;
}
