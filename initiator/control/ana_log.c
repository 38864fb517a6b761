/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Log page 0Ch: read in pieces of 4 KiB, without NSIDs, until our group is found. Control loop.
 *
 * The first piece is read without Retain Asynchronous Event: a change during the read raises the
 * event again, and the page is read again. A failure is no reason to give up the path: its state is
 * then unknown, and the statuses of I/O decide.
 */
#include "base/log.h"
#include "initiator/control/controller.h"

enum {
	RETAIN_EVENT = 1 << 15, /* cdw10 */
};

static void read_piece(struct controller *c);

static void finish(struct controller *c, unsigned state)
{
	c->ana_state = state;
	c->ana_log.done(c);
}

static void on_piece(void *context, const struct admin_answer *answer)
{
	struct controller *c = context;
	struct ana_cursor *cursor = &c->ana_log.cursor;
	enum ana_walk next = ANA_WALK_END;

	if (!controller_is_up(c))
		return;
	if (answer->status == NVME_OK)
		next = ana_log_walk(cursor, answer->data, ADMIN_DATA_BYTES);
	else
		log_debug("%s: log page of ANA groups: %s", c->subnqn,
			  nvme_status_string(answer->status));
	if (next == ANA_WALK_MORE && c->ana_log.n_reads < ANA_LOG_READS_MAX)
		read_piece(c);
	else
		finish(c, next == ANA_WALK_FOUND ? cursor->state : 0);
}

static void read_piece(struct controller *c)
{
	struct admin_command command = controller_get_log(NVME_LOG_ANA, c->ana_log.cursor.at,
							  ADMIN_DATA_BYTES);
	uint32_t flags = NVME_ANA_RGO | (c->ana_log.n_reads ? RETAIN_EVENT : 0);

	command.sqe.cdw10 = put_le32(get_le32(command.sqe.cdw10) | flags);
	command.done = on_piece;
	c->ana_log.n_reads++;
	controller_submit(c, &command);
}

void ana_log_read(struct controller *c, void (*done)(struct controller *c))
{
	c->ana_log = (struct ana_log){
		.cursor = {.group = c->ns.ana_group}, .state_before = c->ana_state, .done = done};
	read_piece(c);
}
