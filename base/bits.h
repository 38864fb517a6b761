/* SPDX-License-Identifier: BSD-3-Clause */
/* Small arithmetic and the compiler attributes that hot paths use. Pure, any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b)    ((a) < (b) ? (a) : (b))
#define MAX(a, b)    ((a) > (b) ? (a) : (b))
/* For arrays on a hot path: -ftrivial-auto-var-init does not clear them in each call. The code must
 * write an element before it reads it. */
#define UNINITIALIZED __attribute__((uninitialized))
/* The usual value of a condition: the compiler moves the other case out of the way. */
#define LIKELY(x)   __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
/* A function that is not inlined, so that its hot callers save no registers for it. */
#define NOINLINE __attribute__((noinline))
/* The same of a rare one, which also makes the calls of it unlikely. */
#define COLD __attribute__((noinline, cold))

#define KIB 1024ULL
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)

/* 0 is none. */
static inline bool is_power_of_2(uint64_t x)
{
	return x && !(x & (x - 1));
}

/* align is a power of 2; x + align must not overflow. */
static inline uint64_t align_up(uint64_t x, uint64_t align)
{
	return (x + align - 1) & ~(align - 1);
}

/* align is a power of two. */
static inline uint64_t align_down(uint64_t x, uint64_t align)
{
	return x & ~(align - 1);
}

/* Floor of log2; x is not 0. */
static inline unsigned log2_floor(uint64_t x)
{
	return 63 ^ (unsigned)__builtin_clzll(x); /* one instruction; 63 - clz takes two */
}

/* Smallest n with 2^n >= x; x is not 0. */
static inline unsigned log2_ceil(uint64_t x)
{
	return x <= 1 ? 0 : 64 - (unsigned)__builtin_clzll(x - 1);
}
