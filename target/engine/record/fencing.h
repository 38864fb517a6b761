/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of a controller in keeping old writes of its host from landing after newer ones: when
 * its association expires, the instance that a Cross-Controller Reset names, and the resets of
 * other controllers that its host has requested through it (command/admin/ cross_reset.c;
 * association/cross_reset.c). Part of struct controller.
 */
#pragma once

#include "base/list.h"
#include "base/loop.h"
#include "transport/wire/nvme_cross_reset.h"

struct controller;
struct request;

enum {
	CROSS_RESETS = 4,	  /* CCRL */
	CROSS_RESET_ENTRIES = 16, /* of log page 1Eh */
	LOST_HOST_ENTRIES = 16,	  /* of log page 1Fh */
	LOST_HOST_ID_SHIFT = 16,
	LOST_HOST_CIU_SHIFT = 8,
};

/*
 *     FREE ---> ASKING ---> PENDING ---> DONE       RMC, or a reset of the source: FREE
 *      ^          |            |
 *      +----------+------------+--> FORGOTTEN       the source was reset
 */
enum cross_reset_state {
	CROSS_RESET_FREE,
	CROSS_RESET_ASKING,    /* the command is not answered yet */
	CROSS_RESET_PENDING,   /* answered; commands of the controller are still in a store */
	CROSS_RESET_DONE,      /* in the log until the host removes it */
	CROSS_RESET_FORGOTTEN, /* as PENDING, but the log no longer has it */
};

struct cross_reset {
	/* Thread: poller of the source's admin queue */
	enum cross_reset_state state;
	struct request *request;
	/* Thread: the poller sets it before the message to control */
	struct controller *source;
	uint16_t icid;
	uint8_t ciu;
	uint64_t cirn;
	/* Thread: control, from the message on until the answer, or until `over` */
	struct list node; /* fencing.watchers of the controller that is reset */
	bool is_answered;
	struct loop_timer patience;
	/* Thread: control sets it before the answer */
	enum nvme_status status;
	bool is_immediate;
	void (*on_answer)(struct loop_msg *msg); /* the poller's */
	struct loop_msg msg;			 /* the question, then the answer */
	struct loop_msg over; /* control to poller, after an answer that the reset is pending */
};

struct controller_fencing {
	/* Thread: any */
	_Atomic uint64_t noted_until; /* last_traffic + note: parse.c looks here first */
	uint64_t note;		      /* TRAFFIC_NOTE_MS in ticks; never changes */
	_Atomic uint64_t timeout;     /* KATO, rounded up, in ticks; 0: none */
	_Atomic unsigned ciu;	      /* 1 to 255 */
	_Atomic uint64_t cirn;	      /* 0: there is none */
	_Atomic uint64_t lost[LOST_HOST_ENTRIES]; /* id, CIU, count, from bits 16, 8 and 0 */
	/* Thread: control */
	struct list watchers; /* of struct cross_reset (node): their controller is this one */
	uint64_t dying_ns;    /* when it began to die; 0: it lives */
	bool was_serving;     /* then: I/O was served, so there was no orderly shutdown */
	/* Control. Runs when the question of a cross_reset arrives there. */
	void (*on_cross_reset)(struct loop_msg *msg);
	/* Thread: see there */
	struct cross_reset resets[CROSS_RESET_ENTRIES];
};

/* Whether an association whose host was last heard then is over. now may be older. Ticks. */
static inline bool fencing_is_expired(const struct controller_fencing *fencing, uint64_t last,
				      uint64_t now)
{
	uint64_t timeout = atomic_load_explicit(&fencing->timeout, memory_order_relaxed);

	return timeout && now > last && now - last > timeout;
}
