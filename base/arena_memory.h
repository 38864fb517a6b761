/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory for data that RDMA devices move: where such a mapping comes from, in one place.
 *
 * It is a memfd that cannot change its size. To a device it is memory as any other. The software
 * provider maps it in the peer, which then copies without a system call (docs/SOFTRDMA.md), as long
 * as the descriptor stays open. Where no memfd can be had, the memory is anonymous. A forked child
 * does not get it.
 *
 * Thread: the owner's. Errors are -errno.
 */
#pragma once

#include <stddef.h>

struct arena_memory {
	void *base; /* owned mapping; NULL: none */
	size_t n_bytes;
	int fd; /* owned; -1: the memory is anonymous */
};

/* Zeroed memory, whose pages come when they are touched. 0 or -errno. */
int arena_memory_map(struct arena_memory *memory, size_t n_bytes);
/* The same without a memfd and its descriptor: for memory that peers do not reach. */
int arena_memory_map_private(struct arena_memory *memory, size_t n_bytes);
/* Gives a range its pages at once, huge ones as far as there are any (huge_page.h): a registration
 * pins few pages sooner than many, and so does each copy of the software provider. Missing pages
 * are no error here: the registration finds out. */
void arena_memory_populate(const struct arena_memory *memory, size_t from, size_t n_bytes);
/* Accepts a zeroed one. The pages are free at once, also while a peer has them mapped. */
void arena_memory_unmap(struct arena_memory *memory);
/* Keeps the first n_bytes. */
void arena_memory_cut(struct arena_memory *memory, size_t n_bytes);
/* Frees the pages of a range, which is not registered; touched again, it reads as zero. */
void arena_memory_drop(const struct arena_memory *memory, size_t from, size_t n_bytes);
