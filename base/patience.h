/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The polling policy of a loop: how long it polls before it sleeps. Pure: time is an argument. The
 * owner is a loop (loop.c), and all calls come from its thread; none allocates or fails.
 *
 * A pause is the time from the first poll that finds nothing to the next one that finds an item,
 * such as a completion or a message. A loop that polls ends a pause at once. A loop that sleeps
 * ends it one wake-up later, W, which is measured (wake_up.h). A pause of at most 20 W is near: a
 * sleep would lengthen it by more than a twentieth. The loop keeps the share of its pauses that
 * were near, and more than half of them decide. It keeps the share apart for pauses with something
 * in flight, which end with an answer, and for those without, in which it waits for new work.
 *
 *   threads wait for a CPU (crowd.h)  not at all. A loop that sleeps finds several items when it
 *                                     wakes, and spends less on each than one that polls.
 *   no CPU is idle, and the clients   only for a lone answer, and 10 us: then there is nothing that
 *   are programs of this machine      could come together. A client needs a CPU to go on.
 *   otherwise                         near: for 20 W; otherwise for W
 *
 * So a wrong forecast costs W at most: of CPU time if the loop polls, of latency if it sleeps. W is
 * taken off a pause in which the loop slept, and the mean of a few long pauses does not hide many
 * short ones.
 *
 * SPIN_ALWAYS polls without end where no thread waits for a CPU, once new looks have found that.
 * Elsewhere it would use up its time slice, or its peer's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/crowd.h"
#include "base/spin.h"

enum {
	/* The share that a wrong forecast may cost: a twentieth. */
	PATIENCE_SHARE = 20,
	/* Shares are in thousandths. A pause is 1/8 of one, so four change a sure forecast. */
	PATIENCE_ONE = 1000,
	PATIENCE_WEIGHT = 8,
	/* From one look for a crowd to the next: about a time slice of the scheduler. Two looks
	 * within one slice see the same. */
	PATIENCE_LOOK_NS = 2 * 1000 * 1000,
	/* From one that was left out to the next. */
	PATIENCE_RETRY_NS = PATIENCE_LOOK_NS / 16,
	/* A verdict needs about CROWD_WEIGHT looks. */
	PATIENCE_VERDICT_NS = CROWD_WEIGHT * PATIENCE_LOOK_NS,
	/* For a lone answer: the least wake-up there is (wake_up.c). */
	PATIENCE_LONE_NS = 10 * 1000,
};

/* A verdict holds for 20 times as long as it takes. */
#define PATIENCE_CROWDED_NS ((uint64_t)PATIENCE_SHARE * PATIENCE_VERDICT_NS)

/* How a pause will end: by new work, or by an answer to one of n that are in flight. */
struct patience_pause {
	unsigned n_in_flight;
	bool is_local; /* the loop's clients are programs of this machine */
};

struct patience {
	/* Thread: the owner's */
	uint64_t spin_ns;  /* of spin.h */
	uint64_t wake_ns;  /* W; 0 where spin_ns is a time */
	unsigned near[2];  /* shares: of pauses with nothing, and with something in flight */
	uint64_t since_ns; /* when the current pause began; 0: there is none */
	struct patience_pause pause;
	bool has_slept;	    /* in the current pause */
	uint64_t polled_ns; /* the last poll of the pause since it began, or slept; 0: none */
	uint64_t look_ns;   /* when the next look for a crowd is due */
	uint64_t crowded_until_ns; /* threads waited for a CPU; no looks before it */
	uint64_t full_until_ns;	   /* no CPU was idle */
};

/* spin_ns: of spin.h. wake_ns: W (wake_up.h); 0 where spin_ns is a time. */
void patience_init(struct patience *p, uint64_t spin_ns, uint64_t wake_ns);
/* The poll at now_ns found nothing, and no pause is current: one begins. */
void patience_begin_pause(struct patience *p, uint64_t now_ns, struct patience_pause pause);
/* In a pause, the poll at now_ns found nothing: whether the owner shall now call crowd_look, and
 * pass the result to patience_looked. */
bool patience_must_look(struct patience *p, uint64_t now_ns);
/* After patience_must_look: the result of crowd_look. It is believed for a while. */
void patience_looked(struct patience *p, uint64_t now_ns, enum crowd_verdict verdict);
/* In a pause, the poll at now_ns found nothing. True: poll again; false: sleep. */
bool patience_lasts(const struct patience *p, uint64_t now_ns);
/* The owner sleeps now, in the current pause: W counts against it. */
void patience_sleeps(struct patience *p);
/* The poll at now_ns found an item, or a file descriptor woke the loop: the pause ends. */
void patience_found(struct patience *p, uint64_t now_ns);
