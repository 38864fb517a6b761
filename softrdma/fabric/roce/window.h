/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How many bytes may be on their way to one address: the sum over all queue pairs, because what
 * overflows is the receiver's socket buffer. Grows while all is acknowledged, doubling until the
 * first loss; halves on a loss, once a round trip. Pure; the caller holds the lock of the peer.
 */
#pragma once

#include <stdint.h>

enum {
	ROCE_WINDOW_START = 64 << 10,
	ROCE_WINDOW_MIN = 20 << 10,
	ROCE_WINDOW_MAX = 1 << 20,
};

#define ROCE_CNP_NS 100000000ULL

struct roce_window {
	uint64_t size, threshold;
	uint64_t in_flight;
	uint64_t cut_ns; /* when it was halved last */
	uint64_t cnp_ns; /* ... because of a CNP */
	uint64_t n_cuts;
};

static inline void roce_window_init(struct roce_window *w)
{
	*w = (struct roce_window){.size = ROCE_WINDOW_START, .threshold = ROCE_WINDOW_MAX};
}

static inline uint64_t roce_window_room(const struct roce_window *w)
{
	return w->size > w->in_flight ? w->size - w->in_flight : 0;
}

static inline void roce_window_sent(struct roce_window *w, uint64_t bytes)
{
	w->in_flight += bytes;
}

static inline void roce_window_forget(struct roce_window *w, uint64_t bytes)
{
	w->in_flight -= bytes < w->in_flight ? bytes : w->in_flight;
}

static inline void roce_window_acked(struct roce_window *w, uint64_t bytes)
{
	roce_window_forget(w, bytes);
	if (w->size < w->threshold)
		w->size += bytes;
	else
		w->size += bytes * 4096 / w->size;
	if (w->size > ROCE_WINDOW_MAX)
		w->size = ROCE_WINDOW_MAX;
}

/* A loss or a notification of congestion. */
static inline void roce_window_cut(struct roce_window *w, uint64_t now, uint64_t rtt_ns)
{
	if (w->cut_ns && now - w->cut_ns < rtt_ns)
		return;
	w->cut_ns = now;
	w->n_cuts++;
	w->size /= 2;
	if (w->size < ROCE_WINDOW_MIN)
		w->size = ROCE_WINDOW_MIN;
	w->threshold = w->size;
}

/* A CNP has no number, so any host can forge it: it counts once in ROCE_CNP_NS. */
static inline void roce_window_notify(struct roce_window *w, uint64_t now, uint64_t rtt_ns)
{
	if (w->cnp_ns && now - w->cnp_ns < ROCE_CNP_NS)
		return;
	w->cnp_ns = now;
	roce_window_cut(w, now, rtt_ns);
}
