/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded before ThreadSanitizer's allocator, which, unlike glibc's and AddressSanitizer's, has
 * no option for the contents of fresh memory: libiscsi assumes that it is zero.
 */
#include <stdlib.h>

void *malloc(size_t n)
{
	return calloc(1, n);
}
