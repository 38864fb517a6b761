/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Read-copy-update for snapshots of the configuration. It is liburcu's QSBR flavour, in which a
 * read costs nothing. A reading thread registers, calls rcu_quiescent once a turn, and is offline
 * while it sleeps. A pointer from rcu_get stays valid until the thread's next rcu_quiescent or
 * rcu_offline. The writer replaces a pointer, calls rcu_wait and then frees the old object.
 * Nothing fails.
 */
#pragma once

#include <stdatomic.h>

/* For the calling thread, which is online once it is registered. quiescent: it holds no pointer
 * now. offline: it holds none until it is online again, so no writer waits for it. */
void rcu_register_reader(void);
void rcu_unregister_reader(void);
void rcu_quiescent(void);
void rcu_offline(void);
void rcu_online(void);

/* Publishes ptr. A thread that gets it with rcu_get sees all earlier writes to *ptr. */
#define rcu_set(slot, ptr) atomic_store_explicit(slot, ptr, memory_order_release)
#define rcu_get(slot)	   atomic_load_explicit(slot, memory_order_acquire)

/* Blocks until no reader can hold a pointer from before the call. A registered online reader must
 * not call it: it would wait for itself. */
void rcu_wait(void);
