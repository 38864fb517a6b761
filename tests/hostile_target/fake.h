/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A target for testing the initiator: NVMe over RDMA on raw verbs, namespaces in memory. It shares
 * no code with the rest of the tree and uses byte offsets: a second reading of the specification.
 * It follows the protocol and checks the host, unless a rule makes it misbehave. One thread:
 *   fake_target [OPTION=VALUE...] [EVENT[:N]=ACTION[,ARGUMENT]...]
 */
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>

#include "tests/hostile_target/octets.h"
#include "tests/hostile_target/rules.h"

enum {
	SQE_BYTES = 64,
	CQE_BYTES = 16,
	DATA_BYTES = 4096, /* of a slot, for everything but reads and writes */
	MAX_CONNS = 128,
};

struct options {
	unsigned port;
	unsigned block_size, mdts, icd, mqes, maxcmd, crqsize, queues, aocs, told;
	uint64_t blocks;
	unsigned cntlid;				      /* the first */
	unsigned nsid, wzsl, dmrsl, ccr, cqt, cycles, unsafe; /* enum resets; ms; of SMART */
	unsigned fua;		/* what each change must have: 0: either, 1: FUA, 2: none */
	unsigned compare;	/* blocks of a Compare and Write; 0: has none */
	const char *nqn, *host; /* host: the only one allowed; NULL: any */
	unsigned uuid_seed, seed, ana, ana_groups; /* ana: state of the last */
	unsigned entries;			   /* of the discovery log */
	unsigned shrinks;  /* at which read discovery and ANA log become short; 0: never */
	unsigned restless; /* 1: they change at each read of the header */
	unsigned claims;   /* records that the discovery log says it has; 0: as it has */
	unsigned chatty;   /* 1: discovery notifies without end */
	bool has_cns6, read_only, no_vwc, is_impostor;
};

/* One receive: holds a command from its arrival until its response was sent. */
struct slot {
	struct conn *conn;
	uint8_t *capsule; /* SQE, then in-capsule data */
	uint8_t *data;	  /* DATA_BYTES */
	uint32_t n_received;
	bool is_busy, is_posted_late; /* late: the receive waits until the data was sent */
	enum event event;
	const struct rule *rule; /* or NULL */
	uint64_t answer_at_ns;	 /* late: when; 0 */
	uint16_t status;
	uint64_t result;
	uint32_t n_out; /* data to the host; out is where it lies */
	const uint8_t *out;
	struct slot *pair; /* the other half, once it is here */
	bool has_data;	   /* of a half: it lies in data */
};

struct conn {
	struct rdma_cm_id *id;
	unsigned index, qid, n_sq, n_slots, n_in_flight, sqhd;
	uint16_t cntlid; /* 0: no Connect yet */
	bool is_discovery;
	uint32_t cc;
	struct slot *aer;	     /* the Asynchronous Event Request that is outstanding; NULL */
	uint8_t *memory, *busy_cids; /* busy_cids: bitmap */
	struct ibv_mr *mr;
	struct slot *slots, *first; /* first: a Compare whose Write must be next */
	uint32_t n_recv_bytes;
	bool is_dead;
};

extern struct options opt;
extern uint8_t *ram;

/* verbs.c */
int fabric_listen(void);
int fabric_run(void);					   /* until stdin ends; the exit code */
void fabric_read(struct slot *slot, void *to, uint32_t n); /* then command_have_data */
void fabric_answer(struct slot *slot);
void fabric_disconnect(struct conn *conn);
void fabric_disconnect_all(void);
struct conn *fabric_conn(unsigned index); /* NULL past the last */

/* command.c */
void command_begin(void);
void command_start(struct slot *slot);
void command_have_data(struct slot *slot);
/* Answers with this status, or as the command's rule says. */
void command_done(struct slot *slot, unsigned status);
void command_answer(struct slot *slot, unsigned status, uint64_t result); /* likewise */
void command_line(char *line); /* a line of stdin: the listed commands */
