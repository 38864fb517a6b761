/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A requester and a responder of RoCE with a wire between them that loses, repeats and exchanges
 * packets, and a clock that moves from one event to the next. Every packet crosses the wire as
 * bytes with its checksum.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "softrdma/fabric/roce/host.h"
#include "softrdma/fabric/roce/icrc.h"
#include "softrdma/fabric/roce/psn.h"
#include "softrdma/fabric/roce/requester.h"
#include "softrdma/fabric/roce/responder.h"

enum {
	MTU = 256,
	MEMORY = 256 << 10,
	RING = 64,
	RECEIVES = 64,
	RECEIVE_BYTES = 4096,
	WIRE = 512,
	WORLDS = 2, /* that exist at a time */
	MAX_RD = 4,
	KEY = 0x1234,
	SEND_AREA = 64 << 10, /* of the requester's memory, what its SENDs and WRITEs hold */
	READ_AREA = 128 << 10,
};

#define RTT_NS	   20000u
#define TIMEOUT_NS 67108864u /* 4.096 us * 2^14 */
#define RNR_NS	   1000000u

enum fault {
	DROP,
	REPEAT,
	EXCHANGE, /* with the next packet of its direction */
	LATE,	  /* arrives after all that follow it before the timer */
	CORRUPT,
	N_FAULTS
};

struct datagram {
	uint8_t bytes[MTU + ROCE_HEADERS_MAX + ROCE_ICRC_BYTES];
	size_t n;
	uint64_t at;
	int to_responder;
};

/* Both ends, the wire, and what they have done. */
struct world {
	struct roce_requester q;
	struct roce_request ring[RING];
	struct roce_responder r;
	struct roce_saved saved[3 * MAX_RD];
	uint64_t now;
	unsigned n_wire, n_sent;
	struct {
		unsigned packet;
		enum fault fault;
	} faults[2];
	unsigned n_faults;
	unsigned drop_from, drop_to; /* packets of this range are lost */
	unsigned random;	     /* per mille, of each kind */
	uint64_t seed;

	unsigned n_posted_receives, n_received;
	uint32_t received[RECEIVES], received_bytes[RECEIVES], received_imm[RECEIVES];
	unsigned n_atomics, n_local;
	unsigned completed;
	enum roce_failure failure;
	uint64_t n_wr;
	uint64_t originals[RING];
	uint64_t window;
	uint32_t arrived[WIRE]; /* of an unreliable one: the numbers of the packets */
	unsigned n_arrived;

	struct datagram wire[WIRE];	      /* ordered by time */
	uint8_t mine[MEMORY], theirs[MEMORY]; /* of the requester and of the responder */
	uint8_t inbox[RECEIVES * RECEIVE_BYTES];
};

extern const struct roce_host world_host;

/* Fills the pattern of both memories; before all others. */
int world_prepare(void **state);
/* One of the few that there are; psn: where the requester begins. */
struct world *new_world(uint32_t psn);
void end_world(struct world *w);
/* Before anything is posted: the connection is an unreliable one. */
void make_lossy(struct world *w);
void post(struct world *w, struct roce_request q);
/* Sends what may be sent, and counts what is done. */
void pump_requester(struct world *w);
/* The next thing that happens. False: nothing will. */
bool step(struct world *w);
/* Runs to the end, and no longer than a patient user would wait. */
void run(struct world *w);
