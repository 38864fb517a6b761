/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The good host that comes after a hostile one: it is served at once, and of the hostile one
 * nothing is left. What a rblkd holds is read from outside: its descriptors in /proc, its queues
 * and regions in the memory that it shares with its peers under the software provider.
 */
#pragma once

#include "tests/raw/daemon.h"

struct seg;

struct good_host {
	const struct daemon *d;
	unsigned held[6]; /* while no host is connected */
};

/* Connects once, so that what is made for the first host is there, and remembers what rblkd
 * holds. */
void good_host_first(struct good_host *g, const struct daemon *d);
/*
 * Waits until every connection is gone; connects, without a second try, enables, reads, leaves;
 * waits until rblkd holds what it held. Prints, as a comment, how long connecting took.
 */
void good_host_next(const struct good_host *g);

/* The halves of both, for a test that connects in a way of its own. */
void good_host_remember(struct good_host *g, const struct daemon *d);
void good_host_check(const struct good_host *g);

/* The memory that rblkd shares with its peers, to be read only; NULL: it has none. */
const struct seg *good_host_map(const struct daemon *d);
void good_host_unmap(const struct seg *seg);
