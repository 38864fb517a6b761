/* SPDX-License-Identifier: BSD-3-Clause */
/* See fuzz_memory.h. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "tests/fuzz/fuzz_memory.h"

static _Atomic unsigned calls_left; /* until one fails; 0: none fails */

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);

void memory_fail(unsigned which)
{
	atomic_store(&calls_left, which);
}

static bool must_fail(void)
{
	return atomic_load(&calls_left) && atomic_fetch_sub(&calls_left, 1) == 1;
}

void *__wrap_malloc(size_t n)
{
	return must_fail() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return must_fail() ? NULL : __real_calloc(n, size);
}
