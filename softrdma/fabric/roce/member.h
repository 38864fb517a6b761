/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This process as one of those that use RoCE on this host (network namespace): its number, which
 * the low bits of its queue pair numbers repeat, and its inbox, to which the others pass what came
 * to them and is for this one.
 *
 * The number is a name of an abstract socket, so the kernel takes it back when the process ends,
 * however it ends. The inbox has the process' first base as its name, which a successor with the
 * same number hardly ever has.
 */
#pragma once

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "softrdma/fabric/roce/packet.h"
#include "softrdma/fabric/roce/steer.h"

enum roce_passed_kind {
	ROCE_PASSED_PACKET,	 /* from the BTH to the ICRC, which is right */
	ROCE_PASSED_REQUEST,	 /* a MAD for a listener of the receiver */
	ROCE_PASSED_UNREACHABLE, /* no bytes: "port unreachable" came from remote */
};

/* The outer headers of a packet, besides the addresses. */
struct roce_arrival {
	uint16_t ip_id;	      /* of IPv4 */
	uint16_t source_port; /* of UDP */
	bool congested;	      /* an ECN mark of the network */
};

struct roce_passed {
	uint8_t kind; /* enum roce_passed_kind */
	struct roce_arrival how;
	uint32_t n;
	union ibv_gid local, remote;
	uint8_t bytes[ROCE_PACKET_MAX];
};

/* 0 to ROCE_MEMBERS - 1; -EUSERS: all are taken; -EPERM: RoCE is not wanted. Any thread. */
int roce_member_number(void);
/* The name of this process' inbox, never 0. Any thread. */
uint16_t roce_member_inbox(void);
/* Sends it to an inbox. 0, -ECONNREFUSED: that process has ended, or another -errno: it is lost.
 * Any thread; does not wait. */
int roce_member_pass(uint16_t inbox, const struct roce_passed *passed);
bool roce_member_lives(uint16_t inbox);

/* Called in the helper for each message to this process; passed is checked and valid meanwhile. */
typedef void roce_on_passed(const struct roce_passed *passed);
/* Once, before the helper runs. */
void roce_member_receive(roce_on_passed *fn);
