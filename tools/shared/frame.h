/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RoCE v2 frames for capture files: Ethernet, IPv4 or IPv6, UDP to port 4791, BTH, payload, ICRC
 * (InfiniBand specification volume 1, annexes A16 and A17). MAC addresses are made of the IP
 * addresses. Pure, any thread; softrdma/trace/trace_packet.c does the same for softrdma, which
 * shares no code with the programs that it serves.
 */
#pragma once

#include <stdint.h>
#include <stdio.h>

enum {
	FRAME_MAX = 512,
};

struct frame {
	unsigned n, ip, bth; /* bytes so far; where these headers begin */
	uint8_t data[FRAME_MAX];
};

/* The fields of a BTH (base transport header). */
struct frame_bth {
	uint8_t opcode;
	uint32_t dest_qpn, psn;
};

/* Writes the headers up to the BTH. Addresses are IPv6; IPv4 is mapped into it. */
void frame_begin(struct frame *frame, const uint8_t from[16], const uint8_t to[16],
		 const struct frame_bth *bth);
/* Appends n zeroed bytes, or a big-endian number. */
uint8_t *frame_add(struct frame *frame, unsigned n);
void frame_add16(struct frame *frame, uint32_t v);
void frame_add32(struct frame *frame, uint32_t v);
void frame_add64(struct frame *frame, uint64_t v);
/* Pads, and fills lengths and checksums. */
void frame_end(struct frame *frame);

/* Begins a pcapng file: one section, one Ethernet interface of that name, nanoseconds. Errors: see
 * ferror. */
void frame_file_begin(FILE *file, const char *name);
void frame_file_add(FILE *file, const struct frame *frame, uint64_t wall_ns);
