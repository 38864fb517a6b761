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

enum {
	SQE_BYTES = 64,
	CQE_BYTES = 16,
	DATA_BYTES = 4096, /* of a slot, for everything but reads and writes */
	MAX_CONNS = 128,
	MAX_RULES = 32,
};

enum event {
	EV_CM_ADMIN,
	EV_CM_IO,
	EV_CONNECT_ADMIN,
	EV_CONNECT_IO,
	EV_AUTH_SEND,
	EV_AUTH_RECEIVE,
	EV_GET_CAP,
	EV_GET_CSTS,
	EV_SET_CC,
	EV_IDENTIFY_CTRL,
	EV_IDENTIFY_LIMITS,
	EV_IDENTIFY_IDS,
	EV_IDENTIFY_NS,
	EV_IDENTIFY_LIST,
	EV_SET_QUEUES,
	EV_SET_EVENTS,
	EV_GET_LOG,
	EV_GET_SMART,
	EV_GET_BLOCKS,
	EV_GET_RESETS,
	EV_CROSS_RESET,
	EV_KEEP_ALIVE,
	EV_AER,
	EV_READ,
	EV_WRITE,
	EV_FLUSH,
	EV_ZERO,
	EV_TRIM,
	EV_N,
};

enum action {
	ACT_NONE,
	ACT_REJECT,	 /* CM: argument is the status */
	ACT_NO_PRIVATE,	 /* CM: accept without private data */
	ACT_BAD_PRIVATE, /* CM: with an unknown format */
	ACT_SILENCE,	 /* no answer, ever */
	ACT_LATE,	 /* answer after argument ms */
	ACT_DISCONNECT,
	ACT_EXIT,   /* the process dies */
	ACT_STATUS, /* answer with this status (hexadecimal, as in CQE >> 1) */
	ACT_WRONG_CID,
	ACT_OLD_CID,	      /* right slot, another generation */
	ACT_DUPLICATE,	      /* two responses */
	ACT_SHORT,	      /* a response of 8 bytes */
	ACT_INVALIDATE,	      /* SEND with invalidate, requested or not */
	ACT_INVALIDATE_OTHER, /* with the key of another command in flight */
	ACT_GARBAGE,	      /* random data */
	ACT_FATAL,	      /* CSTS.CFS */
	ACT_NOT_READY,	      /* CSTS.RDY stays 0 */
	ACT_WRITE_PAST,	      /* RDMA WRITE far outside of the host's buffer */
	ACT_N,
};

struct rule {
	enum event event;
	unsigned nth; /* 0: every time */
	enum action action;
	uint64_t argument;
};

struct options {
	unsigned port;
	unsigned block_size, mdts, icd, mqes, maxcmd, crqsize, queues, aocs, told;
	uint64_t blocks;
	unsigned cntlid;				      /* the first */
	unsigned nsid, wzsl, dmrsl, ccr, cqt, cycles, unsafe; /* enum resets; ms; of SMART */
	const char *nqn, *host;			   /* host: the only one allowed; NULL: any */
	unsigned uuid_seed, seed, ana, ana_groups; /* ana: state of the last */
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
};

struct conn {
	struct rdma_cm_id *id;
	unsigned index, qid, n_sq, n_slots, n_in_flight, sqhd;
	uint16_t cntlid;	     /* 0: no Connect yet */
	uint8_t *memory, *busy_cids; /* busy_cids: bitmap */
	struct ibv_mr *mr;
	struct slot *slots;
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
void command_forget(const struct conn *conn); /* it is about to be freed */
void command_line(char *line);		      /* a line of stdin: the listed commands */

/* rules.c */
bool rules_parse(const char *arg);
const struct rule *rules_find(enum event event);
const char *rules_event_name(enum event event);
uint64_t now_ns(void);
/* The host has violated the protocol: prints the message, and sets the exit code to 3. */
__attribute__((format(printf, 1, 2))) void violation(const char *fmt, ...);
unsigned violations(void);
