/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of a guard as text, a record for each namespace (store/record.h):
 *
 *   {"version": 1, "write_protected": true, "uncorrectable": [[slba, blocks], ...],
 *    "reservation": {"type": 1, "holder": 0, "registrants": [{"host": hex, "key": hex,
 *     "nqn": "..."}, ...], "generation": 7, "persistent": false}}
 *
 * The text for an rblkd that takes over has all of it, and "write_protected_until_power_cycle". A
 * record has the last two only if several rblkd share it. It then also has a reservation that hosts
 * did not ask to persist: the end of one rblkd is no loss of power of the store. A record that
 * passes from one rblkd of a machine to another has all of it, and "boot", the identifier of the
 * kernel's boot: a loss of power ends it, and so the next boot does. An earlier rblkd wrote no
 * "nqn"; the host of such a registrant is unknown. A namespace without any state has no record.
 * Numbers that need all 64 bits are strings. This file can read all that it writes, whatever hosts
 * have done (tests/unit/test_guard_text.c).
 */
#pragma once

enum {
	GUARD_FORMAT = 1,
};

struct guard;
struct guard_kept;

/* The state as text, which the caller frees; *ret_text is NULL without any state. 0 or -ENOMEM. */
int guard_format(const struct guard *guard, const struct guard_kept *kept, char **ret_text);
/* The same, also with what a restart or a loss of power ends: for guard_restore_all. */
int guard_format_all(const struct guard *guard, const struct guard_kept *kept, char **ret_text);
/* The state of a text, which the caller owns, without what has ended if the text is not of this
 * boot of the machine (boot_id; NULL: nothing has ended). 0; -EINVAL: guard_format never writes
 * such a text; -ENOMEM. */
int guard_read(const char *text, const char *boot_id, struct guard_kept *ret_kept);
