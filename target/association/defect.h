/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When an invariant of one queue breaks (queue_break). That is a mistake of ours, whatever its host
 * has sent. The queue that shows it cannot be trusted any more; the others can. So what would stop
 * the program elsewhere ends this queue only: the log says what was to happen and which capsules
 * came last, and the connection dies as any other.
 *
 * If its commands do not come back within DEFECT_WAIT_S it is stranded: its memory stays until
 * rblkd ends, its host may connect again (fence.h), and rblkd does not wait for it when it stops.
 *
 * check() is left for what could corrupt memory that all queues use (base/check.h). Control thread.
 */
#pragma once

#include <stdbool.h>

enum {
	DEFECT_WAIT_S = 10,
};

struct connection;
struct target;

/* Its poller found one: queue->broken. */
__attribute__((cold)) void defect_end(struct connection *c);
/* Control found one. what is a constant. */
__attribute__((cold)) void defect_break(struct connection *c, const char *what);
/* It is about to be freed, stranded or not. */
void defect_forget(struct connection *c);
/* Whether the connections that are left are all stranded. */
bool defect_has_all_stranded(const struct target *target);
