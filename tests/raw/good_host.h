/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The good host that follows a hostile one: rblkd serves it at once, and holds nothing of the
 * hostile one. The test reads from outside what rblkd holds: its descriptors in /proc, its queues
 * and regions in the memory that it shares with its peers under the software provider.
 */
#pragma once

#include "tests/raw/daemon.h"

struct seg;

struct good_host {
	const struct daemon *d;
	unsigned held[6]; /* while no host is connected */
};

/* Connects once, so that all that is made for the first host exists, and records what rblkd
 * holds. */
void good_host_first(struct good_host *g, const struct daemon *d);
/*
 * Waits until every connection is gone; connects at the first try, enables, reads, disconnects;
 * waits until rblkd holds what it held before. Prints the time to connect, as a comment.
 */
void good_host_next(const struct good_host *g);

/* The two halves of each, for a test that connects in a way of its own. */
void good_host_remember(struct good_host *g, const struct daemon *d);
void good_host_check(const struct good_host *g);

/* The memory that rblkd shares with its peers, read only; NULL: it has none. */
const struct seg *good_host_map(const struct daemon *d);
void good_host_unmap(const struct seg *seg);
