/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An adapter may send several requests before the first answer arrives, and answer several at once;
 * here each is answered before the next. A refused message shows its first packet only, and a
 * message that waits appears again at each retry.
 */
#include "softrdma/trace/trace.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "softrdma/fabric/peer.h"
#include "softrdma/trace/trace_file.h"
#include "softrdma/trace/trace_packet.h"
#include "softrdma/trace/trace_rc.h"
#include "softrdma/verbs/gid.h"
#include "softrdma/verbs/qp_impl.h"

/* BTH opcodes of reliable connections, IBA table 38. */
enum {
	SEND_FIRST = 0, /* then MIDDLE, LAST, LAST_IMM, ONLY, ONLY_IMM */
	WRITE_FIRST = 6,
	READ_REQUEST = 12,
	READ_FIRST = 13, /* then MIDDLE, LAST, ONLY */
	ACKNOWLEDGE = 17,
	ATOMIC_ACKNOWLEDGE = 18,
	COMPARE_SWAP = 19,
	FETCH_ADD = 20,
	SEND_LAST_INV = 22,
	SEND_ONLY_INV = 23,
};

enum {
	/* The bits in which the opcodes of other kinds differ from RC's. */
	LOSSY = 0x20,
	XRC = 0xa0,
};

enum {
	MIDDLE = 1,
	LAST = 2,
	READ_ONLY = 3,
	ONLY = 4
};

/* The constant fields of a QP's packets, and the next packet sequence numbers. */
struct stream {
	struct trace_flow there, back;
	uint32_t qpn, dest_qpn, mtu;
	uint32_t cm_qpn; /* the QP for which the CM gave the addresses */
	uint32_t first_psn, psn, msn;
	uint64_t index;
};

/* By QP slot; guarded by trace_begin. */
static struct stream streams[SEG_MAX_QP];

static void set_flow(struct stream *s, const struct trace_flow *f)
{
	s->there = *f;
	s->back = (struct trace_flow){.from = f->to, .to = f->from};
}

void trace_know(uint32_t qpn, const struct trace_flow *f)
{
	uint32_t slot = seg_qp_slot(seg_self, qpn);

	if (slot >= SEG_MAX_QP)
		return;
	set_flow(&streams[slot], f);
	streams[slot].cm_qpn = qpn;
}

/* Addresses of a QP that the application connected: from its address vector. */
static void flow_of(const struct sr_qp *qp, struct trace_flow *f)
{
	static const union ibv_gid localhost = {
		.raw = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}};
	const struct ibv_ah_attr *ah = &qp->attr.ah_attr;

	f->from = f->to = localhost;
	if (ah->is_global && !sr_gid_at(ah->grh.sgid_index, &f->from, NULL))
		f->to = ah->grh.dgid;
}

static struct stream *stream_of(const struct trace_message *m)
{
	const struct ibv_qp_attr *a = &m->qp->attr;
	struct stream *s = &streams[m->qp->slot];
	uint32_t qpn = m->qp->ib.qp_base.qp_num;
	struct trace_flow f;

	if (s->qpn == qpn && s->dest_qpn == a->dest_qp_num && m->index >= s->index &&
	    s->first_psn == a->sq_psn)
		goto known;
	if (s->cm_qpn != qpn) {
		flow_of(m->qp, &f);
		set_flow(s, &f);
	}
	s->qpn = qpn;
	s->dest_qpn = a->dest_qp_num;
	s->mtu = a->path_mtu ? 128u << a->path_mtu : 4096;
	s->first_psn = s->psn = a->sq_psn;
	s->msn = 0;
known:
	s->index = m->index;
	return s;
}

/* ---- packets ------------------------------------------------------------------------ */

/* By system call, as the engine copies, so that a bad pointer is no crash. */
static void add_payload(struct trace_packet *p, const struct trace_message *m, uint64_t skip,
			uint32_t n)
{
	struct iovec from[DEV_MAX_SGE], to = {trace_packet_add(p, n), n};
	unsigned used = 0;
	uint64_t left = n;

	for (unsigned i = 0; i < m->n_local && left; i++) {
		uint64_t len = m->local[i].iov_len;

		if (skip >= len) {
			skip -= len;
			continue;
		}
		len = len - skip < left ? len - skip : left;
		from[used++] = (struct iovec){(char *)m->local[i].iov_base + skip, len};
		skip = 0;
		left -= len;
	}
	if (n)
		syscall(SYS_process_vm_readv, sr_peer_self->pid, &to, 1, from, used, 0);
}

