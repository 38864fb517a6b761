/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files that connect by MADs: see cm_mads.h. Under sr_cm_lock. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "softrdma/cm/half_open.h"
#include "softrdma/cm/ib_cm_table.h"
#include "softrdma/fabric/roce/gsi.h"
#include "softrdma/process/timer.h"

/* A connection as the peers know it; it outlives its id until its ids may be used again. */
struct sr_mad_conn {
	struct ib_cm_entry entry; /* first */
	uint64_t serial;	  /* of the id; 0: it is gone */
	struct sr_timer timer;	  /* at entry.cm.due_ns */
	struct half_open half;	  /* passive: until the peer has answered */
};

/* Serves a request if a program listens for it, or if it is the last time. Whether it did. */
typedef bool sr_cm_serve(const struct ib_cm_ends *ends, const struct mad *m, bool is_last);
