/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The requesting half of a connection: work requests become numbered packets, answers become
 * completions (IBA volume 1, 9.7.3 to 9.7.8; an unreliable one has no answers, 9.8). Pure: it knows
 * no sockets, no memory of the application and no clock. The caller holds the queue pair's lock,
 * asks for the next packet to send, hands in each response with the time, and is told when to come
 * back.
 *
 *      done | acknowledged in part or not, sent | sent again after a loss | not sent
 *      ^ tail                       ^ acked (una)         ^ current (next)        ^ head
 *
 * Go-back-N: after a loss everything from `una` on is sent again. Four things set it back: a NAK,
 * a response that only a lost one explains (implied NAK), the transport's timer, and a probe, which
 * is the same much earlier and counts no retry. One loss sets it back once.
 *
 * READs are cut into requests of at most ROCE_READ_BYTES, so that the requester limits what is on
 * its way to it. Their numbers do not change by that: each packet of the response has one.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "softrdma/fabric/roce/packet.h"
#include "softrdma/fabric/roce/request.h"

enum {
	ROCE_READ_BYTES = 32 << 10,
	ROCE_PACKET_COST =
		256, /* a packet occupies so much of a receiver's buffer besides itself */
	ROCE_WINDOW_PSNS = 1024, /* unacknowledged, at most */
	ROCE_ACK_EVERY = 16,	 /* packets that ask for no acknowledgement, at most */
	ROCE_RETRY_FOREVER = 7,	 /* of rnr_retry */
};

#define ROCE_PROBE_MIN_NS 5000000ULL	/* 5 ms */
#define ROCE_PROBE_MAX_NS 1000000000ULL /* 1 s */

/* From a queue pair's attributes. */
struct roce_requester_config {
	bool is_lossy; /* UC: a packet is done when it is sent, and nothing answers it */
	uint32_t mtu;  /* bytes */
	uint32_t first_psn;
	unsigned max_rd_atomic;
	unsigned retries;     /* 0..7 */
	unsigned rnr_retries; /* 0..6, or ROCE_RETRY_FOREVER */
	uint64_t timeout_ns;  /* 0: never */
};

struct roce_requester {
	struct roce_requester_config config;
	struct roce_request *ring; /* owned by the caller; mask + 1 of them */
	uint32_t mask;
	uint64_t tail, acked, current, begun, head; /* indices of requests; see above */
	uint32_t una, next, end;		    /* PSNs: end follows the last one ever sent */
	uint32_t posted_psn;			    /* of the next request to be posted */
	unsigned n_reads;			    /* READs and atomics under way */
	unsigned since_ack_request;
	uint64_t in_flight; /* bytes, with ROCE_PACKET_COST each: sent and not acknowledged */
	bool is_set_back;   /* since `una` last moved */
	unsigned n_tries, n_rnr_tries;
	unsigned n_probes;
	uint64_t rnr_until;	   /* 0: not waiting */
	uint64_t due_ns, probe_ns; /* deadlines; 0: none */
	uint64_t srtt_ns;	   /* 0: not measured */
	uint32_t sample_psn;
	uint64_t sample_ns; /* 0: no sample is under way */
	uint64_t n_losses;  /* set back for whatever reason: the window's signal */
	uint64_t n_resent;
	enum roce_failure failure; /* of the request at tail; then nothing moves any more */
};

/* One packet to send: the headers, and which bytes of which request are its payload. */
struct roce_out {
	struct roce_packet
		packet;	 /* payload NULL; payload_bytes is set. dest_qpn is the caller's */
	uint64_t index;	 /* of the request */
	uint32_t offset; /* in its data */
	bool is_local;	 /* a ROCE_LOCAL to be executed now, and no packet */
};

void roce_requester_init(struct roce_requester *r, const struct roce_requester_config *config,
			 struct roce_request *ring, uint32_t mask);
/* Copies the request; its index is the count of those posted before. The ring has room. */
void roce_requester_post(struct roce_requester *r, const struct roce_request *request);

/* Why there is nothing to send. */
enum roce_pause {
	ROCE_GO, /* *ret is to be sent */
	ROCE_IDLE,
	ROCE_WAITS, /* for a response or a timer */
	ROCE_FULL,  /* for room: the window of the peer */
};

/*
 * The next packet, as if it was sent at `now`. room: bytes that the window has left; with nothing
 * of this queue pair in flight, one packet goes in any case. For UC it is what may leave now, and
 * binds always.
 */
enum roce_pause roce_requester_next(struct roce_requester *r, uint64_t now, uint64_t room,
				    struct roce_out *ret);

/* The effect of a response. */
enum roce_effect {
	ROCE_IGNORED,
	ROCE_PROGRESS,	   /* look at roce_requester_pop() and roce_requester_next() */
	ROCE_PLACE,	   /* the payload belongs to request `index` at `offset`; then _placed() */
	ROCE_PLACE_ATOMIC, /* packet.original does; then _placed() */
};

struct roce_placement {
	uint64_t index;
	uint32_t offset;
};

/* Whether packet i of a READ or atomic is the last that one request on the wire asks for. */
bool roce_ends_chunk(const struct roce_requester *r, const struct roce_request *q, uint32_t i);
/* The cost of n packets from the i-th on, in a window. */
uint64_t roce_cost(const struct roce_requester *r, const struct roce_request *q, uint32_t i,
		   uint32_t n);
uint64_t roce_probe_interval(const struct roce_requester *r);
/* Both timers anew, or none if nothing is under way. */
void roce_requester_start_timers(struct roce_requester *r, uint64_t now);
/* Moves `acked` over the requests that are done. */
void roce_requester_settle(struct roce_requester *r);
