/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The slab is small, as a device pins it, and a stopped client may hold its part of it for hours.
 * So its bytes are copied out as soon as another needs the buffer. That costs a copy and no
 * connection: a paused virtual machine goes on where it stopped. The copies count as held, so a
 * client has never more memory than its share was when it took it, and all of them together about
 * three slabs (3/4 + 1/3 + 1/4 + ...).
 *
 * A part that is with the volume keeps its buffer: there all wait for the target alone.
 */
#include "base/check.h"
#include "base/log.h"
#include "base/units.h"
#include "nbd_bridge/io/nbd_part.h"
#include "nbd_bridge/io/nbd_reclaim.h"

/* The next step is its client's. */
static bool awaits_client(const struct nbd_conn *conn, const struct nbd_part *part)
{
	return part->state == PART_SENDING || part == conn->input.filling;
}

/* False: there is no memory for its bytes. */
static bool look_at_part(struct nbd_conn *conn, struct nbd_part *part)
{
	if (!part->buffer || !awaits_client(conn, part))
		return true;
	if (!part->was_seen) {
		part->was_seen = true;
		return true;
	}
	counter_add(&conn->thread->stats.n_copied_out, 1);
	return nbd_part_copy_out(part);
}

static void look_at_conn(struct nbd_conn *conn)
{
	uint64_t *n_copied = &conn->figures.n_copied_bytes, n_before = *n_copied;
	char size[UNITS_MAX];

	if (!conn->parts || conn->state == CONN_CLOSED)
		return;
	for (unsigned i = 0; i < CONN_PARTS; i++)
		if (!look_at_part(conn, &conn->parts[i])) {
			log_warn("nbd %u, %s, stands still while others wait for memory, and there "
				 "is none to copy its data to: hanging up",
				 conn->id, conn->peer);
			nbd_conn_fail(conn, "no memory for the data of a client that stands still");
			return;
		}
	if (!n_before && *n_copied)
		log_info("nbd %u, %s, %s while others wait for memory: %s are copied out for them",
			 conn->id, conn->peer,
			 conn->input.filling && conn->input.filling->copy
				 ? "stands still in the middle of a write"
				 : "takes no replies",
			 units_format_size(size, *n_copied));
}

void nbd_reclaim_on_look(struct loop_timer *timer)
{
	struct nbd_thread *thread = container_of(timer, struct nbd_thread, reclaim);
	bool is_short = false;

	list_for_each (node, &thread->conns)
		is_short |= list_entry(node, struct nbd_conn, node)->is_waiting_for_buffer;
	if (!is_short)
		return;
	list_for_each (node, &thread->conns)
		look_at_conn(list_entry(node, struct nbd_conn, node));
	loop_timer_start(&thread->loop, timer, NBD_RECLAIM_NS);
}
