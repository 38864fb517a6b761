/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handles a broken invariant of one queue (queue_break): a defect of rblkd, whatever the host has
 * sent. The queue can no longer be trusted, but the others can. So a case that would otherwise stop
 * the program ends only this queue. The log has the broken invariant and the last capsules, and the
 * connection dies as any other.
 *
 * If its commands do not return within DEFECT_WAIT_S, the queue is stranded: its memory stays until
 * rblkd ends, its host may connect again (fence.h), and rblkd does not wait for it when it stops.
 *
 * check() is for what could corrupt memory that all queues use (base/check.h). Control thread.
 */
#pragma once

#include <stdbool.h>

enum {
	DEFECT_WAIT_S = 10,
};

struct connection;
struct target;

/* Its poller found the defect: queue->broken. */
__attribute__((cold)) void defect_end(struct connection *c);
/* Control found the defect. what is a constant. */
__attribute__((cold)) void defect_break(struct connection *c, const char *what);
/* Before the connection is freed, stranded or not. */
void defect_forget(struct connection *c);
/* Whether all remaining connections are stranded. */
bool defect_has_all_stranded(const struct target *target);
