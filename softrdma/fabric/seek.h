/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Looking for the processes that own queue pair numbers (peer.h). An introduction waits for the
 * other process' helper, so it is made on a thread of its own, which ends when there is nothing
 * more to look for.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Looks for the owner of qpn on a thread of its own, because the helper must not wait; then
 * resumes this process' queue pair in the slot. False: it does not, because no process owned that
 * number a moment ago, or too many are looked for. */
bool sr_peer_seek(uint32_t qpn, uint32_t slot);
/* Introduces this process to all others of this user on this host. Application thread, without
 * locks: waits for them. */
void sr_peer_meet_all(void);
