/* SPDX-License-Identifier: BSD-3-Clause */
/* See turn.h. */
#include "target/association/auth/session.h"
#include "target/association/auth/turn.h"
#include "target/association/host.h"
#include "target/engine/queue.h"

enum {
	/* Of the 8 worker threads, that work for those who come from one address. */
	PROOFS_PER_ADDRESS = 2,
};

/* ---- control ------------------------------------------------------------------------------- */

static void on_answer(struct loop_msg *msg);

static void answer(struct queue *queue)
{
	queue->proof.ask.run = on_answer;
	loop_send(&queue->poller->loop, &queue->proof.ask);
}

static void begin(struct queue *queue)
{
	queue->proof.guest->n_proofs++;
	queue->proof.has_turn = true;
	answer(queue);
}

static void wait_in_line(struct queue *queue)
{
	char address[ADDR_STRING_MAX];

	log_debug("host %s: queue %u waits until others of %s have proven themselves",
		  hostnqn_label(queue->auth->hostnqn), queue->qid,
		  addr_format_host(address, &queue->conn->remote));
	list_add_tail(&queue->proof.guest->provers, &queue->proof.node);
}

/* A Send wants a worker thread. */
static void on_ask(struct loop_msg *msg)
{
	struct queue *queue = container_of(msg, struct queue, proof.ask);

	if (queue->state == QUEUE_DYING)
		answer(queue);
	else if (queue->proof.guest->n_proofs >= PROOFS_PER_ADDRESS)
		wait_in_line(queue);
	else
		begin(queue);
}

/* The poller has sent this queue's turn back, or never gets one. */
static void on_end(struct loop_msg *msg)
{
	struct queue *queue = container_of(msg, struct queue, proof.over);
	struct host *guest = queue->proof.guest;
	struct list *node;

	list_remove(&queue->proof.node);
	if (!queue->proof.has_turn)
		return;
	queue->proof.has_turn = false;
	guest->n_proofs--;
	node = list_take_first(&guest->provers);
	if (node)
		begin(list_entry(node, struct queue, proof.node));
}

void turn_cancel(struct queue *queue)
{
	if (list_is_empty(&queue->proof.node))
		return;
	list_remove(&queue->proof.node);
	answer(queue);
}

/* ---- poller -------------------------------------------------------------------------------- */

static void on_answer(struct loop_msg *msg)
{
	struct queue *queue = container_of(msg, struct queue, proof.ask);

	queue->proof.on_turn(queue);
}

void turn_ask(struct queue *queue, void (*on_turn)(struct queue *queue))
{
	queue->proof.on_turn = on_turn;
	queue->proof.ask.run = on_ask;
	loop_send(&queue->target->loop, &queue->proof.ask);
}

void turn_end(struct queue *queue)
{
	queue->proof.over.run = on_end;
	loop_send(&queue->target->loop, &queue->proof.over);
}
