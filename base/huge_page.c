/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MADV_COLLAPSE is the one way to huge pages for a memfd that needs neither a setting of the
 * administrator nor pages set aside (madvise(2)). It makes one out of a range of which one page at
 * least is there, and fills the rest with zeroes.
 */
#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>

#include "base/huge_page.h"

#ifndef MADV_COLLAPSE
#	define MADV_COLLAPSE 25 /* Linux 6.1; C libraries know it later */
#endif

enum {
	PAGE_BYTES = 4096,
};

void *huge_page_reserve(size_t n_bytes)
{
	size_t n = n_bytes + HUGE_PAGE_BYTES;
	char *whole = mmap(NULL, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *memory;

	if (whole == MAP_FAILED)
		return MAP_FAILED;
	memory = (char *)align_up((uintptr_t)whole, HUGE_PAGE_BYTES);
	if (memory > whole)
		munmap(whole, (size_t)(memory - whole));
	munmap(memory + n_bytes, (size_t)(whole + n - (memory + n_bytes)));
	return memory;
}

/* Small pages serve as well, so a failure is no error. */
static void collapse(char *memory, size_t n_bytes)
{
	size_t n = align_down(n_bytes, HUGE_PAGE_BYTES);

	for (size_t at = 0; at < n; at += HUGE_PAGE_BYTES)
		if (madvise(memory + at, PAGE_BYTES, MADV_POPULATE_WRITE) < 0)
			return;
	if (n)
		madvise(memory, n, MADV_COLLAPSE);
}

int huge_page_populate(void *memory, size_t n_bytes)
{
	collapse(memory, n_bytes);
	return madvise(memory, n_bytes, MADV_POPULATE_WRITE) < 0 ? -errno : 0;
}
