/* SPDX-License-Identifier: BSD-3-Clause */
/* A command's place at a guard: who is there, and who is inside. guard.c tells how. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct guard;
struct guard_local;
struct queue;
struct request;

enum access {
	ACCESS_NONE,
	ACCESS_READ,
	ACCESS_WRITE,  /* changes what is on the medium */
	ACCESS_SETTLE, /* makes it durable: a reservation has the rules of ACCESS_WRITE for it */
};

/* One command at a namespace, from its parsing until it touches the medium no more. */
struct pass {
	/* Thread: poller */
	struct list node;	 /* guard->locals[].passes, from its first turn of the loop on */
	struct queue *queue;	 /* it and request never change */
	struct request *request; /* NULL: of a response whose data is on its way */
	/* From here on pass_move copies all at once */
	struct guard *guard;
	struct guard_local *local; /* its poller's part of that */
	uint64_t slba, n_blocks;   /* what it touches; all of it with UINT64_MAX */
	enum access access;
	bool is_inside;	 /* may touch the medium */
	bool is_awaited; /* a visit waits until it leaves */
};

/* ---- poller of the command, but pass_init ------------------------------------------------- */

/* Control. Of a request, or of a response (request is NULL). */
void pass_init(struct pass *pass, struct queue *queue, struct request *request);
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
