/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes a record's state that of a living guard: another rblkd has changed the record. */
#pragma once

struct guard;
struct guard_kept;
struct pass;
struct reservation;

/* Where other rblkd share the store: makes the state of the record valid, waits for commands that
 * it forbids, and calls on_fresh with 0 or -errno. Elsewhere on_fresh is called from inside. */
void guard_refresh(struct pass *owner, void (*on_fresh)(struct pass *owner, int error));

/* Before the first command arrives: takes over what guard_format_all of an earlier rblkd has
 * written. Where others share the record, it keeps the reservations that it has read there. As
 * guard_read. */
int guard_restore_all(struct guard *guard, const char *text);

/* Restores the state into a new guard, before the first command arrives. As guard_read. */
int guard_parse(struct guard *guard, const char *text);
/* The valid state. The owner of the turn, or nothing can change it. */
struct guard_kept guard_valid(struct guard *guard);
/* Makes it valid; what was valid before stays the caller's. As guard_valid. */
void guard_publish(struct guard *guard, const struct guard_kept *kept);
/* Makes guard->next.reservation valid, which a turn has made durable. Returns the old one, or NULL;
 * the caller frees it when no poller uses it. */
struct reservation *guard_replace_reservation(struct guard *guard);
/* Prepares guard->saving.op for the owner; NULL: for control. */
void guard_prepare_op(struct guard *guard, struct pass *owner);
/* Logs once that the record may differ from what is valid (error), and once that it no longer does
 * (0). */
void guard_note(struct guard *guard, int error);
/* Counts saves and reads for rblkctl: one has failed with that -errno, or went well (0). */
void guard_count(struct guard *guard, int error);
/* guard_refresh for a shared store: reads the record in any case. */
void guard_reload(struct guard *guard, void (*on_read)(struct pass *owner, int error));
