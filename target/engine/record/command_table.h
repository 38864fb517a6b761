/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of commands that rblkd serves: one constant struct nvme_command for each. The engine
 * knows the struct and not the commands. The floors above register their entries at start, and the
 * engine finds an entry by its opcode. An entry has all that depends on the opcode: when the host
 * may send the command, its parser, the guard's rules, rates, counters, Identify, the effects log,
 * and the name in the log of rblkd.
 */
#pragma once

#include <stdbool.h>

#include "base/bits.h"
#include "target/engine/record/request_state.h"
#include "target/export/guard/pass.h"
#include "transport/wire/nvme.h"

struct namespace;
struct request;

/* A queue serves Fabrics commands, and either admin or I/O commands. */
enum command_set {
	COMMANDS_ADMIN,
	COMMANDS_IO,
	COMMANDS_FABRICS, /* by FCTYPE, because they share one opcode */
	COMMAND_SETS,
};

enum command_flag {
	/* Without these a command needs a controller, a proven host and a ready controller. */
	COMMAND_BEFORE_CONNECT = 1 << 0,
	COMMAND_BEFORE_PROOF = 1 << 1,
	COMMAND_BEFORE_READY = 1 << 2,
	COMMAND_EARLY = COMMAND_BEFORE_CONNECT | COMMAND_BEFORE_PROOF | COMMAND_BEFORE_READY,
	/* Halves of a fused pair (Base 2.0, 3.4.2). The second has join and place. */
	COMMAND_FUSED_FIRST = 1 << 3,
	COMMAND_FUSED_SECOND = 1 << 4,
	/* SLBA in dwords 10 and 11, NLB in dword 12. */
	COMMAND_HAS_RANGE = 1 << 5,
	/* Uncorrectable blocks become valid when the command writes them. */
	COMMAND_HEALS = 1 << 6,
	/* A success adds to these: commands and blocks of SMART (NVM Command Set 1.0, 4.1.4.2), and
	 * the counters of the queue. */
	COMMAND_COUNTS_READ = 1 << 7,
	COMMAND_COUNTS_READ_BLOCKS = 1 << 8,
	COMMAND_COUNTS_WRITE = 1 << 9,
	COMMAND_COUNTS_WRITTEN_BLOCKS = 1 << 10,
	COMMAND_COUNTS_IN_QUEUE = 1 << 11,
};

/* The price under a rate (throttle.h). Bytes are those of the command's range. */
enum command_cost {
	COST_NOTHING,
	COST_OPERATION,
	COST_READ,  /* an operation, and bytes read */
	COST_WRITE, /* an operation, and bytes written */
};

struct nvme_command {
	/* Poller of the queue. Checks the command. NVME_OK: the parser has set direction, length
	 * and what else the execution needs. Any other status is the answer. */
	enum nvme_status (*parse)(struct request *r);
	/* Poller of the queue. Executes it, and returns the next state. NULL: parse sets
	 * r->execute. */
	enum request_state (*execute)(struct request *r);
	const char *name; /* as in the specification */
	uint8_t opcode;	  /* or FCTYPE */
	enum access access;
	enum command_cost cost;
	unsigned flags;	   /* of enum command_flag */
	uint32_t effects;  /* of enum nvme_effect: log page 05h */
	uint16_t optional; /* its bit of ONCS (I/O commands) or OACS (admin commands) */
	/* Poller. Whether a controller with this namespace reports the bit. NULL: always. */
	bool (*is_offered)(const struct namespace *ns);
	/* For the second of a fused pair, after its parser. NVME_OK: it fits r->pair, and r
	 * describes both. */
	enum nvme_status (*join)(struct request *r);
	/* For the second of a fused pair, once it has a buffer: divides the buffer, and takes over
	 * the data that came with r->pair. */
	void (*place)(struct request *r);
};

/* Main thread, before the first poller runs. The caller's entries are never freed. Two entries of
 * one opcode are a defect of rblkd. */
void command_register(enum command_set set, const struct nvme_command *const *commands, unsigned n);

/* Any thread, and signal handlers. Never NULL: the entry of an unregistered opcode has no name, and
 * its parser returns Invalid Command Opcode. */
const struct nvme_command *command_of(enum command_set set, uint8_t opcode);
/* The whole table of a set, by opcode. */
const struct nvme_command *const *command_table(enum command_set set);
/* For a command of a queue with this table: the entry, as command_of. */
static inline const struct nvme_command *command_find(const struct nvme_command *const *table,
						      const struct nvme_sqe *sqe)
{
	/* FCTYPE is where other commands have the lowest byte of the NSID. */
	if (UNLIKELY(sqe->opcode == NVME_FABRICS))
		return command_of(COMMANDS_FABRICS, sqe->nsid.b[0]);
	return table[sqe->opcode];
}

/* A parser for commands that have no data and need no check. */
enum nvme_status command_parse_nothing(struct request *r);
