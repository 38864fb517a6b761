/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

struct cm_id;
struct cm_msg;
struct qp;
struct wqe;

/*
 * Tracing: what crosses the queue pairs, written as RoCE v2 packets to the pcapng file
 * named by SOFTRDMA_TRACE. The hooks cost one load when off.
 */

extern _Atomic bool trace_is_on;

static inline bool trace_on(void)
{
	return __builtin_expect(atomic_load_explicit(&trace_is_on, memory_order_relaxed), 0);
}

/* Opens the file if the environment names one. Once, from node_start. */
void trace_start(void);
void trace_forget(void);

/* How the responder answers; the numbers are AETH syndromes, IBA table 44. */
enum trace_answer {
	TRACE_ACK = 0x1f, /* with no credit count */
	TRACE_RNR = 0x20, /* and the timer */
	TRACE_NAK_REQUEST = 0x61,
	TRACE_NAK_ACCESS = 0x62,
	TRACE_NAK_OPERATION = 0x63,
	TRACE_SILENCE = 0x100,
};

struct trace_message {
	const struct qp *qp;
	const struct wqe *w;
	uint64_t index; /* of the work request in its queue */
	const struct iovec *local;
	unsigned n_local;
	uint64_t length;
	enum trace_answer answer;
	uint64_t atomic_old; /* what an atomic operation found */
};

/*
 * A work request and its answer. Called under sq_lock, when the data is in place and
 * before either side can see a completion: so a reply comes after what it replies to.
 */
void trace_message(const struct trace_message *m);
/* A message of the connection manager, about to be sent. Under cm_lock. */
void trace_cm(const struct cm_id *id, const struct cm_msg *m);

/* ---- between the trace*.c files --------------------------------------------------- */

/* From whom to whom. */
struct trace_flow {
	union ibv_gid from, to;
};

struct trace_packet {
	unsigned len, ip, bth; /* bytes so far; where those headers begin */
	uint8_t data[14 + 40 + 8 + 12 + 28 + 4096 + 4];
};

/* What a BTH says. */
struct trace_bth {
	uint8_t opcode;
	bool solicited, ack_request;
	uint32_t dest_qpn, psn;
};

/* Between these two the file is ours; end writes what has been collected. */
void trace_begin(void);
void trace_end(void);
/* Queue one finished packet. */
void trace_put(const struct trace_packet *p);

void packet_begin(struct trace_packet *p, const struct trace_flow *f, const struct trace_bth *bth);
/* Room for n more bytes, zeroed. */
uint8_t *packet_add(struct trace_packet *p, unsigned n);
void packet_add16(struct trace_packet *p, uint32_t v);
void packet_add32(struct trace_packet *p, uint32_t v);
void packet_add64(struct trace_packet *p, uint64_t v);
/* Pads, computes lengths and checksums, and queues the packet. */
void packet_end(struct trace_packet *p);
void packet_init_crc(void);

/* The addresses of a connection's QP, as its connection manager knows them. */
void trace_know(uint32_t qpn, const struct trace_flow *f);
