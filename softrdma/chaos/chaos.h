/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Injected faults and legal but unkind behaviour. Each hook below is asked once at its occasion, by
 * any thread; it costs one load when chaos is off. The table in chaos.c lists the faults and the
 * syntax that orders them. The helper thread changes them while the program runs. Hooks never fail
 * and own nothing.
 */
#pragma once

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "softrdma/process/api.h"

extern _Atomic bool chaos_is_on;

/* Whether any fault is ordered. Any thread. */
static inline bool chaos_on(void)
{
	return UNLIKELY(atomic_load_explicit(&chaos_is_on, memory_order_relaxed));
}

/* Whether the next registration fails. */
bool chaos_refuses_mr(void);
/* How long the next work request waits before its execution; 0: it does not. */
uint64_t chaos_hold_ns(uint64_t transport_timeout_ns);
/* How much later than at the peer a work request completes here. */
uint64_t chaos_ack_ns(void);
/* How much later than the requests behind it the next READ is executed. */
uint64_t chaos_read_ns(void);
/* Whether the receiver is not ready; for how long, given its timer and the sender's retries. */
bool chaos_rnr(void);
uint64_t chaos_rnr_ns(uint64_t timer_ns, unsigned rnr_retry);
/* How much of the rest of a message moves now, and the pause after it. The first piece decides
 * from which end the message moves. */
uint64_t chaos_piece(uint64_t left, bool first, bool *ret_backward);
uint64_t chaos_pause_ns(void);
/* Whether the next completion polled is another queue pair's. */
bool chaos_reorders(void);
bool chaos_port_is_down(void);

/* The fate of a packet that is about to be sent. */
enum chaos_packet {
	CHAOS_PACKET_GOES,
	CHAOS_PACKET_DROPPED,
	CHAOS_PACKET_TWICE,
	CHAOS_PACKET_SWAPPED, /* leaves after the next one */
	CHAOS_PACKET_CORRUPT, /* a bit of it changes */
	CHAOS_PACKET_LATE,
};
enum chaos_packet chaos_packet(void);
/* How late; which bit of so many. */
uint64_t chaos_packet_ns(void);
uint32_t chaos_packet_bit(uint32_t n_bits);

/* Whether the device is to be removed. */
enum chaos_removal {
	CHAOS_REMOVAL_NONE,
	CHAOS_REMOVAL_FATAL, /* with IBV_EVENT_DEVICE_FATAL */
	CHAOS_REMOVAL_SILENT,
};
enum chaos_removal chaos_removal(void);

/* The status with which the next work request fails; IBV_WC_SUCCESS: it does not fail. */
enum ibv_wc_status chaos_status(void);
/* Whether the next completion of a send or of a flushed receive is lost. */
bool chaos_loses(void);
/* Whether the next completion finds its queue full. */
bool chaos_overruns(void);
/* How long a ConnectRequest waits for its answer. */
uint64_t chaos_cm_timeout_ms(uint64_t usual);
/* Whether the peer's completion is pushed before the requester's own. */
bool chaos_remote_first(void);
/* Whether a completion raises an event without cause. */
bool chaos_spurious_event(void);
/* The most completions that this poll returns. */
int chaos_poll_limit(int n);
/* A place between two stores at which chaos may kill the process. */
void chaos_point_slow(void);

/* Stands between two stores; does nothing while chaos is off. */
static inline void chaos_point(void)
{
	if (chaos_on())
		chaos_point_slow();
}
