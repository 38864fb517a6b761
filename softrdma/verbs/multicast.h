/* SPDX-License-Identifier: BSD-3-Clause */
/* Multicast groups of this host's processes; see multicast.c. */
#pragma once

#include "softrdma/process/part.h"
#include "softrdma/verbs/qp_impl.h"

/* The queue pair in that slot ends: it is a member of no group any more. */
void sr_multicast_forget(uint32_t slot);
