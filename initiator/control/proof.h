/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Proof that the associations before this one are over, before what they may still do is repeated:
 * see proof.c. Control loop.
 */
#pragma once

#include "base/loop.h"
#include "initiator/control/proof_ask.h"
#include "initiator/control/volume_fencing.h"
#include "initiator/io/unproven.h"

struct path;
struct volume;

/* Of a predecessor; the rules of moves: proof.c. */
enum predecessor_state {
	PREDECESSOR_NEW,     /* there is a controller that was not asked */
	PREDECESSOR_ASKING,  /* its reset is requested */
	PREDECESSOR_LATER,   /* to be requested again, at look_ns */
	PREDECESSOR_DYING,   /* its reset goes on; the log page is read at look_ns */
	PREDECESSOR_READING, /* the log page is being read */
	PREDECESSOR_REFUSED, /* only time can prove it, or another path */
};

struct predecessor {
	struct proof_subject subject;
	uint32_t serial;
	uint64_t lost_ns; /* at the latest; the hold counts from here */
	enum predecessor_state state;
	uint64_t look_ns, delay_ns;
	struct path *source; /* borrowed: was asked last; NULL: none */
	unsigned refused_by; /* a bit for each path whose controller does not help */
};

/* Of a volume. */
struct proof {
	struct predecessor predecessors[UNPROVEN_MAX];
	unsigned n;
	uint32_t serial;    /* of the youngest association */
	struct path *asked; /* borrowed: live, and has not answered; NULL: no question is out */
	bool has_file;	    /* state_file names predecessors */
	struct loop_timer timer;
	uint64_t since_ns; /* when the first of the predecessors was lost */
	uint64_t n_by[FENCING_WAYS];
	enum fencing_way last_way;
};

/* Before the first attempt: predecessors of a process before this one. */
void proof_begin(struct volume *volume);
/* The path is live, and no lane of it is connected. */
void proof_on_live(struct path *path);
/* It is lost, and its lanes are not stopped yet. */
void proof_on_lost(struct path *path);
/* Its last lane is gone. One that was removed with nothing in flight is over. */
void proof_on_idle(struct path *path);
/* An administrator vouches: what was lost by this address can change nothing any more. */
void proof_vouch(struct volume *volume, const union addr *address);
/* All I/O is about to fail, also what waits for proof. */
void proof_abandon(struct volume *volume);
/* The volume closes; no I/O is outstanding. */
void proof_end(struct volume *volume);
/* Whether time alone proves it, and when (clock_ns). */
bool proof_has_time(const struct predecessor *predecessor);
uint64_t proof_over_ns(const struct predecessor *predecessor);
/* The live path whose controller can be asked about it; NULL: there is none. */
struct path *proof_source_for(const struct volume *volume, const struct predecessor *predecessor);
/* Whether an association by this address is among them. */
bool proof_awaits(const struct volume *volume, const union addr *address);
