/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded before ThreadSanitizer's allocator, which, unlike glibc's and AddressSanitizer's,
 * cannot be told what to fill memory with: libiscsi takes for granted that it is zero.
 */
#include <stdlib.h>

void *malloc(size_t n)
{
	return calloc(1, n);
}
