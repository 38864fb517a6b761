/* SPDX-License-Identifier: BSD-3-Clause */
/* Formats a capsule as text. Pure: the handler of a fatal signal may call all of it. */
#pragma once

#include <stddef.h>

#include "target/engine/record/capsules.h"

enum {
	CAPSULE_LINE_MAX = 256,
};

/* "Read", or "an unknown command". */
const char *capsule_command(const struct capsule *capsule, bool is_admin);
/* Whether the command has SLBA and NLB at their usual places. */
bool capsule_has_range(const struct capsule *capsule, bool is_admin);
/* The kind of SGL: "keyed", "in-capsule", "none" and so on; *ret_length is the length in it. */
const char *capsule_sgl(const struct capsule *capsule, uint32_t *ret_length);
uint64_t capsule_age_ns(const struct capsule *capsule, uint64_t now);
/* "3.1us ago: Read, CID 17, NSID 1, LBA 0, 8 blocks, keyed SGL of 4096: Success after 35.0us".
 * Returns its length. */
size_t capsule_line(const struct capsule *capsule, bool is_admin, uint64_t now,
		    char line[CAPSULE_LINE_MAX]);
/* "192.0.2.1:55342, queue 1 of controller 3, host nqn...:"; likewise. */
size_t capsule_heading(const struct capsule_ring *ring, char *text, size_t n);
