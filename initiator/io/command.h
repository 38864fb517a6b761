/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The commands of a lane: a fixed table, each slot with its piece of registered
 * memory for the submission queue entry. A command identifier has the slot in its low bits,
 * and above them a generation that counts up with each use, so that a late or invented answer
 * is recognised (I3).
 */
#pragma once

#include <stdatomic.h>

#include "base/list.h"
#include "base/states.h"
#include "initiator/io/volume_io.h"
#include "transport/qp.h"
#include "transport/window.h"
#include "transport/wire/fabrics.h"

struct lane;

enum {
	/* of a queue: they linger until their SEND is known to be done (command.c) */
	COMMANDS_PER_ENTRY = 2,
};

/* As it lies in registered memory: a capsule, when the short data goes in it. */
struct command_capsule {
	struct nvme_sqe sqe;
	struct nvme_dsm_range range;
	uint8_t pad[48];
};
static_assert(sizeof(struct command_capsule) == 128, "two cache lines");

/*
 *     FREE ---> IN_FLIGHT ---> ANSWERED ---> FREE
 *                               |    ^
 *                               v    |
 *                              REVOKING
 */
enum command_state {
	COMMAND_FREE,	   /* or being filled by the step that runs now */
	COMMAND_IN_FLIGHT, /* sent, no answer yet */
	COMMAND_ANSWERED,  /* or its queue pair is dead; it lingers while the device has the SEND */
	COMMAND_REVOKING,  /* answered, but the target left the key to us: being invalidated */
};

/* The others that may touch the I/O's buffer, besides the loop. */
enum command_data {
	COMMAND_DATA_REMOTE, /* the target, by the key of the whole slab; or there is no data */
	COMMAND_DATA_SENT,   /* the SEND reads it: the I/O is not done before the SEND is */
	COMMAND_DATA_LENT,   /* the target, by the key of `window`, until it has answered */
};

struct command {
	/* Thread: I/O loop */
	struct work send;
	struct lane *lane;
	struct command_table *table;
	struct list node;     /* in table->in_flight, in the order of sending */
	struct volume_io *io; /* NULL: the Connect */
	struct command_capsule *capsule;
	uint64_t start_ns;
	uint64_t n_bytes; /* of the I/O that this command does */
	uint16_t cid;	  /* of this use, or of the last one */
	/* The device still has the SEND. No state: its end may be learnt before the answer, or long
	 * after it. */
	bool is_sending;
	enum command_state state;
	uint8_t data;	      /* enum command_data */
	bool is_timed;	      /* choose.c wants to know how long it takes */
	bool is_second;	      /* of a pair: the Write */
	struct command *pair; /* of a Compare and Write: the other half; NULL: it is alone */
	enum nvme_status status;
	/* With windows: the key that the target has for the data of this command, and no longer. */
	struct window window;
	struct work revoke;
};

struct command_table {
	/* Thread: I/O loop; made and freed by control */
	struct command *commands; /* owned: n */
	uint16_t *free;		  /* owned: stack of slots */
	unsigned n, n_free, n_in_flight;
	_Atomic uint64_t n_answered; /* so far; written by the I/O loop, control reads */
	unsigned n_lent;
	uint16_t n_slots; /* n, rounded up to a power of 2: added for a new generation */
	struct list in_flight;
	uint8_t *memory; /* owned mapping: n capsules, then the Connect data */
	size_t memory_bytes;
	struct nvmf_connect_data *connect_data;
	struct mr mr; /* of memory, for this association */
};

/* Registered memory of a table of n. */
size_t command_table_bytes(unsigned n);
/* 0 or -ENOMEM. */
int command_table_init(struct command_table *table, struct lane *lane, unsigned n);
void command_table_deinit(struct command_table *table);

extern const struct state_rule command_rules[];

static inline void command_move(struct command *command, enum command_state next)
{
	states_move("command", command_rules, &command->state, next);
}

static inline uint64_t command_n_answered(const struct command_table *table)
{
	return atomic_load_explicit(&table->n_answered, memory_order_relaxed);
}

/* A free command, its capsule zeroed but for the identifier; NULL when there is none. */
struct command *command_take(struct command_table *table);
/* Puts it among those in flight. */
void command_start(struct command_table *table, struct command *command, uint64_t now_ns);
/* Takes it out again: the answer came, or the queue pair is dead. */
void command_stop(struct command_table *table, struct command *command);
/* The device and the target are done with the data. */
static inline bool command_is_idle(const struct command *command)
{
	return command->state == COMMAND_ANSWERED &&
	       !(command->is_sending && command->data == COMMAND_DATA_SENT);
}

/* Two commands for a fused pair, with their flags. */
void command_take_pair(struct command_table *table, struct command *ret_pair[2]);
/* In flight, of a dead queue pair: gives it back, and its other half. */
void command_lose(struct command *command);
/* Answered, and not being sent. */
void command_give(struct command_table *table, struct command *command);
/* send.done of a command without an I/O: gives it back if it was answered before. */
void command_on_sent(struct work *work, const struct completion *c);
/* The command in flight with this identifier; NULL for anything else. */
struct command *command_find(struct command_table *table, uint16_t cid);
