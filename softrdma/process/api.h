/* SPDX-License-Identifier: BSD-3-Clause */
/* Macros that every file of the library may need. */
#pragma once

#include <stddef.h>

#include "softrdma/process/api.h"

/* A public function of libibverbs or librdmacm; everything else is hidden (softrdma.map). */
#define SR_API __attribute__((visibility("default")))

/* The usual value of a condition: the compiler moves the other case out of the way. */
#define LIKELY(x)   __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
/* A function that is not inlined, so that its hot callers save no registers for it. */
#define NOINLINE __attribute__((noinline))
/* The same of a rare one, which also makes the calls of it unlikely. */
#define COLD __attribute__((noinline, cold))

#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))
