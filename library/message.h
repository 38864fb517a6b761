/* SPDX-License-Identifier: BSD-3-Clause */
/* The library's failures, and its messages, which the program may take; at first they are not
 * shown. Any thread. */
#pragma once

struct error;
struct rblk_error;

/* Fills *to, which may be NULL. Returns r. */
int error_to_public(struct rblk_error *to, int r, const struct error *error);
/* The errno for a failure to connect. */
int error_to_errno(const struct error *error);