/* The opcode of bth is RC's. */
static void begin(struct trace_packet *p, const struct trace_message *m, const struct trace_flow *f,
		  struct trace_bth *bth)
{
	bth->opcode |= sr_qp_is_lossy(m->qp) ? LOSSY : sr_qp_is_xrc_send(m->qp) ? XRC : 0;
	trace_packet_begin(p, f, bth);
}

/* The XRCETH of XRC's requests. */
static void begin_request(struct trace_packet *p, const struct trace_message *m,
			  const struct stream *s, struct trace_bth *bth)
{
	begin(p, m, &s->there, bth);
	if (sr_qp_is_xrc_send(m->qp))
		trace_packet_add32(p, sr_qp_extra(m->qp, m->w)->srqn);
}

static void add_reth(struct trace_packet *p, const struct trace_message *m)
{
	trace_packet_add64(p, m->w->remote_addr);
	trace_packet_add32(p, m->w->rkey);
	trace_packet_add32(p, (uint32_t)m->length);
}

static void add_aeth(struct trace_packet *p, uint32_t syndrome, uint32_t msn)
{
	trace_packet_add32(p, syndrome << 24 | (msn & 0xffffff));
}

static uint32_t n_packets(const struct trace_message *m, const struct stream *s)
{
	return m->length ? (uint32_t)((m->length + s->mtu - 1) / s->mtu) : 1;
}

/* The i-th of n packets: which part of a message it is. */
static uint8_t part(uint32_t i, uint32_t n, uint8_t only)
{
	if (n == 1)
		return only;
	return i == 0 ? 0 : i == n - 1 ? LAST : MIDDLE;
}

static uint32_t part_len(const struct trace_message *m, const struct stream *s, uint32_t i)
{
	uint64_t left = m->length - (uint64_t)i * s->mtu;

	return left < s->mtu ? (uint32_t)left : s->mtu;
}

