/* SPDX-License-Identifier: BSD-3-Clause */
/* See turn.h. */
#include "target/association/auth/session.h"
#include "target/association/auth/turn.h"
#include "target/association/connection.h"
#include "target/association/host.h"

enum {
	/* Of the 8 worker threads, those that compute for one address. */
	PROOFS_PER_ADDRESS = 2,
};

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
	c->proof.has_turn = true;
	answer(c);
}

static void wait_in_line(struct connection *c)
{
	char address[ADDR_STRING_MAX];

	log_debug("host %s: queue %u waits until others of %s have proven themselves",
		  hostnqn_label(c->proof.session->hostnqn), c->queue->qid,
		  addr_format_host(address, &c->cm->remote));
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

	list_remove(&c->proof.node);
	if (!c->proof.has_turn)
		return;
	c->proof.has_turn = false;
	guest->n_proofs--;
	node = list_take_first(&guest->provers);
	if (node)
		begin(list_entry(node, struct connection, proof.node));
}

void turn_cancel(struct connection *c)
{
	if (list_is_empty(&c->proof.node))
		return;
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
	c->proof.on_turn = on_turn;
	c->proof.ask.run = on_ask;
	loop_send(&c->target->loop, &c->proof.ask);
}

void turn_end(struct connection *c)
{
	c->proof.turn_over.run = on_end;
	loop_send(&c->target->loop, &c->proof.turn_over);
}
