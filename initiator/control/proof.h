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

struct volume;

/* Of a predecessor; the rules of moves: proof.c. */
enum predecessor_state {
	PREDECESSOR_NEW,     /* no controller was asked since the last one became live */
	PREDECESSOR_ASKING,  /* its reset is requested */
	PREDECESSOR_LATER,   /* to be requested again, at look_ns */
	PREDECESSOR_DYING,   /* its reset goes on; the log page is read at look_ns */
	PREDECESSOR_READING, /* the log page is being read */
	PREDECESSOR_REFUSED, /* only time can prove it */
};

struct predecessor {
	struct proof_subject subject;
	uint32_t serial;
	uint64_t lost_ns; /* at the latest; the hold counts from here */
	unsigned state;	  /* enum predecessor_state */
	uint64_t look_ns, delay_ns;
};

/* Of a volume. */
struct proof {
	struct predecessor predecessors[UNPROVEN_MAX];
	unsigned n;
	struct proof_subject current; /* of the association that is live, or was last */
	uint32_t serial;	      /* of it */
	struct controller *source;    /* borrowed: live, and asked; NULL: none */
	bool has_question;	      /* source has not answered yet */
	bool may_change;	      /* changes may have been sent in the current association */
	bool has_file;		      /* state_file names predecessors */
	struct loop_timer timer;
	uint64_t since_ns; /* when the first of the predecessors was lost */
	uint64_t n_by[FENCING_WAYS];
	enum fencing_way last_way;
};

/* Before the first attempt: predecessors of a process before this one. */
void proof_begin(struct volume *volume);
/* The association is live, and no queue of it is connected. */
void proof_on_live(struct volume *volume);
/* It is lost, and its queues are not stopped yet. */
void proof_on_lost(struct volume *volume);
/* All I/O is about to fail, also what waits for proof. */
void proof_abandon(struct volume *volume);
/* The volume closes; no I/O is outstanding. */
void proof_end(struct volume *volume);
void proof_get(const struct volume *volume, struct volume_fencing *ret_fencing);

/* ---- proof_file.c ---- */

/* Reads volume->config.state_file into volume->proof; adds nothing if it is another volume's. */
void proof_file_read(struct volume *volume);
/* The predecessors, and the current association as one of the next process. */
void proof_file_write(struct volume *volume);
void proof_file_remove(struct volume *volume);
