/* SPDX-License-Identifier: BSD-3-Clause */
/* See turn.h. */
#include "base/states.h"
#include "target/association/auth/session.h"
#include "target/association/auth/turn.h"
#include "target/association/connection_impl.h"
#include "target/association/host.h"
#include "transport/wire/strings.h"

enum {
	/* The most of the 8 worker threads that compute for one address. */
	PROOFS_PER_ADDRESS = 2,
};

#define TO(s) STATE_TO(PROOF_##s)

static const struct state_rule rules[] = {
	[PROOF_IDLE] = {"idle", TO(WAITS) | TO(COMPUTES)},
	[PROOF_WAITS] = {"waits", TO(COMPUTES) | TO(IDLE)},
	[PROOF_COMPUTES] = {"computes", TO(IDLE)},
};

static void move_to(struct connection *c, enum proof_turn next)
{
	states_move("turn of a proof", rules, &c->proof.turn, next);
}

/* ---- control ------------------------------------------------------------------------------- */

static void on_answer(struct loop_msg *msg);

static void answer(struct connection *c)
{
	c->proof.ask.run = on_answer;
	loop_send(&c->queue->poller->loop, &c->proof.ask);
}

static void begin(struct connection *c)
{
	c->proof.guest->n_proofs++;
	move_to(c, PROOF_COMPUTES);
	answer(c);
}

static void wait_in_line(struct connection *c)
{
	char address[ADDR_STRING_MAX];

	log_debug("host %s: queue %u waits until others of %s have proven themselves",
		  hostnqn_label(c->proof.session->hostnqn), c->queue->qid,
		  addr_format_host(address, &c->cm->remote));
	move_to(c, PROOF_WAITS);
	list_add_tail(&c->proof.guest->provers, &c->proof.node);
}

/* A Send needs a worker thread. */
static void on_ask(struct loop_msg *msg)
{
	struct connection *c = container_of(msg, struct connection, proof.ask);

	if (connection_is_dying(c))
		answer(c);
	else if (c->proof.guest->n_proofs >= PROOFS_PER_ADDRESS)
		wait_in_line(c);
	else
		begin(c);
}

/* The poller has returned the queue's turn; or the connection dies without one. */
static void on_end(struct loop_msg *msg)
{
	struct connection *c = container_of(msg, struct connection, proof.turn_over);
	struct host *guest = c->proof.guest;
	struct list *node;

	if (c->proof.turn != PROOF_COMPUTES)
		return;
	move_to(c, PROOF_IDLE);
	check(guest->n_proofs > 0);
	guest->n_proofs--;
	node = list_take_first(&guest->provers);
	if (node)
		begin(list_entry(node, struct connection, proof.node));
}

void turn_cancel(struct connection *c)
{
	if (c->proof.turn != PROOF_WAITS)
		return;
	move_to(c, PROOF_IDLE);
	list_remove(&c->proof.node);
	answer(c);
}

/* ---- poller -------------------------------------------------------------------------------- */

static void on_answer(struct loop_msg *msg)
{
	struct connection *c = container_of(msg, struct connection, proof.ask);

	c->proof.on_turn(c);
}

void turn_request(struct connection *c, void (*on_turn)(struct connection *c))
{
	check(c->proof.guest && c->proof.request);
	c->proof.on_turn = on_turn;
	c->proof.ask.run = on_ask;
	loop_send(&c->target->loop, &c->proof.ask);
}

void turn_end(struct connection *c)
{
	c->proof.turn_over.run = on_end;
	loop_send(&c->target->loop, &c->proof.turn_over);
}
