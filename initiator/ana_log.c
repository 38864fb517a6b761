/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Log page 0Ch: read in pieces of 4 KiB, groups alone, until ours is found. Control loop.
 *
 * The first piece is read without Retain Asynchronous Event: what changes while we read raises the
 * event again, and the page is read again. Failures are no reason to give up the path: then its state
 * is not known, and the target's answers tell.
 */
#include <string.h>

#include "base/bits.h"
#include "base/log.h"
#include "initiator/controller.h"

enum {
	RETAIN_EVENT = 1 << 15, /* cdw10 */
};

/* ---- the page ---- */

static unsigned known_state(uint8_t state)
{
	switch ((enum nvme_ana_state)(state & NVME_ANA_STATE_MASK)) {
	case NVME_ANA_STATE_OPTIMIZED:
	case NVME_ANA_STATE_NON_OPTIMIZED:
	case NVME_ANA_STATE_INACCESSIBLE:
	case NVME_ANA_STATE_PERSISTENT_LOSS:
	case NVME_ANA_STATE_CHANGE:
		return state & NVME_ANA_STATE_MASK;
	}
	return 0;
}

static uint64_t begin(struct ana_cursor *cursor, const uint8_t *data)
{
	struct nvme_ana_log header;

	memcpy(&header, data, sizeof(header));
	cursor->n_left = get_le16(header.ngrps);
	return sizeof(header);
}

enum ana_walk ana_log_walk(struct ana_cursor *cursor, const void *data, size_t n)
{
	const uint8_t *bytes = data;
	uint64_t pos = cursor->at ? 0 : begin(cursor, bytes);

	while (cursor->n_left && pos + sizeof(struct nvme_ana_group) <= n) {
		struct nvme_ana_group group;

		memcpy(&group, bytes + pos, sizeof(group));
		if (get_le32(group.grpid) == cursor->group) {
			cursor->state = known_state(group.state);
			return ANA_WALK_FOUND;
		}
		/* Who gives the NSIDs although they are not wanted is passed over them. */
		pos += sizeof(group) + (uint64_t)get_le32(group.nnsids) * sizeof(le32);
		cursor->n_left--;
	}
	cursor->at += pos;
	return cursor->n_left ? ANA_WALK_MORE : ANA_WALK_END;
}

/* ---- reading it ---- */

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

	if (c->is_down)
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
	struct admin_command command = controller_get_log(
		NVME_LOG_ANA, c->ana_log.cursor.at, ADMIN_DATA_BYTES);
	uint32_t flags = NVME_ANA_RGO | (c->ana_log.n_reads ? RETAIN_EVENT : 0);

	command.sqe.cdw10 = put_le32(get_le32(command.sqe.cdw10) | flags);
	command.done = on_piece;
	c->ana_log.n_reads++;
	controller_submit(c, &command);
}

void ana_log_read(struct controller *c, void (*done)(struct controller *c))
{
	c->ana_log = (struct ana_log){.cursor = {.group = c->ns.ana_group},
				      .state_before = c->ana_state,
				      .done = done};
	read_piece(c);
}
