/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections to this process' abstract sockets whose other end has not introduced itself. Any user
 * of the machine can make them, so they have limits: a connection is silent for SR_SILENCE_MS at
 * most. Other users are refused in any case, and have SR_STRANGERS at a time. Helper thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
	SR_SILENCE_MS = 60000, /* as long as a ConnectRequest waits for its answer */
	SR_STRANGERS = 16,
};

/* Whether the other end of a connection is another user's. */
bool sr_is_stranger(int sock);

/* The last connections of strangers, by numbers that are never 0. All zero: none. */
struct sr_strangers {
	uint64_t numbers[SR_STRANGERS];
	unsigned next;
};

/* Remembers one; returns the one that has to end for it if it has not ended already, or 0. */
uint64_t sr_strangers_add(struct sr_strangers *s, uint64_t number);

/* A connection to the node's socket; sock becomes its own. Without memory, it ends at once. */
void sr_caller_new(int sock);
/* The socket of that caller, or -1: it has ended. */
int sr_caller_find(uint64_t number);
/* The same, no longer watched: it has introduced itself. The result is owned. */
int sr_caller_take(uint64_t number);
