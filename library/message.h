/* SPDX-License-Identifier: BSD-3-Clause */
/* What the library says: failures, and messages, which the program may take; at the beginning
 * nothing shows them. Any thread. */
#pragma once

struct error;
struct rblk_error;

/* Fills *to, which may be NULL. Returns r. */
int error_to_public(struct rblk_error *to, int r, const struct error *error);
/* What a failure to connect is as an errno. */
int error_to_errno(const struct error *error);
