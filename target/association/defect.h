/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A broken invariant of one queue (queue_break, connection_break): a defect of rblkd, whatever the
 * host has sent. The queue can no longer be trusted, but the others can. So a case that would
 * otherwise stop the program ends only this queue (connection.c). The log has the broken invariant
 * and the last capsules, and the connection dies as any other.
 *
 * If its commands do not return within DEFECT_WAIT_S, the queue is stranded: its memory stays until
 * rblkd ends, its host may connect again (fence.h), and rblkd does not wait for it when it stops.
 *
 * check() is for what could corrupt memory that all queues use (base/check.h). Control thread.
 */
#pragma once

#include <stdbool.h>

#include "base/bits.h"

enum {
	DEFECT_WAIT_S = 10,
};

struct connection;
struct target;

/* Counts the defect, and logs it with the last capsules of the queue. what: the invariant. */
COLD void defect_log(const struct connection *c, const char *what);
/* Logs that its commands do not return. */
COLD void defect_log_stranded(const struct connection *c);
/* Whether all remaining connections are stranded: rblkd waits for none when it ends. */
bool defect_has_all_stranded(const struct target *target);
