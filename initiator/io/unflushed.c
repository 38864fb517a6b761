/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See unflushed.h. Why relaxed loads are enough on the data path: a write's number is loaded after
 * its answer was received, and a Flush takes its number before it is sent. If the write's number is
 * not higher than the Flush's, the answer came before that Flush was sent, so the Flush covers the
 * write. A Flush of another thread sees the note of each write that its user knows to be done: the
 * user's word from one thread to the other orders them.
 */
#include "initiator/io/unflushed.h"

#include "base/bits.h"

static void raise_to(_Atomic uint64_t *value, uint64_t to)
{
	uint64_t now = atomic_load(value);

	while (now < to && !atomic_compare_exchange_weak(value, &now, to))
		;
}

void unflushed_init(struct unflushed *unflushed)
{
	atomic_init(&unflushed->next, 1);
	atomic_init(&unflushed->n_reported, 0);
	atomic_init(&unflushed->must_report, false);
	for (unsigned i = 0; i < VOLUME_PATHS_MAX; i++) {
		struct unflushed_path *path = &unflushed->paths[i];

		atomic_init(&path->noted, 0);
		atomic_init(&path->n_safe, 0);
		atomic_init(&path->was_flushed, false);
		atomic_init(&path->is_up, false);
	}
}

NOINLINE void unflushed_note_first(struct unflushed *unflushed, unsigned path, uint64_t number)
{
	raise_to(&unflushed->paths[path].noted, number);
}

uint64_t unflushed_begin(struct unflushed *unflushed)
{
	return atomic_fetch_add(&unflushed->next, 1);
}

bool unflushed_needs(const struct unflushed *unflushed, unsigned path, uint64_t number)
{
	const struct unflushed_path *its = &unflushed->paths[path];

	return !atomic_load(&its->was_flushed) ||
	       atomic_load(&its->n_safe) < MIN(atomic_load(&its->noted), number);
}

bool unflushed_is_up(const struct unflushed *unflushed, unsigned path)
{
	return atomic_load(&unflushed->paths[path].is_up);
}

void unflushed_flushed(struct unflushed *unflushed, unsigned path, uint64_t number)
{
	raise_to(&unflushed->paths[path].n_safe, number);
	atomic_store(&unflushed->paths[path].was_flushed, true);
}

bool unflushed_take_report(struct unflushed *unflushed)
{
	return atomic_load_explicit(&unflushed->must_report, memory_order_relaxed) &&
	       atomic_exchange(&unflushed->must_report, false);
}

void unflushed_set_up(struct unflushed *unflushed, unsigned path, bool is_up)
{
	atomic_store(&unflushed->paths[path].is_up, is_up);
}

/* The numbers only grow: what was noted is at worst flushed once more. */
void unflushed_forget(struct unflushed *unflushed, unsigned path)
{
	atomic_store(&unflushed->paths[path].was_flushed, false);
}

uint64_t unflushed_number(const struct unflushed *unflushed, unsigned path)
{
	return atomic_load(&unflushed->paths[path].noted);
}

bool unflushed_is_covered(const struct unflushed *unflushed, unsigned path, uint64_t number)
{
	return number <= atomic_load(&unflushed->paths[path].n_safe) ||
	       number <= atomic_load(&unflushed->n_reported);
}

void unflushed_report(struct unflushed *unflushed)
{
	raise_to(&unflushed->n_reported, unflushed_begin(unflushed));
	atomic_store(&unflushed->must_report, true);
}
