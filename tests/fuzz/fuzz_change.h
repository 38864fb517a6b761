/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Changes of the target that no host makes: an administrator's, and those of the other rblkd with
 * which this one shares stores. All functions run on the fuzzer's one thread.
 */
#pragma once

#include "target/export/ana.h"

struct target;

/* Gives the machine's boot a constant name, by a file in this directory, until boot_end. */
void boot_begin(const char *directory);
void boot_end(void);
/*
 * ANA_OWNER_OTHER: another rblkd has the stores of all ANA groups from now on, and this one stands
 * by. ANA_OWNER_LOCK: this one has them, empty, and the record that the owner before has left
 * (disk_leave); if that is damaged, nothing changes.
 *
 * In a configuration an owner needs stores with locks, and these are in memory. So only the table
 * of groups has the owner; all that follows is the target's own code.
 */
void change_owner(struct target *target, const char *subnqn, enum ana_owner owner);
/* An administrator drops a registrant, all of whose identifier's bytes are `host`; nothing if the
 * drop before is under way (target->n_drops). */
void change_registrant(struct target *target, const char *subnqn, uint32_t nsid, uint8_t host);
/* Checks that the successor of this rblkd would read the state of each guard as it is. No command
 * is under way. */
void check_successor(const struct target *target);
