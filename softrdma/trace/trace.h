/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tracing: writes each work request and its answer as RoCE v2 packets to the pcapng file that
 * SOFTRDMA_TRACE names. The thread that executes the work request calls the hook, which costs one
 * load when tracing is off. The message and all that it points to stay the caller's. Tracing
 * reports no errors: it ends when the file cannot be written.
 */
#pragma once

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "softrdma/process/api.h"
#include "softrdma/trace/trace_file.h"

struct sr_datagram;
struct sr_qp;
struct sr_wqe;

/* Whether packets are recorded. Any thread. */
static inline bool trace_on(void)
{
	return UNLIKELY(atomic_load_explicit(&trace_is_on, memory_order_relaxed));
}

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
	const struct sr_qp *qp;
	const struct sr_wqe *w;
	uint64_t index; /* of the work request in its queue */
	const struct iovec *local;
	unsigned n_local;
	uint64_t length;
	enum trace_answer answer;
	uint32_t rnr_timer;  /* TRACE_RNR: of the responder */
	uint64_t atomic_old; /* what an atomic operation found */
};
