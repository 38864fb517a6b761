/* SPDX-License-Identifier: BSD-3-Clause */
/* See resv_drop.h. Poller 0, except where noted: it takes turns of the guard as a command does. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/rcu.h"
#include "target/command/io/resv_drop.h"
#include "target/command/io/resv_notice.h"
#include "target/engine/poller/poller.h"
#include "target/export/guard/guard.h"
#include "target/export/guard/guard_adopt.h"
#include "target/export/guard/guard_state.h"
#include "target/export/guard/reservation.h"

static const uint8_t no_host[HOSTID_BYTES];

static struct resv_drop *drop_of(struct pass *pass)
{
	return container_of(pass, struct resv_drop, pass);
}

static struct reservation *current(const struct guard *guard)
{
	return atomic_load_explicit(&guard->reservation, memory_order_acquire);
}

/* ---- the end -------------------------------------------------------------------------------- */

/* Control */
static void on_over(struct loop_msg *msg)
{
	struct resv_drop *drop = container_of(msg, struct resv_drop, msg);

	check(drop->target->n_drops > 0);
	drop->target->n_drops--;
	drop->done(drop);
	drop->target->check_stop(drop->target); /* rblkd may wait for it before it ends */
}

static void end(struct resv_drop *drop, enum resv_drop_state state)
{
	drop->state = state;
	drop->msg.run = on_over;
	loop_send(&drop->target->loop, &drop->msg);
}

static void end_turn(struct resv_drop *drop, enum resv_drop_state state)
{
	guard_end_turn(&drop->pass);
	pass_end(&drop->pass);
	counter_add(&drop->counters->n_in_flight, UINT64_MAX);
	end(drop, state);
}

/* ---- in the turn ---------------------------------------------------------------------------- */

static bool must_leave(struct pass *owner, struct pass *pass)
{
	return pass->is_inside &&
	       !reservation_allows(current(pass->guard), pass->client->ops->hostid(pass->client),
				   pass->access);
}

static void on_left(struct pass *pass)
{
	struct resv_drop *drop = drop_of(pass);

	resv_notice_send(&(struct resv_news){.target = drop->target,
					     .subnqn = drop->subnqn,
					     .nsid = drop->nsid,
					     .actor = no_host,
					     .before = drop->old,
					     .after = current(pass->guard)});
	free(drop->old);
	drop->old = NULL;
	end_turn(drop, RESV_DROP_DONE);
}

static void on_fresh(struct pass *pass, int error);

static void on_saved(struct pass *pass, int error)
{
	struct resv_drop *drop = drop_of(pass);
	struct guard *guard = pass->guard;

	if (error == -ECANCELED) { /* another rblkd has changed it: its state is valid now */
		guard_refresh(pass, on_fresh);
		return;
	}
	if (error < 0) {
		free(guard->next.reservation);
		drop->error = error;
		end_turn(drop, RESV_DROP_NOT_KEPT);
		return;
	}
	drop->old = guard_replace_reservation(guard);
	guard_visit(pass, must_leave, on_left);
}

static void note_name(struct resv_drop *drop, const struct reservation *now)
{
	unsigned index;

	*drop->nqn = '\0';
	if (reservation_find(now, drop->hostid, &index))
		strcpy(drop->nqn, reservation_name_of(now, index));
}

static void on_fresh(struct pass *pass, int error)
{
	struct resv_drop *drop = drop_of(pass);
	const struct reservation *now = current(pass->guard);
	struct reservation *next;

	drop->error = error;
	if (error == 0) {
		note_name(drop, now);
		drop->error = reservation_drop(now, drop->hostid, &next);
	}
	if (drop->error < 0) {
		end_turn(drop, drop->error == -ENOENT && error == 0 ? RESV_DROP_NO_REGISTRANT
								    : RESV_DROP_NOT_KEPT);
		return;
	}
	guard_begin_save(pass->guard);
	pass->guard->next.reservation = next;
	guard_save(pass, !next->is_persistent, on_saved);
}

/* ---- as a client of guards ------------------------------------------------------------------ */

static void on_turn(struct pass *pass)
{
	guard_refresh(pass, on_fresh);
}

/* It never waits for a range, and visits do not see it. */
static void on_free(struct pass *pass)
{
	check(!pass);
}

static bool give_up(struct pass *pass)
{
	return false;
}

static const uint8_t *hostid(struct guard_client *client)
{
	return no_host;
}

static struct target *target_of(struct guard_client *client)
{
	return container_of(client, struct resv_drop, client)->target;
}

static unsigned n_pollers(struct guard_client *client)
{
	return target_of(client)->n_pollers;
}

static struct loop *loop_of(struct guard_client *client, unsigned poller)
{
	return &target_of(client)->pollers[poller].loop;
}

static void on_blocked(struct guard_client *client, unsigned poller, bool is_blocked)
{
	turn_on_blocked(target_of(client), poller, is_blocked);
}

static const struct guard_ops ops = {
	.on_turn = on_turn,
	.on_free = on_free,
	.give_up = give_up,
	.hostid = hostid,
	.n_pollers = n_pollers,
	.loop_of = loop_of,
	.on_blocked = on_blocked,
};

/* ---- the beginning -------------------------------------------------------------------------- */

static void on_start(struct loop_msg *msg)
{
	struct resv_drop *drop = container_of(msg, struct resv_drop, msg);
	struct poller *poller = &drop->target->pollers[0];
	const struct subsystem *subsystem = snapshot_find(rcu_get(&drop->target->snapshot),
							  drop->subnqn);

	drop->ns = subsystem ? subsystem_namespace(subsystem, drop->nsid) : NULL;
	if (!drop->ns) {
		end(drop, RESV_DROP_NO_NAMESPACE);
		return;
	}
	drop->client = (struct guard_client){
		.ops = &ops,
		.poller = poller->index,
		.loop = &poller->loop,
		.backends = poller->backends,
	};
	drop->counters = &drop->ns->counters[poller->index];
	counter_add(&drop->counters->n_in_flight, 1);
	pass_init(&drop->pass, &drop->client, false);
	pass_begin(&drop->pass, drop->ns->guard);
	guard_take_turn(&drop->pass);
}

/* Control */
void resv_drop_start(struct resv_drop *drop)
{
	drop->state = RESV_DROP_RUNS;
	drop->target->n_drops++;
	drop->msg.run = on_start;
	loop_send(&drop->target->pollers[0].loop, &drop->msg);
}
