/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asymmetric Namespace Access (Base 2.0, 8.1) as a host uses it: the state of its namespace on this
 * path, from log page 0Ch.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/wire/nvme.h"

struct controller;

enum {
	/* Reads of 4 KiB, all attempts together: a page with more groups, or that does not stop
	 * changing, is rejected. */
	ANA_LOG_READS_MAX = 64,
};

/* Reads the page for the group of c->ns into c->ana_state, 0 if it is unknown; then done, not
 * from inside. Unmasks the event. done is not called if the association is lost before. */
void ana_log_read(struct controller *c, void (*done)(struct controller *c));

/* The target does not serve I/O on this path for now. */
static inline bool ana_must_wait(unsigned state)
{
	return state == NVME_ANA_STATE_INACCESSIBLE || state == NVME_ANA_STATE_CHANGE;
}
