/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The responding half of a connection: requests are executed once, in the order of their numbers,
 * and answered (IBA volume 1, 9.7.4 to 9.7.5 and 9.9.3; UC's are not answered, 9.8). Pure: what a
 * request does to the host is behind struct roce_host. The caller holds the queue pair's locks.
 *
 * Answers to the requester wait here until the caller fetches them with roce_responder_next():
 * first READ responses and results of atomics, in the order of their numbers, then at most one
 * acknowledgement or NAK. One acknowledgement stands for all before it, so a batch of packets that
 * was received together costs one.
 *
 * A duplicate of a SEND or WRITE is acknowledged again and not executed. A duplicate of a READ is
 * executed again, from any of its packets on; that of an atomic gets the saved result. So as many
 * of them are remembered as may be under way.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "softrdma/fabric/roce/packet.h"

enum {
	ROCE_SAVED_MAX = 256, /* a peer's READs and atomics under way, at most */
};

/* The host's verdict on a request. */
enum roce_verdict {
	ROCE_OK,
	ROCE_NOT_READY, /* no receive is posted: RNR NAK */
	ROCE_INVALID,	/* NAK invalid request */
	ROCE_DENIED,	/* NAK remote access error */
	ROCE_BROKEN,	/* NAK remote operational error */
};

enum roce_access {
	ROCE_MAY_WRITE,
	ROCE_MAY_READ,
	ROCE_MAY_ATOMIC,
};

struct roce_host {
	/* Whether a receive is there for the message that begins (a SEND), or ends (WRITE with
	 * immediate). It stays the same one until `deliver`. */
	enum roce_verdict (*take)(void *context);
	/* Copies a part of a SEND to the receive. */
	enum roce_verdict (*scatter)(void *context, uint32_t offset, const uint8_t *data,
				     uint32_t n);
	/* Completes the receive. last: the message's last packet; length: of all of it. */
	enum roce_verdict (*deliver)(void *context, const struct roce_packet *last, bool is_write,
				     uint32_t length);
	/* Whether a key grants this use of a range that is not empty. */
	enum roce_verdict (*check)(void *context, enum roce_access need, uint32_t rkey, uint64_t va,
				   uint32_t length);
	/* Copies a part of a WRITE, whose whole range was checked: checks again. */
	enum roce_verdict (*write)(void *context, uint32_t rkey, uint64_t va, const uint8_t *data,
				   uint32_t n);
	enum roce_verdict (*atomic)(void *context, const struct roce_packet *request,
				    uint64_t *ret_original);
};

/* A READ or atomic that was executed, or part of one that is to be answered. */
struct roce_saved {
	bool is_atomic;
	uint32_t psn, n_packets;
	uint32_t rkey, length;
	uint64_t va;
	uint64_t original; /* atomic */
	uint32_t msn;
	uint32_t srqn; /* XRC */
};

enum roce_inbound {
	ROCE_BETWEEN, /* messages */
	ROCE_IN_SEND,
	ROCE_IN_WRITE,
};

struct roce_responder {
	uint32_t mtu;
	unsigned max_saved; /* max_dest_rd_atomic, at least 1 */
	unsigned allows;    /* ... as negotiated: 0 forbids READs and atomics */
	uint8_t rnr_timer;  /* as encoded in ibv_modify_qp(3) */
	uint32_t expected;  /* PSN */
	uint32_t msn;

	enum roce_inbound inbound;
	uint32_t done; /* bytes of the message under way */
	uint32_t write_key, write_length;
	uint64_t write_va;

	bool has_naked;	  /* a sequence NAK for `expected` was sent */
	bool is_refusing; /* an RNR NAK for `expected` was sent */
	uint8_t broken;	  /* the NAK that ended it; 0: none */

	struct roce_saved *saved; /* ring of max_saved, owned by the caller */
	unsigned n_saved, last_saved;
	struct roce_saved *owed; /* FIFO of 2 * max_saved, owned by the caller */
	unsigned owed_first, n_owed;
	uint32_t owed_packet; /* of the first one: the next to be sent */
	bool owes_answer;
	uint32_t answer_psn;
	uint8_t answer;
	uint64_t n_duplicates, n_gaps, n_refused;
	uint64_t n_dropped; /* UC: messages that had begun, or were refused */
};

/* The answers that the caller fetches. A READ's payload is [va, va + payload_bytes) by rkey;
 * of XRC, in the protection domain of the SRQ packet.srqn. */
struct roce_answer {
	struct roce_packet packet; /* dest_qpn and payload are the caller's */
	uint64_t va;
	uint32_t rkey;
};

/* ring: max_dest_rd_atomic, or 1 if that is 0, times 3 entries, the caller's until the end. */
void roce_responder_init(struct roce_responder *r, uint32_t mtu, uint32_t first_psn,
			 unsigned max_dest_rd_atomic, uint8_t rnr_timer, struct roce_saved *ring);
static inline unsigned roce_responder_ring(unsigned max_dest_rd_atomic)
{
	return 3 * (max_dest_rd_atomic ? max_dest_rd_atomic : 1);
}

/* A request: an RC packet without ROCE_IS_RESPONSE. */
void roce_responder_receive(struct roce_responder *r, const struct roce_packet *p,
			    const struct roce_host *host, void *context);

/* Whether an opcode may come now: IBA 9.7.4.1.2, 9.8.3.1. */
bool roce_responder_is_in_order(const struct roce_responder *r, uint8_t opcode);
/* Carries out a packet of a SEND or WRITE that is in order. */
enum roce_verdict roce_responder_message(struct roce_responder *r, const struct roce_packet *p,
					 const struct roce_host *host, void *context);
