/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections with other machines: the connection manager's messages as MADs on queue pair 1.
 * Everything is called under sr_cm_lock, unless a line says otherwise.
 */
#pragma once

#include "softrdma/cm/cm_way.h"
#include "softrdma/cm/half_open.h"
#include "softrdma/cm/ib_cm_table.h"
#include "softrdma/fabric/roce/gsi.h"
#include "softrdma/process/timer.h"

struct sr_cm_id;

/* A connection as the peers know it; it outlives its id until its ids may be used again. */
struct sr_mad_conn {
	struct ib_cm_entry entry; /* first */
	uint64_t serial;	  /* of the id; 0: it is gone */
	struct sr_timer timer;	  /* at entry.cm.due_ns */
	struct half_open half;	  /* passive: until the peer has answered */
};

extern const struct sr_cm_way sr_cm_by_mads;

/* Serves a request if a program listens for it, or if it is the last time. Whether it did. */
typedef bool sr_cm_serve(const struct ib_cm_ends *ends, const struct mad *m, bool is_last);
