/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cache: memory that I/O has used stays registered, up to a number of bytes, because its next
 * I/O will use it again. A piece is found by its address; the least recently used one that no I/O
 * uses makes room. All pieces are allocated in advance. Any thread, under a lock.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct cache;
struct volume;
struct volume_memory;

/* 0 or -ENOMEM. Free after all I/O. */
int cache_new(struct volume *volume, uint64_t max_bytes, struct cache **ret_cache);
void cache_free(struct cache *cache);
/* Registered memory that covers the buffer: found, or registered in place of older memory. 0 or
 * -errno. Each take needs a give. */
int cache_take(struct cache *cache, void *base, size_t n_bytes, struct volume_memory **ret_memory);
void cache_give(struct cache *cache, struct volume_memory *memory);
/* 0; -EBUSY: some of it is taken. */
int cache_forget(struct cache *cache, const void *base, size_t n_bytes);
