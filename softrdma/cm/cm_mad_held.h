/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests that no program listens for yet: cm_mads.h. Some programs begin to listen only just
 * before a request would arrive from an adapter, so a request waits for 50 ms before it is
 * rejected. Few wait at a time; a flood of others is rejected at once.
 */
#pragma once

#include <stdbool.h>

#include "softrdma/cm/cm_mad_conn.h"

/* Calls fn again, soon, until it returns true. False: too many wait, and nothing happens. */
bool sr_cm_hold_request(const struct ib_cm_ends *ends, const struct mad *m, sr_cm_serve *fn);
