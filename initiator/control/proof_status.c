/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/bits.h"
#include "base/clock.h"
#include "initiator/control/proof_status.h"
#include "initiator/control/path_impl.h"
#include "initiator/control/proof.h"
#include "initiator/control/volume_impl.h"
#include "initiator/control/volume_info.h"
#include "initiator/io/queue_impl.h"

static enum fencing_state state_of(const struct volume *volume, const struct predecessor *p)
{
	if (!volume_n_paths_live(volume))
		return FENCING_AWAITS;
	if (p->state != PREDECESSOR_REFUSED && proof_source_for(volume, p))
		return FENCING_ASKS;
	return proof_has_time(p) ? FENCING_HOLDS : FENCING_UNKNOWN;
}

/* Takes the one of several that may last longest; they are in this order. */
static void look_at(const struct volume *volume, const struct predecessor *p,
		    struct volume_fencing *fencing)
{
	enum fencing_state state = state_of(volume, p);
	uint64_t now = clock_ns();

	if (state == FENCING_UNKNOWN && fencing->state != FENCING_UNKNOWN)
		fencing->waits_for = p->subject.address;
	fencing->state = MAX(fencing->state, state);
	if (proof_has_time(p) && proof_over_ns(p) > now)
		fencing->left_ns = MAX(fencing->left_ns, proof_over_ns(p) - now);
}

static bool is_shown(enum fencing_way way)
{
	return way == FENCING_RESET || way == FENCING_TIME;
}

void proof_get(const struct volume *volume, struct volume_fencing *ret_fencing)
{
	const struct proof *proof = &volume->proof;

	*ret_fencing = (struct volume_fencing){
		.n_associations = proof->n,
		.last_way = proof->last_way,
	};
	for (unsigned i = 0; i < FENCING_WAYS; i++) {
		ret_fencing->n_by[i] = proof->n_by[i];
		if (proof->n_by[i] && !proof->n)
			ret_fencing->state = is_shown(proof->last_way) ? FENCING_PROVEN
								       : FENCING_TRUSTED;
	}
	for (unsigned i = 0; i < proof->n; i++)
		look_at(volume, &proof->predecessors[i], ret_fencing);
	list_for_each (node, &volume->queues)
		ret_fencing->n_changes += atomic_load_explicit(
			&list_entry(node, struct volume_queue, node)->fencing.seen,
			memory_order_relaxed);
}
