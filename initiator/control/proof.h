/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Proof that the associations before this one are over, before what they may still do is repeated:
 * see proof.c. Control loop.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct path;
struct predecessor;
struct volume;
union addr;

/* Before the first attempt: predecessors of a process before this one. */
void proof_begin(struct volume *volume);
/* The path is live, and no lane of it is connected. */
void proof_on_live(struct path *path);
/* It is lost, and its lanes are not stopped yet. */
void proof_on_lost(struct path *path);
/* Its last lane is gone. One that was removed with nothing in flight is over. */
void proof_on_idle(struct path *path);
/* An administrator vouches: what was lost by this address can change nothing any more. */
void proof_vouch(struct volume *volume, const union addr *address);
/* All I/O is about to fail, also what waits for proof. */
void proof_abandon(struct volume *volume);
/* The volume closes; no I/O is outstanding. */
void proof_end(struct volume *volume);
/* Whether time alone proves it, and when (clock_ns). */
bool proof_has_time(const struct predecessor *predecessor);
uint64_t proof_over_ns(const struct predecessor *predecessor);
/* The live path whose controller can be asked about it; NULL: there is none. */
struct path *proof_source_for(const struct volume *volume, const struct predecessor *predecessor);
/* Whether an association by this address is among them. */
bool proof_awaits(const struct volume *volume, const union addr *address);
