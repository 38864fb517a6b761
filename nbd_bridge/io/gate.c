/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The gate: a connection's transmission begins when the I/O of all connections that ended before it
 * came is back. A client that takes another one's place, or the same that connects again, must not
 * find its writes overwritten by older ones that were still on their way, on another queue.
 *
 *   control                                      each worker
 *   a connection comes: it takes a ticket
 *   and goes to its worker; shakes hands
 *   gate_ask                       -- ask -->    ends connections with a client that is gone
 *                                  <- answer --  when the I/O of connections that had ended is back
 *   all have answered that ticket  -- open -->   connections with such tickets begin
 *
 * The gate does not wait for connections that end after the question, so clients that come and go
 * cannot keep it closed. A worker with an open question answers it first; tickets that are taken
 * meanwhile are asked for together, afterwards. The first connection, which is alone, does not
 * wait.
 *
 * Connections that live on are not stopped: only a later client can know that an earlier one has
 * ended.
 *
 * A connection that moves from one worker to another may be on neither when both are asked. Then
 * nothing of it is in flight, and if its client had gone by then, it is ended where it arrives,
 * before what the client has sent is read (worker.c).
 */
#include <poll.h>

#include "base/bits.h"
#include "base/check.h"
#include "nbd_bridge/io/gate.h"
#include "nbd_bridge/io/nbd_io.h"
#include "nbd_bridge/io/nbd_session.h"
#include "nbd_bridge/io/worker.h"

/* ---- worker -------------------------------------------------------------------------------- */

static void on_answer(struct loop_msg *msg);

static void answer(struct worker *worker)
{
	worker->gate.must_answer = false;
	worker->gate.ask.run = on_answer;
	loop_send(worker->control, &worker->gate.ask);
}

void gate_look(struct nbd_conn *conn)
{
	struct pollfd pfd = {.fd = conn->fd};

	if (conn->state != CONN_CLOSED && poll(&pfd, 1, 0) == 1)
		nbd_session_abort(conn, "the client is gone");
}

static void on_ask(struct loop_msg *msg)
{
	struct worker *worker = container_of(msg, struct worker, gate.ask);
	struct gate_worker *gate = &worker->gate;

	list_for_each_safe (node, &worker->nbd.conns) {
		struct nbd_conn *conn = list_entry(node, struct nbd_conn, node);

		gate_look(conn);
		if (nbd_conn_is_open(conn) || !nbd_io_has_writes(conn))
			continue;
		nbd_conn_set_end(conn, END_WAITED_FOR);
		gate->n_waited_for++;
	}
	gate->must_answer = gate->n_waited_for;
	if (!gate->must_answer)
		answer(worker);
}

void gate_conn_gone(struct worker *worker, struct nbd_conn *conn)
{
	struct gate_worker *gate = &worker->gate;

	if (conn->end != END_WAITED_FOR)
		return;
	nbd_conn_set_end(conn, END_OVER);
	check(gate->n_waited_for > 0);
	if (!--gate->n_waited_for && gate->must_answer)
		answer(worker);
}

static void on_open(struct loop_msg *msg)
{
	struct worker *worker = container_of(msg, struct worker, gate.open);

	/* Cleared first: a ticket that is admitted during the loop below sends this message
	 * again. */
	atomic_store(&worker->gate.is_open_sent, false);
	list_for_each_safe (node, &worker->nbd.conns) {
		struct nbd_conn *conn = list_entry(node, struct nbd_conn, node);

		if (nbd_thread_admits(&worker->nbd, conn->ticket))
			nbd_session_admit(conn);
	}
}

/* ---- control ------------------------------------------------------------------------------- */

static void open_up_to(struct worker *worker, uint64_t ticket)
{
	struct gate_worker *gate = &worker->gate;

	if (nbd_thread_admits(&worker->nbd, ticket))
		return;
	atomic_store(&worker->nbd.open_up_to, ticket);
	if (!atomic_exchange(&gate->is_open_sent, true))
		loop_send(&worker->nbd.loop, &gate->open);
}

static void open_where_answered(struct gate *gate)
{
	uint64_t answered = UINT64_MAX;

	list_for_each (node, gate->workers) {
		struct worker *worker = list_entry(node, struct worker, node);

		answered = MIN(answered, worker->gate.answered);
	}
	list_for_each (node, gate->workers)
		open_up_to(list_entry(node, struct worker, node), answered);
}

static void ask(struct worker *worker)
{
	struct gate_worker *gate = &worker->gate;

	if (gate->is_asked || gate->asked == gate->gate->n_tickets)
		return;
	gate->is_asked = true;
	gate->asked = gate->gate->n_tickets;
	gate->ask.run = on_ask;
	loop_send(&worker->nbd.loop, &gate->ask);
}

static void on_answer(struct loop_msg *msg)
{
	struct worker *worker = container_of(msg, struct worker, gate.ask);

	check(worker->gate.is_asked && worker->gate.asked <= worker->gate.gate->n_tickets);
	worker->gate.is_asked = false;
	worker->gate.answered = worker->gate.asked;
	open_where_answered(worker->gate.gate);
	ask(worker);
}

void gate_add_worker(struct gate *gate, struct worker *worker)
{
	struct gate_worker *own = &worker->gate;

	own->gate = gate;
	own->asked = own->answered = gate->n_tickets;
	own->open.run = on_open;
}

uint64_t gate_take_ticket(struct gate *gate, bool is_alone)
{
	return is_alone ? 0 : ++gate->n_tickets;
}

void gate_ask(struct gate *gate)
{
	list_for_each (node, gate->workers)
		ask(list_entry(node, struct worker, node));
}
