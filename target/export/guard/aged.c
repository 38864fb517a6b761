/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/check.h"
#include "target/export/guard/aged.h"
#include "target/export/guard/guard_impl.h"
#include "target/export/guard/guard_new.h"

void guard_add_aged(struct pass *pass)
{
	struct guard *guard = pass->guard;

	check(guard && pass->is_inside && !pass->is_aged);
	pass->is_aged = true;
	pthread_mutex_lock(&guard->lock);
	list_add_tail(&guard->aged, &pass->aged_node);
	guard_set_flag(guard, GUARD_AGED, true);
	pthread_mutex_unlock(&guard->lock);
}

void guard_remove_aged(struct pass *pass)
{
	struct guard *guard = pass->guard;

	pass->is_aged = false;
	pthread_mutex_lock(&guard->lock);
	list_remove(&pass->aged_node);
	if (list_is_empty(&guard->aged))
		guard_set_flag(guard, GUARD_AGED, false);
	pthread_mutex_unlock(&guard->lock);
}

bool guard_is_fenced(const struct pass *pass)
{
	struct guard *guard = pass->guard;
	const struct guard_client *mine = pass->client;
	bool is_fenced = false;

	pthread_mutex_lock(&guard->lock);
	list_for_each (node, &guard->aged) {
		const struct pass *old = list_entry(node, struct pass, aged_node);

		is_fenced |= old->client->host == mine->host &&
			     old->client->association != mine->association &&
			     pass_overlaps(old, pass->slba, pass->n_blocks);
	}
	pthread_mutex_unlock(&guard->lock);
	return is_fenced;
}
