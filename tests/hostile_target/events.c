/* SPDX-License-Identifier: BSD-3-Clause */
/* See events.h. */
#include "tests/hostile_target/events.h"
#include "tests/hostile_target/fake.h"

static unsigned pending; /* enum notice */

static uint32_t result_of(enum notice notice)
{
	switch (notice) {
	case NOTICE_NS:
		return 0x00040002;
	case NOTICE_ANA:
		return 0x000c0302;
	case NOTICE_DISCOVERY:
		return 0x0070f002;
	}
	return 0;
}

static void answer(struct conn *conn, enum notice notice)
{
	struct slot *slot = conn->aer;

	conn->aer = NULL;
	if (slot && !conn->is_dead)
		command_answer(slot, 0, result_of(notice));
}

void events_notify(enum notice notice)
{
	pending |= notice;
	for (unsigned i = 0; fabric_conn(i); i = fabric_conn(i)->index + 1) {
		struct conn *conn = fabric_conn(i);

		if (conn->is_discovery == (notice == NOTICE_DISCOVERY))
			answer(conn, notice);
	}
}

void events_clear(enum notice notice)
{
	pending &= ~(unsigned)notice;
}

int events_are_pending(enum notice notice)
{
	return (pending & notice) != 0;
}

/* Events that occurred without an outstanding request; of a chatty target without end. */
void events_start(struct slot *slot)
{
	struct conn *conn = slot->conn;

	if (conn->aer)
		violation("a second Asynchronous Event Request");
	conn->aer = slot;
	if (conn->is_discovery && (opt.chatty || events_are_pending(NOTICE_DISCOVERY)))
		answer(conn, NOTICE_DISCOVERY);
	else if (!conn->is_discovery && events_are_pending(NOTICE_NS))
		answer(conn, NOTICE_NS);
	else if (!conn->is_discovery && events_are_pending(NOTICE_ANA))
		answer(conn, NOTICE_ANA);
}
