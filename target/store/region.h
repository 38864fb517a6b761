/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whole blocks in the page cache, where the kernel orders no read with a write: a transfer locks
 * the regions of 64 KiB that it touches, a read together with other reads, a change alone. Regions
 * that are a multiple of 4 MiB apart share a lock. For worker threads, which may wait here.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct regions;

/* NULL: no memory. regions_free accepts NULL. Control thread, in open and close. */
struct regions *regions_new(void);
void regions_free(struct regions *regions);
/* Lock and unlock [offset, offset + n), n > 0. The caller holds none of these yet. Both accept
 * NULL: nothing is locked. */
void regions_lock(struct regions *regions, uint64_t offset, uint64_t n, bool is_change);
void regions_unlock(struct regions *regions, uint64_t offset, uint64_t n);
