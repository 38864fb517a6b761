/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered memory that peers may map: the owner's side.
 *
 * A region that lies in a shared mapping of a memfd names that memfd in this process' table of
 * shares. The memfd must be sealed with F_SEAL_SHRINK, so that its pages cannot vanish, and the
 * program must keep a descriptor of it open, which peers duplicate. Any other region has no share,
 * and peers copy it with process_vm_readv and process_vm_writev. Application threads, when they
 * register and deregister.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/* The share of a region, and the place of its first byte in the memfd. share 0: it has none. */
struct sr_shared {
	uint32_t share; /* slot + 1 */
	uint64_t at;
};

/* Finds or makes the share of memory that is mapped and populated. Every failure means: none. */
struct sr_shared sr_share_take(const void *addr, size_t len);
/* Ends the region's use of its share, after its keys are withdrawn. True: it was the last one, and
 * peers are asked to unmap the memfd; the caller calls sr_view_sweep for this process. */
bool sr_share_give(struct sr_shared shared);
/* Whether fd is a memfd of which no page can vanish. Fills in *ret_st. */
bool sr_share_is_safe(int fd, struct stat *ret_st);
