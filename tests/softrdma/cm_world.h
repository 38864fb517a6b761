/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two hosts with the connection manager's protocol machines, a network between them that loses,
 * doubles and delays what it is told to, and virtual time. Owners act after chosen delays. One
 * thread; all memory lies in struct world.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "softrdma/cm/ib_cm_table.h"

enum {
	WORLD_MAX_ENTRIES = 6,
	WORLD_MAX_FLIGHTS = 64,
	WORLD_MAX_FAULTS = 2,
	WORLD_LATENCY_US = 1000,
};

#define WORLD_MS	1000000ULL
#define WORLD_NO_ACTION UINT64_MAX

enum world_fault_kind {
	FAULT_DROP,
	FAULT_TWICE,
	FAULT_LATE,	 /* overtaken by what is sent next */
	FAULT_VERY_LATE, /* longer than timewait */
	FAULT_TWICE_VERY_LATE,
	FAULT_N_KINDS,
};

struct world_fault {
	unsigned at; /* of all messages, in the order of sending */
	enum world_fault_kind kind;
};

enum world_owner {
	OWNER_WAITS,	   /* does nothing by itself, but answers a disconnect */
	OWNER_DISCONNECTS, /* once established */
	OWNER_REJECTS,
	OWNER_ABANDONS, /* once established */
	OWNER_LEAVES,	/* abandons whatever there is when it first acts */
};

struct world_conn {
	struct ib_cm_entry entry;
	bool is_used;
	uint64_t act_at;
	unsigned n_notices[IB_CM_TIMEWAIT_OVER + 1];
	enum ib_cm_notice last_notice;
	int last_status; /* that is not 0 */
};

struct world_host {
	struct ib_cm_table table;
	struct world_conn conns[WORLD_MAX_ENTRIES];
	enum world_owner owner;
	uint64_t think_ns; /* before each action of the owner */
	uint8_t gid[16], guid[8];
	uint32_t next_id, next_qpn;
	bool is_dead; /* takes and sends nothing */
	bool is_deaf; /* to connection requests: no listener */
};

struct world_flight {
	uint64_t at, order;
	unsigned to; /* host */
	bool is_data;
	uint32_t data_id; /* local id of the connection that the data is for */
	uint8_t mad[MAD_BYTES];
};

struct world {
	uint64_t now;
	struct world_host hosts[2];
	struct world_flight flights[WORLD_MAX_FLIGHTS];
	unsigned n_flights;
	unsigned n_sent; /* messages, also the lost ones */
	struct world_fault faults[WORLD_MAX_FAULTS];
	unsigned n_faults;
	unsigned lost_from; /* all messages from this number on are lost */
	bool has_data;	    /* the active side sends data behind its RTU */
	unsigned n_by_type[MAD_DREP - MAD_FIRST + 1];
};

/* first, second: the programs that own the connections of each host. */
void world_init(struct world *w, enum world_owner first, enum world_owner second);
/* Host 0 connects to host 1. */
struct world_conn *world_connect(struct world *w);
/* Runs until nothing is left to happen, or until that time (FOREVER: no time). */
#define FOREVER UINT64_MAX
void world_run(struct world *w, uint64_t until_ns);
/* Applies what a call of the machine has returned. */
void world_apply(struct world *w, unsigned host, struct world_conn *c,
		 const struct ib_cm_result *result, const struct mad *m);
