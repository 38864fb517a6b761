/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A piece keeps its pages, so memory that is unmapped and mapped anew must be forgotten before:
 * otherwise I/O goes to the old pages. That is the caller's promise (rblk_memory_forget).
 */
#include <errno.h>
#include <stdlib.h>

#include "base/bits.h"
#include "base/check.h"
#include "library/cache.h"
#include "library/memory_handle.h"

enum {
	PIECES = 1024,
	BUCKETS = 1024,
	PAGE_SHIFT = 12,
};

struct piece {
	struct volume_memory memory;
	struct piece *next; /* of its bucket, or of the free ones */
	struct list used;   /* in cache->idle while n_users is 0 */
	unsigned n_users;
};

struct cache {
	struct volume *volume; /* borrowed */
	uint64_t max_bytes;
	/* Thread: any, under lock */
	pthread_mutex_t lock;
	uint64_t n_bytes;
	struct piece *free;
	struct list idle; /* of struct piece (used), the least recently used first */
	struct piece *buckets[BUCKETS];
	struct piece pieces[PIECES];
};

int cache_new(struct volume *volume, uint64_t max_bytes, struct cache **ret_cache)
{
	struct cache *cache = calloc(1, sizeof(*cache));

	if (!cache)
		return -ENOMEM;
	cache->volume = volume;
	cache->max_bytes = max_bytes;
	pthread_mutex_init(&cache->lock, NULL);
	list_init(&cache->idle);
	for (unsigned i = 0; i < PIECES; i++) {
		cache->pieces[i].next = cache->free;
		cache->free = &cache->pieces[i];
	}
	*ret_cache = cache;
	return 0;
}

static struct piece **bucket_of(struct cache *cache, const void *base)
{
	uint64_t page = (uintptr_t)base >> PAGE_SHIFT;

	return &cache->buckets[(page ^ page >> 10) % BUCKETS];
}

/* The piece is in no list of idle ones. */
static void drop(struct cache *cache, struct piece *piece)
{
	struct piece **at = bucket_of(cache, piece->memory.base);

	while (*at != piece)
		at = &(*at)->next;
	*at = piece->next;
	volume_memory_remove(cache->volume, &piece->memory);
	cache->n_bytes -= piece->memory.n_bytes;
	piece->next = cache->free;
	cache->free = piece;
}

static bool drop_oldest(struct cache *cache)
{
	struct list *node = list_take_first(&cache->idle);

	if (node)
		drop(cache, list_entry(node, struct piece, used));
	return node != NULL;
}

static struct piece *find(struct cache *cache, const void *base, size_t n_bytes)
{
	for (struct piece *piece = *bucket_of(cache, base); piece; piece = piece->next)
		if (piece->memory.base == base && piece->memory.n_bytes >= n_bytes)
			return piece;
	return NULL;
}

static int add(struct cache *cache, void *base, size_t n_bytes, struct piece **ret_piece)
{
	struct piece *piece, **bucket = bucket_of(cache, base);
	struct error error;
	int r;

	while (!cache->free || cache->n_bytes + n_bytes > cache->max_bytes)
		if (!drop_oldest(cache))
			break;
	if (!cache->free)
		return -ENOBUFS;
	piece = cache->free;
	cache->free = piece->next;
	piece->memory = (struct volume_memory){.base = base, .n_bytes = n_bytes};
	while ((r = volume_memory_add(cache->volume, &piece->memory, &error)) == -ENOMEM)
		if (!drop_oldest(cache))
			break;
	if (r < 0) {
		piece->next = cache->free;
		cache->free = piece;
		return r;
	}
	cache->n_bytes += n_bytes;
	list_init(&piece->used);
	piece->n_users = 0;
	piece->next = *bucket;
	*bucket = piece;
	*ret_piece = piece;
	return 0;
}

int cache_take(struct cache *cache, void *base, size_t n_bytes, struct volume_memory **ret_memory)
{
	struct piece *piece;
	int r = 0;

	pthread_mutex_lock(&cache->lock);
	piece = find(cache, base, n_bytes);
	if (!piece)
		r = add(cache, base, n_bytes, &piece);
	if (r == 0) {
		list_remove(&piece->used);
		piece->n_users++;
		*ret_memory = &piece->memory;
	}
	pthread_mutex_unlock(&cache->lock);
	return r;
}

/* Beyond its bytes, which I/O in flight may force, the cache keeps nothing. */
void cache_give(struct cache *cache, struct volume_memory *memory)
{
	struct piece *piece = container_of(memory, struct piece, memory);

	pthread_mutex_lock(&cache->lock);
	check(piece->n_users > 0);
	if (!--piece->n_users) {
		list_add_tail(&cache->idle, &piece->used);
		while (cache->n_bytes > cache->max_bytes && drop_oldest(cache))
			;
	}
	pthread_mutex_unlock(&cache->lock);
}

static bool overlaps(const struct volume_memory *memory, const void *base, size_t n_bytes)
{
	const char *a = memory->base, *b = base;

	return a < b + n_bytes && b < a + memory->n_bytes;
}

int cache_forget(struct cache *cache, const void *base, size_t n_bytes)
{
	int r = 0;

	pthread_mutex_lock(&cache->lock);
	for (unsigned i = 0; i < BUCKETS; i++) {
		struct piece *next;

		for (struct piece *piece = cache->buckets[i]; piece; piece = next) {
			next = piece->next;
			if (!overlaps(&piece->memory, base, n_bytes))
				continue;
			if (piece->n_users) {
				r = -EBUSY;
				continue;
			}
			list_remove(&piece->used);
			drop(cache, piece);
		}
	}
	pthread_mutex_unlock(&cache->lock);
	return r;
}

void cache_free(struct cache *cache)
{
	if (!cache)
		return;
	while (drop_oldest(cache))
		;
	pthread_mutex_destroy(&cache->lock);
	free(cache);
}
