/* SPDX-License-Identifier: BSD-3-Clause */
/* See buffer.h. */
#include <errno.h>

#include "base/bits.h"
#include "base/check.h"
#include "target/engine/poller/buffer.h"

int arena_init(struct arena *arena, char *base, size_t size, size_t max_block)
{
	check(base && max_block <= size);
	arena->base = base;
	fair_init(&arena->waiters);
	return buddy_init(&arena->buddy, size, BUFFER_UNIT, max_block);
}

void arena_deinit(struct arena *arena)
{
	buddy_deinit(&arena->buddy);
}

enum buffer_result buffer_take(struct arena *arena, size_t n_bytes, struct buffer *ret_buffer)
{
	size_t offset;
	int r = buddy_take(&arena->buddy, n_bytes, &offset);

	if (r < 0)
		return r == -EMSGSIZE ? BUFFER_NEVER : BUFFER_NONE;
	*ret_buffer = (struct buffer){.data = arena->base + offset,
				      .arena = arena,
				      .n_bytes = align_up(n_bytes, BUFFER_UNIT)};
	return BUFFER_TAKEN;
}

static bool has_share(const struct arena *arena, const size_t *held, size_t n_bytes,
		      unsigned percent)
{
	if (!held || !*held)
		return true;
	return *held + n_bytes <= (arena->buddy.n_free_bytes + *held) * percent / 100;
}

enum buffer_result buffer_take_share(struct arena *arena, size_t n_bytes,
				     size_t *const held[BUFFER_HOLDERS], unsigned host_percent,
				     struct buffer *ret_buffer)
{
	enum buffer_result result;

	if (!has_share(arena, held[HOLDER_QUEUE], n_bytes, BUFFER_SHARE_PERCENT) ||
	    !has_share(arena, held[HOLDER_NAMESPACE], n_bytes, BUFFER_SHARE_PERCENT) ||
	    !has_share(arena, held[HOLDER_HOST], n_bytes, host_percent))
		return BUFFER_OVER_SHARE;
	result = buffer_take(arena, n_bytes, ret_buffer);
	if (result != BUFFER_TAKEN)
		return result;
	for (unsigned i = 0; i < BUFFER_HOLDERS; i++) {
		ret_buffer->held[i] = held[i];
		if (held[i])
			*held[i] += ret_buffer->n_bytes;
	}
	return BUFFER_TAKEN;
}

void buffer_discharge(struct buffer *buffer, enum buffer_holder holder)
{
	if (buffer->held[holder])
		*buffer->held[holder] -= buffer->n_bytes;
	buffer->held[holder] = NULL;
}

bool buffer_put(struct buffer *buffer)
{
	struct arena *arena = buffer->arena;

	if (!buffer->data)
		return false;
	for (unsigned i = 0; i < BUFFER_HOLDERS; i++)
		buffer_discharge(buffer, (enum buffer_holder)i);
	buddy_give(&arena->buddy, (size_t)((char *)buffer->data - arena->base));
	*buffer = (struct buffer){0};
	return !fair_is_empty(&arena->waiters);
}
