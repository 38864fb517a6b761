/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MADV_COLLAPSE is the one way to huge pages for a memfd that needs neither a setting of the
 * administrator nor pages set aside (madvise(2)). It makes one out of a range of which one page at
 * least is there, and fills the rest with zeroes.
 */
#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/huge_page.h"

#ifndef MADV_COLLAPSE
#	define MADV_COLLAPSE 25 /* Linux 6.1; C libraries know it later */
#endif

void *huge_page_reserve(size_t n_bytes)
{
	size_t n = align_up(n_bytes, (uint64_t)sysconf(_SC_PAGESIZE)), n_more = n + HUGE_PAGE_BYTES;
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	char *from = mmap(NULL, n_more, PROT_NONE, flags, -1, 0), *memory;

	if (from == MAP_FAILED)
		return MAP_FAILED;
	memory = (char *)align_up((uintptr_t)from, HUGE_PAGE_BYTES);
	if (memory > from)
		munmap(from, (size_t)(memory - from));
	munmap(memory + n, (size_t)(from + n_more - (memory + n)));
	return memory;
}

void *huge_page_map(size_t n_bytes, int flags, int fd)
{
	void *at = huge_page_reserve(n_bytes), *memory;
	int error;

	if (at == MAP_FAILED)
		return MAP_FAILED;
	memory = mmap(at, n_bytes, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd, 0);
	if (memory == MAP_FAILED) {
		error = errno;
		munmap(at, n_bytes);
		errno = error;
	}
	return memory;
}

/* Small pages serve as well, so a failure is no error. */
static void collapse(char *memory, size_t n_bytes)
{
	char *from = (char *)align_up((uintptr_t)memory, HUGE_PAGE_BYTES);
	char *end = (char *)align_down((uintptr_t)memory + n_bytes, HUGE_PAGE_BYTES);

	for (char *at = from; at < end; at += HUGE_PAGE_BYTES)
		if (madvise(at, 1, MADV_POPULATE_WRITE) < 0)
			return;
	if (from < end)
		madvise(from, (size_t)(end - from), MADV_COLLAPSE);
}

int huge_page_populate(void *memory, size_t n_bytes)
{
	collapse(memory, n_bytes);
	return madvise(memory, n_bytes, MADV_POPULATE_WRITE) < 0 ? -errno : 0;
}
