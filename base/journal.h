/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records with fields for the system's journal (systemd-journald), in its native protocol: one
 * datagram a record. For log.c alone, once it knows that stderr is the journal. Never blocks:
 * what the journal does not take at once, log.c writes to stderr.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/log.h"

/* Opens a socket to the journal, at $RBLK_JOURNAL_SOCKET if that is set (tests do). Without a
 * socket, journal_send refuses each record. Before threads start. */
void journal_open(void);
/* Whether the journal took the record. text: n bytes, without the newline at its end. priority: of
 * syslog(3). about may be NULL. Any thread. */
bool journal_send(int priority, const char *program, const struct log_about *about,
		  const char *text, size_t n);
