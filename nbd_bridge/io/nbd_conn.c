/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The connection as an object: memory, the table of its states, and how the files below the session
 * reach the session: by a deferred call (resume, reap), by the list of dirty connections, or by
 * on_failure.
 *
 *   NEW -> CLIENT_FLAGS -> OPTION <-> OPTION_DATA, OPTION_SKIP
 *    |                       |
 *    | (kernel)              | GO, EXPORT_NAME
 *    +------------------> WAITING -> REQUEST <-> PAYLOAD, PAYLOAD_SKIP
 *                                      |
 *                                      | DISC, end of input, server shutdown
 *                                   DRAINING -> CLOSED
 *
 * From any state an error leads to CLOSED, and the client's end of input to DRAINING.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/states.h"
#include "nbd_bridge/io/nbd_conn.h"
#include "nbd_bridge/io/nbd_part.h"
#include "nbd_bridge/io/nbd_request.h"

#define TO(s)  STATE_TO(CONN_##s)
#define TO_END (TO(DRAINING) | TO(CLOSED))
static const struct state_rule rules[] = {
	[CONN_NEW] = {"new", TO(CLIENT_FLAGS) | TO(WAITING) | TO(CLOSED)},
	[CONN_CLIENT_FLAGS] = {"client-flags", TO(OPTION) | TO_END},
	[CONN_OPTION] = {"option", TO(OPTION_DATA) | TO(OPTION_SKIP) | TO_END},
	[CONN_OPTION_DATA] = {"option-data", TO(OPTION) | TO(WAITING) | TO_END},
	[CONN_OPTION_SKIP] = {"option-skip", TO(OPTION) | TO_END},
	[CONN_REQUEST] = {"request", TO(PAYLOAD) | TO(PAYLOAD_SKIP) | TO_END},
	[CONN_PAYLOAD] = {"payload", TO(REQUEST) | TO_END},
	[CONN_PAYLOAD_SKIP] = {"payload-skip", TO(REQUEST) | TO_END},
	[CONN_WAITING] = {"waiting", TO(REQUEST) | TO_END},
	[CONN_DRAINING] = {"draining", TO(CLOSED)},
	[CONN_CLOSED] = {"closed", 0},
};
#undef TO_END
#undef TO

#define TO(s) STATE_TO(END_##s)
static const struct state_rule end_rules[] = {
	[END_OPEN] = {"open", TO(STOPPING) | TO(WAITED_FOR)},
	[END_STOPPING] = {"stopping", TO(WAITED_FOR)},
	[END_WAITED_FOR] = {"waited for", TO(OVER)},
	[END_OVER] = {"over", 0},
};
#undef TO

void nbd_conn_move(struct nbd_conn *conn, enum conn_state state)
{
	states_move("nbd_conn", rules, &conn->state, state);
}

void nbd_conn_set_end(struct nbd_conn *conn, enum conn_end end)
{
	states_move("nbd_conn's end", end_rules, &conn->end, end);
}

struct nbd_conn *nbd_conn_new(struct nbd_export *export, unsigned id, int fd,
			      enum conn_client client)
{
	struct nbd_conn *conn = calloc(1, sizeof(*conn));

	check(export && fd >= 0);
	if (!conn) {
		close(fd);
		return NULL;
	}
	conn->export = export;
	conn->id = id;
	conn->fd = fd;
	conn->client = client;
	list_init(&conn->owned);
	list_init(&conn->node);
	list_init(&conn->dirty);
	list_init(&conn->output.outs);
	list_init(&conn->starved);
	conn->input.bytes = malloc(CONN_RECV_BYTES);
	conn->handshake.bytes = malloc(CONN_REPLY_MAX);
	if (!conn->input.bytes || !conn->handshake.bytes) {
		nbd_conn_free(conn);
		return NULL;
	}
	return conn;
}

void nbd_conn_free(struct nbd_conn *conn)
{
	check(!conn->n_running && list_is_empty(&conn->output.outs));
	if (conn->fd >= 0)
		close(conn->fd);
	free(conn->input.bytes);
	free(conn->handshake.bytes);
	free(conn->requests);
	free(conn->parts);
	free(conn);
}

int nbd_conn_alloc(struct nbd_conn *conn)
{
	check(!conn->requests && !conn->parts);
	conn->requests = calloc(CONN_REQUESTS, sizeof(*conn->requests));
	conn->parts = calloc(CONN_PARTS, sizeof(*conn->parts));
	if (!conn->requests || !conn->parts)
		return -ENOMEM;
	for (unsigned i = CONN_REQUESTS; i-- > 0;) {
		struct nbd_request *r = &conn->requests[i];

		list_init(&r->node);
		list_init(&r->parts);
		r->began_ns = &conn->figures.began_ns[i];
		r->next_free = conn->free_requests;
		conn->free_requests = r;
	}
	for (unsigned i = CONN_PARTS; i-- > 0;) {
		struct nbd_part *part = &conn->parts[i];

		list_init(&part->node);
		part->next_free = conn->free_parts;
		conn->free_parts = part;
	}
	return 0;
}

void nbd_conn_resume_soon(struct nbd_conn *conn)
{
	loop_defer(&conn->thread->loop, &conn->resume);
}

void nbd_conn_mark_dirty(struct nbd_conn *conn)
{
	if (list_is_empty(&conn->dirty))
		list_add_tail(&conn->thread->dirty, &conn->dirty);
}

void nbd_conn_send(struct nbd_conn *conn, struct nbd_out *out)
{
	check(out->sent);
	list_add_tail(&conn->output.outs, &out->node);
	nbd_conn_mark_dirty(conn);
}

void nbd_conn_fail(struct nbd_conn *conn, const char *why)
{
	conn->why = why;
	conn->on_failure(conn);
}

void nbd_conn_check_end(struct nbd_conn *conn)
{
	if (conn->n_running || !nbd_conn_is_going(conn) || !list_is_empty(&conn->output.outs))
		return;
	loop_defer(&conn->thread->loop, &conn->reap);
}

void nbd_conn_share_out(struct nbd_conn *conn)
{
	const struct nbd_export *export = conn->export;
	struct nbd_thread *thread = conn->thread;
	uint64_t share = thread->n_conns == 1 ? export->slab_bytes / 4 * 3
					      : export->slab_bytes / (thread->n_conns + 1);

	thread->share_bytes = MAX(share, export->max_io_bytes);
}
