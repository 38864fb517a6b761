/* SPDX-License-Identifier: BSD-3-Clause */
/* Mappings for data; see arena_memory.h. */
#include "base/arena_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "base/huge_page.h"

/* The seals let a peer map it without fear: a page of a shorter file would be a SIGBUS. */
static int make_file(size_t n_bytes)
{
	int fd = memfd_create("rblk-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd >= 0 && ftruncate(fd, (off_t)n_bytes) == 0 &&
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

/* Takes fd. */
static int map(struct arena_memory *memory, size_t n_bytes, int fd)
{
	int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	void *base = huge_page_map(n_bytes, flags, fd);
	int error = errno;

	if (base == MAP_FAILED) {
		if (fd >= 0)
			close(fd);
		return -error;
	}
	madvise(base, n_bytes, MADV_DONTFORK);
	*memory = (struct arena_memory){.base = base, .n_bytes = n_bytes, .fd = fd};
	return 0;
}

int arena_memory_map(struct arena_memory *memory, size_t n_bytes)
{
	return map(memory, n_bytes, make_file(n_bytes));
}

int arena_memory_map_private(struct arena_memory *memory, size_t n_bytes)
{
	return map(memory, n_bytes, -1);
}

void arena_memory_populate(const struct arena_memory *memory, size_t from, size_t n_bytes)
{
	check(from <= memory->n_bytes && n_bytes <= memory->n_bytes - from);
	huge_page_populate((char *)memory->base + from, n_bytes);
}

void arena_memory_drop(const struct arena_memory *memory, size_t from, size_t n_bytes)
{
	check(from <= memory->n_bytes && n_bytes <= memory->n_bytes - from);
	if (n_bytes)
		madvise((char *)memory->base + from, n_bytes,
			memory->fd < 0 ? MADV_DONTNEED : MADV_REMOVE);
}

void arena_memory_cut(struct arena_memory *memory, size_t n_bytes)
{
	size_t n_less = memory->n_bytes - n_bytes;

	arena_memory_drop(memory, n_bytes, n_less);
	if (n_less)
		munmap((char *)memory->base + n_bytes, n_less);
	memory->n_bytes = n_bytes;
}

void arena_memory_unmap(struct arena_memory *memory)
{
	if (!memory->base)
		return;
	arena_memory_drop(memory, 0, memory->n_bytes);
	munmap(memory->base, memory->n_bytes);
	if (memory->fd >= 0)
		close(memory->fd);
	*memory = (struct arena_memory){0};
}