static bool has_imm(uint32_t opcode)
{
	return opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static uint8_t request_opcode(uint32_t opcode, uint8_t part)
{
	bool ends = part == LAST || part == ONLY;

	if (opcode == IBV_WR_SEND_WITH_INV && ends)
		return part == ONLY ? SEND_ONLY_INV : SEND_LAST_INV;
	if (opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		part = (uint8_t)(part + WRITE_FIRST);
	return (uint8_t)(part + (has_imm(opcode) && ends));
}

/* One packet of a SEND or WRITE. */
static void put_data(const struct trace_message *m, struct stream *s, uint32_t i, uint32_t n)
{
	uint32_t op = m->w->opcode;
	uint8_t which = part(i, n, ONLY);
	bool first = i == 0, last = i == n - 1;
	bool lossy = sr_qp_is_lossy(m->qp);
	struct trace_bth bth = {.opcode = request_opcode(op, which),
				.dest_qpn = s->dest_qpn,
				.psn = s->psn + i,
				.ack_request = last && !lossy,
				.solicited = last && m->w->flags & IBV_SEND_SOLICITED};
	struct trace_packet p;

	begin_request(&p, m, s, &bth);
	if (first && (op == IBV_WR_RDMA_WRITE || op == IBV_WR_RDMA_WRITE_WITH_IMM))
		add_reth(&p, m);
	if (last && has_imm(op)) /* as the application gave it: network byte order */
		memcpy(trace_packet_add(&p, 4), &m->w->imm, 4);
	if (last && op == IBV_WR_SEND_WITH_INV)
		trace_packet_add32(&p, m->w->imm);
	add_payload(&p, m, (uint64_t)i * s->mtu, part_len(m, s, i));
	trace_packet_end(&p);
}

static void put_read_request(const struct trace_message *m, struct stream *s)
{
	struct trace_bth bth = {.opcode = READ_REQUEST,
				.dest_qpn = s->dest_qpn,
				.psn = s->psn,
				.ack_request = true};
	struct trace_packet p;

	begin_request(&p, m, s, &bth);
	add_reth(&p, m);
	trace_packet_end(&p);
}

static void put_read_response(const struct trace_message *m, struct stream *s, uint32_t i,
			      uint32_t n)
{
	uint8_t which = part(i, n, READ_ONLY);
	struct trace_bth bth = {
		.opcode = (uint8_t)(READ_FIRST + which), .dest_qpn = s->qpn, .psn = s->psn + i};
	struct trace_packet p;

	begin(&p, m, &s->back, &bth);
	if (which != MIDDLE)
		add_aeth(&p, TRACE_ACK, s->msn);
	add_payload(&p, m, (uint64_t)i * s->mtu, part_len(m, s, i));
	trace_packet_end(&p);
}

static void put_atomic_request(const struct trace_message *m, struct stream *s)
{
	bool add = m->w->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
	struct trace_bth bth = {.opcode = add ? FETCH_ADD : COMPARE_SWAP,
				.dest_qpn = s->dest_qpn,
				.psn = s->psn,
				.ack_request = true};
	const struct sr_wqe_extra *extra = sr_qp_extra(m->qp, m->w);
	struct trace_packet p;

	begin_request(&p, m, s, &bth);
	trace_packet_add64(&p, m->w->remote_addr);
	trace_packet_add32(&p, m->w->rkey);
	trace_packet_add64(&p, add ? extra->atomic.compare_add : extra->atomic.swap);
	trace_packet_add64(&p, add ? 0 : extra->atomic.compare_add);
	trace_packet_end(&p);
}

static void put_acknowledge(const struct trace_message *m, struct stream *s, uint32_t psn,
			    bool atomic)
{
	struct trace_bth bth = {.opcode = atomic ? ATOMIC_ACKNOWLEDGE : ACKNOWLEDGE,
				.dest_qpn = s->qpn,
				.psn = psn};
	uint32_t syndrome = m->answer;
	struct trace_packet p;

	if (m->answer == TRACE_RNR)
		syndrome |= m->rnr_timer;
	begin(&p, m, &s->back, &bth);
	add_aeth(&p, syndrome, s->msn);
	if (atomic)
		trace_packet_add64(&p, m->atomic_old);
	trace_packet_end(&p);
}

/* ---- messages ----------------------------------------------------------------------- */

static void put_refused(const struct trace_message *m, struct stream *s)
{
	uint32_t op = m->w->opcode;

	if (op == IBV_WR_RDMA_READ)
		put_read_request(m, s);
	else if (op == IBV_WR_ATOMIC_FETCH_AND_ADD || op == IBV_WR_ATOMIC_CMP_AND_SWP)
		put_atomic_request(m, s);
	else
		put_data(m, s, 0, n_packets(m, s));
	if (m->answer != TRACE_SILENCE)
		put_acknowledge(m, s, s->psn, false);
}

static void put_read(const struct trace_message *m, struct stream *s)
{
	uint32_t n = n_packets(m, s);

	put_read_request(m, s);
	s->msn++;
	for (uint32_t i = 0; i < n; i++)
		put_read_response(m, s, i, n);
	s->psn += n;
}

static void put_atomic(const struct trace_message *m, struct stream *s)
{
	put_atomic_request(m, s);
	s->msn++;
	put_acknowledge(m, s, s->psn, true);
	s->psn++;
}

static void put_send_or_write(const struct trace_message *m, struct stream *s)
{
	uint32_t n = n_packets(m, s);

	for (uint32_t i = 0; i < n; i++)
		put_data(m, s, i, n);
	s->psn += n;
	s->msn++;
	if (!sr_qp_is_lossy(m->qp)) /* UC: all is sent, and nothing answers, in any case */
		put_acknowledge(m, s, s->psn - 1, false);
}

void trace_message(const struct trace_message *m)
{
	struct stream *s;

	trace_begin();
	s = stream_of(m);
	if (m->answer != TRACE_ACK && !sr_qp_is_lossy(m->qp))
		put_refused(m, s);
	else if (m->w->opcode == IBV_WR_RDMA_READ)
		put_read(m, s);
	else if (m->w->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
		 m->w->opcode == IBV_WR_ATOMIC_CMP_AND_SWP)
		put_atomic(m, s);
	else
		put_send_or_write(m, s);
	trace_end();
}
