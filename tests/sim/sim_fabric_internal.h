/* SPDX-License-Identifier: BSD-3-Clause */
/* What sim_fabric.c (queue pairs) and sim_cm.c (connections) share. */
#pragma once

#include "tests/sim/sim_fabric.h"

/* One end of a connection. */
struct side {
	enum fabric_program program;
	unsigned path;
	struct side *peer;
	struct qp *qp;	      /* borrowed from qp_init to qp_deinit */
	struct cm_conn *conn; /* owned by the program */
	struct cm *cm;	      /* borrowed */
	unsigned life;	      /* counts queue pairs that were here */
	unsigned conn_life;   /* counts connections */
	bool is_raw;	      /* a host of the test */
	bool is_broken;	      /* the queue pair sends and takes nothing more */
	bool is_dead;	      /* its program was killed */
};

static inline struct side *side_of(const struct qp *qp)
{
	return (struct side *)(void *)qp->verbs;
}

struct device *fabric_device(void);
bool fabric_has_entries(enum fabric_program program);
uint64_t fabric_cut_until(unsigned path);
/* Drops what is on its way. */
void fabric_forget(void);
/* The queue pair breaks: its loop learns of it. */
void side_break(struct side *side, unsigned status);
/* What it has posted comes back; some of it travels on. */
void side_flush(struct side *side);
/* Its queue pair or its connection is gone. */
void side_put(struct side *side);
bool sides_are_gone(void);
