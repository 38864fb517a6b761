/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Read-copy-update for snapshots of the configuration (liburcu, QSBR flavour: readers pay
 * nothing). A reading thread registers, declares itself quiescent once a turn, and is
 * offline while it sleeps. A pointer read with rcu_get stays valid until the reader's
 * next rcu_quiescent or rcu_offline.
 */
#pragma once

#include <stdatomic.h>

void rcu_register_reader(void);
void rcu_unregister_reader(void);
void rcu_quiescent(void);
void rcu_offline(void);
void rcu_online(void);

/* Publishes; everything written to *ptr before is visible to who gets it. */
#define rcu_set(slot, ptr) atomic_store_explicit(slot, ptr, memory_order_release)
#define rcu_get(slot)	   atomic_load_explicit(slot, memory_order_acquire)

/* Blocks until no reader can hold a pointer it got before. Not from a registered online
 * reader. */
void rcu_wait(void);
