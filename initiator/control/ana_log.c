/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Log page 0Ch: read in pieces of 4 KiB, without NSIDs, until our group is found. Control loop.
 *
 * The first piece is read without Retain Asynchronous Event: a change during the read raises the
 * event again, and the page is read again. A page of several pieces is believed only if the change
 * count is the same afterwards; else, and if a later piece is refused because the page became
 * shorter, the page is read from its beginning. A failure is no reason to give up the path: its
 * state is then unknown, and the statuses of I/O decide.
 */
#include "base/log.h"
#include "initiator/control/ana_log.h"
#include "initiator/control/ana_walk.h"
#include "initiator/control/controller_impl.h"
#include "initiator/control/controller_command.h"
#include "transport/wire/strings.h"

enum {
	RETAIN_EVENT = 1 << 15, /* cdw10 */
};

static void read_piece(struct controller *c);

static void finish(struct controller *c, unsigned state)
{
	c->ana_state = state;
	c->ana_log.done(c);
}

static void submit(struct controller *c, uint32_t n_bytes,
		   void (*done)(void *context, const struct admin_answer *answer))
{
	struct ana_log *log = &c->ana_log;
	struct admin_command command = controller_get_log(NVME_LOG_ANA, log->cursor.at, n_bytes);
	uint32_t flags = NVME_ANA_RGO | (log->n_reads ? RETAIN_EVENT : 0);

	if (log->n_reads++ == ANA_LOG_READS_MAX) {
		finish(c, 0);
		return;
	}
	command.sqe.cdw10 = put_le32(get_le32(command.sqe.cdw10) | flags);
	command.done = done;
	controller_submit(c, &command);
}

static void begin_again(struct controller *c)
{
	c->ana_log.cursor = (struct ana_cursor){.group = c->ns.ana_group};
	read_piece(c);
}

static void on_header_again(void *context, const struct admin_answer *answer)
{
	struct controller *c = context;
	struct ana_cursor *cursor = &c->ana_log.cursor;

	if (!controller_is_up(c))
		return;
	if (answer->status != NVME_OK)
		finish(c, 0);
	else if (ana_log_change_count(answer->data) != cursor->change_count)
		begin_again(c);
	else
		finish(c, cursor->state);
}

static void read_header_again(struct controller *c)
{
	c->ana_log.cursor.at = 0;
	submit(c, sizeof(struct nvme_ana_log), on_header_again);
}

static void on_piece(void *context, const struct admin_answer *answer)
{
	struct controller *c = context;
	struct ana_cursor *cursor = &c->ana_log.cursor;
	bool is_first = !cursor->at;

	if (!controller_is_up(c))
		return;
	if (answer->status != NVME_OK) {
		log_debug("%s: log page of ANA groups: %s", c->subnqn,
			  nvme_status_string(answer->status));
		if (is_first)
			finish(c, 0);
		else
			begin_again(c);
	} else if (ana_log_walk(cursor, answer->data, ADMIN_DATA_BYTES) == ANA_WALK_MORE) {
		read_piece(c);
	} else if (is_first) {
		finish(c, cursor->state);
	} else {
		read_header_again(c);
	}
}

static void read_piece(struct controller *c)
{
	submit(c, ADMIN_DATA_BYTES, on_piece);
}

void ana_log_read(struct controller *c, void (*done)(struct controller *c))
{
	c->ana_log = (struct ana_log){
		.cursor = {.group = c->ns.ana_group}, .state_before = c->ana_state, .done = done};
	read_piece(c);
}
