/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>

#include "base/bits.h"
#include "base/check.h"
#include "target/engine/poller/poller.h"
#include "target/engine/poller/poller_memory.h"
#include "target/engine/record/target.h"

enum {
	ADMIN_BYTES = 256 * 1024, /* in addition to one transfer of full size */
};

static size_t data_bytes(const struct target *target)
{
	const struct config_tuning *tuning = &target->config->tuning;
	size_t share = tuning->buffers / target->n_pollers;

	return align_up(MAX(share, tuning_block(tuning)), BUFFER_UNIT);
}

static size_t admin_bytes(const struct target *target)
{
	return tuning_block(&target->config->tuning) + ADMIN_BYTES;
}

static int init_arenas(struct poller *poller, size_t n_data)
{
	size_t max_block = tuning_block(&poller->target->config->tuning);
	size_t n_admin = admin_bytes(poller->target);
	char *memory = poller->memory.base;
	int r = arena_init(&poller->data, memory, n_data, max_block);

	poller->data_bytes = n_data;
	return r < 0 ? r : arena_init(&poller->admin, memory + n_data, n_admin, max_block);
}

int poller_make_memory(struct poller *poller)
{
	size_t n_data = data_bytes(poller->target);
	int r = arena_memory_map(&poller->memory, n_data + admin_bytes(poller->target));

	return r < 0 ? r : init_arenas(poller, n_data);
}

/* A buffer of full size, and what a power of 2 leaves of it. */
static size_t least_data_bytes(const struct target *target)
{
	return align_up(tuning_block(&target->config->tuning), BUFFER_UNIT);
}

bool pollers_can_shrink(const struct target *target)
{
	return !target->has_placed && target->pollers[0].data_bytes > least_data_bytes(target);
}

int pollers_shrink(struct target *target)
{
	size_t half = align_up(target->pollers[0].data_bytes / 2, BUFFER_UNIT);
	size_t n_data = MAX(half, least_data_bytes(target));

	check(pollers_can_shrink(target));
	for (unsigned i = 0; i < target->n_pollers; i++) {
		struct poller *poller = &target->pollers[i];
		int r;

		arena_deinit(&poller->data);
		arena_deinit(&poller->admin);
		r = init_arenas(poller, n_data);
		if (r < 0)
			return r;
		arena_memory_cut(&poller->memory, n_data + admin_bytes(target));
	}
	return 0;
}

void poller_free_memory(struct poller *poller)
{
	arena_deinit(&poller->data);
	arena_deinit(&poller->admin);
	arena_memory_unmap(&poller->memory);
}
