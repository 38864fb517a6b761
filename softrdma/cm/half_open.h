/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests for connections that this side has taken, and whose sender has not shown that it
 * receives at its address: the protocol (IBA 12.9) has no answer to a request that costs no state.
 * Any machine can forge requests in any number, so they take each other's place:
 *
 *  - an address that has had a connection lately is known, and has HALF_OPEN_KNOWN of its own;
 *  - all others together have HALF_OPEN_STRANGERS, and those of one network (/24, or /64 of IPv6)
 *    half of that. Where there is no room the oldest goes, of the network that has the most. So a
 *    host that answers at once is connected however many there are that never answer.
 *
 * Besides, requests of strangers that come faster than HALF_OPEN_RATE are dropped the first time,
 * after a burst of HALF_OPEN_STRANGERS: each costs the program a queue pair. Their senders repeat
 * them, and the copy is taken. A forger would have to send each twice.
 *
 * A program that does not come to take requests has room for as many as its backlog. A quarter of
 * that is for known addresses (cm_mads.c).
 *
 * Pure, and not thread safe: one lock of the caller's guards it. The caller owns the entries, and
 * removes them before it frees them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
	HALF_OPEN_STRANGERS = 128,
	HALF_OPEN_NETWORK = HALF_OPEN_STRANGERS / 2,
	HALF_OPEN_KNOWN = 256, /* of each address; more than the 65 queues of a host at once */
	HALF_OPEN_ADDRESSES = 256,
	HALF_OPEN_RATE = 100,	/* a second */
	HALF_OPEN_SEEN = 16384, /* of those that were dropped, the last ones */
};

enum half_open_kind {
	HALF_OPEN_NOT, /* not listed */
	HALF_OPEN_STRANGER,
	HALF_OPEN_OF_KNOWN,
	HALF_OPEN_N_KINDS,
};

/* All zero: not listed. */
struct half_open {
	enum half_open_kind kind;
	struct half_open *next, *previous; /* from the oldest on */
	uint8_t gid[16];
	uint64_t network;
};

/* All zero: empty. */
struct half_opens {
	struct half_open *first[HALF_OPEN_N_KINDS], *last[HALF_OPEN_N_KINDS];
	unsigned n[HALF_OPEN_N_KINDS];
	uint8_t known[HALF_OPEN_ADDRESSES][16]; /* a ring */
	unsigned n_known;			/* ever; the last ones are there */
	uint64_t paid_ns;			/* until when the rate of strangers is used up */
	uint32_t seen[HALF_OPEN_SEEN];		/* hashes of requests */
};

/* Whether a request from that address, with that communication id, may be taken now; it counts as
 * taken. */
bool half_open_may_come(struct half_opens *t, const uint8_t gid[16], uint32_t id, uint64_t now_ns);
/* Lists a request from that address. The one that has to end for it, still listed, or NULL. */
struct half_open *half_open_add(struct half_opens *t, struct half_open *h, const uint8_t gid[16]);
/* Accepts one that is not listed. */
void half_open_remove(struct half_opens *t, struct half_open *h);
/* That address has a connection: it receives what is sent to it. */
void half_open_know(struct half_opens *t, const uint8_t gid[16]);
bool half_open_is_known(const struct half_opens *t, const uint8_t gid[16]);
