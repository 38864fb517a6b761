/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Huge pages for memory that is large and stays: one fault, one entry of the TLB and one of a
 * device's table for 2 MiB, where small pages take 512 of each.
 */
#pragma once

#include <stddef.h>

#include "base/bits.h"

/* On x86-64 and arm64 with pages of 4 KiB. Machines with larger pages have larger huge ones, which
 * memory aligned to this rarely gets. */
#define HUGE_PAGE_BYTES (2 * MIB)

/* Maps n_bytes of address space, not above SIZE_MAX / 2, that nothing may touch yet. It begins with
 * a huge page. Any thread. Returns MAP_FAILED with errno as mmap does; munmap gives it back. */
void *huge_page_reserve(size_t n_bytes);

/* Maps memory to read and write that begins so. flags, fd: as for mmap. Any thread. Returns
 * MAP_FAILED with errno as mmap does. */
void *huge_page_map(size_t n_bytes, int flags, int fd);

/* Gives mapped, writable memory its pages, huge ones as far as the kernel has them, whatever its
 * settings say: they are about memory that may stay unused. Contents stay as they are. Any thread,
 * also while others use the memory. It takes 0.1 to 0.5 ms for each huge page, and more where the
 * kernel has to make room first. Returns 0, or -errno where pages are missing. */
int huge_page_populate(void *memory, size_t n_bytes);
