/* SPDX-License-Identifier: BSD-3-Clause */
/* A request's life in its connection's pool, and how errors of the volume become errors of NBD. */
#include <errno.h>

#include "base/check.h"
#include "base/states.h"
#include "nbd_bridge/io/nbd_request.h"

#define TO(s) STATE_TO(NBD_REQUEST_##s)
static const struct state_rule rules[] = {
	[NBD_REQUEST_FREE] = {"free", TO(RUNNING)},
	[NBD_REQUEST_RUNNING] = {"running", TO(STARVED) | TO(DROPPED) | TO(ANSWERED)},
	[NBD_REQUEST_STARVED] = {"starved", TO(RUNNING)},
	[NBD_REQUEST_DROPPED] = {"dropped", TO(ANSWERED)},
	[NBD_REQUEST_ANSWERED] = {"answered", TO(FREE)},
};
#undef TO

void nbd_request_move(struct nbd_request *r, enum nbd_request_state state)
{
	states_move("nbd_request", rules, &r->state, state);
}

struct nbd_request *nbd_request_take(struct nbd_conn *conn)
{
	struct nbd_request *r = conn->free_requests;

	conn->free_requests = r->next_free;
	/* Fields that the header fills in, and out, are not cleared before. parts is empty: each
	 * part leaves it before it is given back. */
	r->conn = conn;
	r->cursor = 0;
	r->n_refs = 1;
	r->n_parts = r->n_pending = 0;
	r->mode = REPLY_SIMPLE;
	r->must_flush = false;
	nbd_request_move(r, NBD_REQUEST_RUNNING);
	conn->n_running++;
	counter_add(&conn->n_requests, 1);
	counter_set(r->began_ns, conn->thread->loop.now_ns);
	counter_add(&conn->thread->stats.n_running, 1);
	return r;
}

void nbd_request_free(struct nbd_request *r)
{
	struct nbd_conn *conn = r->conn;

	check(!r->n_parts);
	nbd_request_move(r, NBD_REQUEST_FREE);
	if (conn->alone == r)
		conn->alone = NULL;
	r->next_free = conn->free_requests;
	conn->free_requests = r;
	counter_set(r->began_ns, 0);
	conn->n_running--;
	counter_add(&conn->thread->stats.n_running, (uint64_t)-1);
	if (nbd_conn_is_waiting(conn) || !list_is_empty(&conn->starved))
		nbd_conn_resume_soon(conn);
	nbd_conn_check_end(conn);
}

/* The errors of the NBD protocol are few: what has none of its own is EIO. */
static enum nbd_error map_error(const struct nbd_request *r, int error)
{
	switch (-error) {
	case EPERM:
	case EROFS:
		return NBD_EPERM;
	case ENOSPC:
		return r->type == NBD_CMD_READ ? NBD_EINVAL : NBD_ENOSPC;
	case EINVAL:
		return NBD_EINVAL;
	case EOPNOTSUPP:
		return r->flags & NBD_CMD_FLAG_FAST_ZERO ? NBD_ENOTSUP : NBD_EINVAL;
	case ESHUTDOWN:
		return NBD_ESHUTDOWN;
	default:
		return NBD_EIO;
	}
}

void nbd_request_fail(struct nbd_request *r, int error, uint64_t offset)
{
	check(error < 0);
	if (r->error && r->error_offset <= offset)
		return;
	r->error = map_error(r, error);
	r->error_offset = offset;
}
