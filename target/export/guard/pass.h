/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Passes: each command at a namespace has one, from its parser until it touches the medium no more.
 * guard.c describes what a pass goes through.
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

/* What guards call of the floor above. */
struct guard_ops {
	/* Poller of the pass, never from inside a guard's function. */
	void (*on_turn)(struct pass *pass); /* the command has the turn (guard_take_turn) */
	void (*on_free)(
		struct pass *pass); /* the owner of its range is done: it is parked no more */
	/* Poller of the pass. A visit is about to wait for the command: true if the command ends
	 * instead; then its pass has ended. */
	bool (*give_up)(struct pass *pass);
	/* Any thread. */
	const uint8_t *(*hostid)(struct guard_client *client);
	unsigned (*n_pollers)(struct guard_client *client);
	struct loop *(*loop_of)(struct guard_client *client, unsigned poller);
	/* That poller. The visit of the client's command waits for commands of this poller, or
	 * does so no more. A host that stalls them is to be watched. */
	void (*on_blocked)(struct guard_client *client, unsigned poller, bool is_blocked);
};

/* The user of guards that a pass belongs to: in rblkd a queue. */
struct guard_client {
	/* Thread: never changes */
	const struct guard_ops *ops;
	unsigned poller;		 /* its index */
	struct loop *loop;		 /* of that poller */
	struct backend_thread *backends; /* of that poller */
};

enum access {
	ACCESS_NONE,
	ACCESS_READ,
	ACCESS_WRITE,  /* changes what is on the medium */
	ACCESS_SETTLE, /* makes it durable: a reservation has the rules of ACCESS_WRITE for it */
};

struct pass {
	/* Thread: poller */
	struct list node; /* guard->locals[].passes, from its first turn of the loop on */
	struct guard_client *client; /* it and is_command never change */
	bool is_command;	     /* else of a response whose data is on its way */
	struct list wait;	     /* guard->locals[].parked, or guard->turns */
	/* From here on pass_move copies all at once */
	struct guard *guard;
	struct guard_local *local; /* its poller's part of that */
	uint64_t slba, n_blocks;   /* what it touches; all of it with UINT64_MAX */
	enum access access;
	bool is_inside;	 /* may touch the medium */
	bool is_awaited; /* a visit waits until it leaves */
};

/* ---- poller of the command ---------------------------------------------------------------- */

void pass_init(struct pass *pass, struct guard_client *client, bool is_command);
/* The command is there, outside. It must be shown before the loop's turn ends. */
void pass_begin(struct pass *pass, struct guard *guard);
/* From now on visits see it. Accepts one that has not begun, or is shown. */
void pass_show(struct pass *pass);
/* It leaves the medium, but may come back (its turn). Accepts one that never entered. */
void pass_leave(struct pass *pass);
/* It is gone. Accepts a zeroed one. */
void pass_end(struct pass *pass);
/* What touches the medium lives on in another place, of the same queue, and is shown. */
void pass_move(struct pass *to, struct pass *from);
