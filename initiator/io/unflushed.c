/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See unflushed.h. Why relaxed loads are enough on the data path: a write's mark is loaded after
 * its answer was received, and a Flush takes its number before it is sent. If the mark is lower
 * than the next Flush's number, the answer came before that Flush was sent, so the Flush covers the
 * write.
 */
#include "initiator/io/unflushed.h"

static void raise_to(_Atomic uint64_t *value, uint64_t to)
{
	uint64_t now = atomic_load(value);

	while (now < to && !atomic_compare_exchange_weak(value, &now, to))
		;
}

void unflushed_init(struct unflushed *unflushed)
{
	atomic_init(&unflushed->next, 1);
	atomic_init(&unflushed->n_safe, 0);
	atomic_init(&unflushed->must_report, false);
	atomic_init(&unflushed->departed, 0);
}

uint64_t unflushed_begin(struct unflushed *unflushed)
{
	return atomic_fetch_add(&unflushed->next, 1);
}

void unflushed_flushed(struct unflushed *unflushed, uint64_t number)
{
	raise_to(&unflushed->n_safe, number);
}

bool unflushed_take_report(struct unflushed *unflushed)
{
	return atomic_load_explicit(&unflushed->must_report, memory_order_relaxed) &&
	       atomic_exchange(&unflushed->must_report, false);
}

void unflushed_leave(struct unflushed *unflushed, const struct unflushed_mark *mark)
{
	raise_to(&unflushed->departed, atomic_load(&mark->last));
}

bool unflushed_has(const struct unflushed *unflushed, const struct unflushed_mark *mark)
{
	return atomic_load(mark ? &mark->last : &unflushed->departed) >
	       atomic_load(&unflushed->n_safe);
}

void unflushed_report(struct unflushed *unflushed)
{
	unflushed_flushed(unflushed, unflushed_begin(unflushed));
	atomic_store(&unflushed->must_report, true);
}
