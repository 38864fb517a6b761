/* SPDX-License-Identifier: BSD-3-Clause */
/* Statistics counters: one writer thread, any number of readers on other threads. Never fails. */
#pragma once

#include <stdint.h>

/* The writer's thread. A reader on another thread sees the old or the new value, never a mix. */
static inline void counter_add(uint64_t *counter, uint64_t n)
{
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
	/* The same as the line below in one instruction; compilers emit three. */
	__asm__("addq %1, %0" : "+m"(*counter) : "er"(n) : "cc");
#else
	__atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
#endif
}

/* The same for a figure that is no sum: a time, a state. */
static inline void counter_set(uint64_t *counter, uint64_t value)
{
	__atomic_store_n(counter, value, __ATOMIC_RELAXED);
}

/* Any thread. */
static inline uint64_t counter_get(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}
