/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Passes: the place of a command at the guard of its namespace. A command has one from its parser
 * until it last touches the medium. guard.c describes the states of a pass. Owner: the request or
 * response that embeds it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct backend_thread;
struct guard;
struct guard_client;
struct guard_local;
struct loop;
struct pass;

/* Calls of guards to the floor above. */
struct guard_ops {
	/* Poller of the pass, never from inside a guard's function. */
	void (*on_turn)(struct pass *pass); /* the command has the turn (guard_take_turn) */
	/* The owner of its range is done: the command is no longer parked. */
	void (*on_free)(struct pass *pass);
	/* Poller of the pass. A visit is about to wait for the command. True: the command ends
	 * instead, and so has its pass. */
	bool (*give_up)(struct pass *pass);
	/* Any thread. */
	const uint8_t *(*hostid)(struct guard_client *client);
	unsigned (*n_pollers)(struct guard_client *client);
	struct loop *(*loop_of)(struct guard_client *client, unsigned poller);
	/* On that poller. The visit of the client's command waits for commands of this poller, or
	 * no longer does. The client watches for hosts that stall them. */
	void (*on_blocked)(struct guard_client *client, unsigned poller, bool is_blocked);
};

/* The user of guards that a pass belongs to: in rblkd, a queue. */
struct guard_client {
	/* Thread: never changes */
	const struct guard_ops *ops;
	unsigned poller;		 /* index of its poller */
	struct loop *loop;		 /* of that poller */
	struct backend_thread *backends; /* of that poller */
	/* Set once, before the first pass: compared, never followed. */
	const void *host, *association;
};

enum access {
	ACCESS_NONE,
	ACCESS_READ,
	ACCESS_WRITE,  /* changes the data on the medium */
	ACCESS_SETTLE, /* makes data durable: under a reservation, as ACCESS_WRITE */
};

struct pass {
	/* Thread: poller */
	struct list node;	     /* guard->locals[].passes, once it has waited */
	struct guard_client *client; /* like is_command, never changes */
	bool is_command;	     /* otherwise of a response whose data is being sent */
	struct list aged_node;	     /* guard->aged, while is_aged; under its lock */
	struct list wait;	     /* guard->locals[].parked, or guard->turns */
	/* pass_move copies all fields from here on. */
	struct guard *guard;
	struct guard_local *local; /* its poller's part of the guard */
	uint64_t slba, n_blocks;   /* what it touches; UINT64_MAX: all of it */
	enum access access;
	bool is_inside;	 /* admitted: may touch the medium */
	bool is_awaited; /* a visit waits until it leaves */
	bool is_aged;	 /* a store has it for long: guard_add_aged */
};

/* Whether the command touches one of these blocks; UINT64_MAX: all of them. */
static inline bool pass_overlaps(const struct pass *pass, uint64_t slba, uint64_t n_blocks)
{
	/* With UINT64_MAX a range is the whole namespace; other sums cannot overflow. */
	if (pass->n_blocks == UINT64_MAX || n_blocks == UINT64_MAX)
		return pass->n_blocks && n_blocks;
	return pass->slba < slba + n_blocks && slba < pass->slba + pass->n_blocks;
}
