/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which of the processes that share an address a packet is for. The kernel decides it by the same
 * rule (roce_steering) before any process sees the packet. Pure.
 *
 *   a queue pair's packet      the low bits of the base in the destination QPN (BTH byte 6)
 *   a request to QP1           none: ConnectRequest and ServiceIDResolutionRequest name a port,
 *                              and the processes find out themselves which one listens on it
 *   another datagram to QP1    the first byte of the communication id of its receiver
 */
#pragma once

#include <linux/filter.h>
#include <stddef.h>
#include <stdint.h>

enum {
	ROCE_MEMBERS = 32, /* processes of one host; a power of two */
	ROCE_FOR_ANY = ROCE_MEMBERS,
	ROCE_SOCKETS, /* of one address: one a member, and one for requests */

	ROCE_MAD_AT = 20, /* behind BTH and DETH */
	ROCE_MAD_ATTRIBUTE = 16,
	ROCE_MAD_DATA = 24,
	ROCE_MAD_SERVICE_ID = ROCE_MAD_DATA + 8, /* of both requests */
	ROCE_ATTRIBUTE_REQ = 0x10,
	ROCE_ATTRIBUTE_SIDR_REQ = 0x17,
	ROCE_ATTRIBUTE_SIDR_REP = 0x18, /* the receiver's request id comes first */
};

/* The socket of n bytes from the BTH on. Bytes that are missing count as the kernel does: as 0. */
static inline unsigned roce_steer(const uint8_t *b, size_t n)
{
	unsigned attribute;

	if (n < 8)
		return 0;
	if (b[5] || b[6] || b[7] != 1)
		return b[6] & (ROCE_MEMBERS - 1);
	if (n < ROCE_MAD_AT + ROCE_MAD_DATA + 5)
		return 0;
	attribute = (unsigned)b[ROCE_MAD_AT + ROCE_MAD_ATTRIBUTE] << 8 |
		    b[ROCE_MAD_AT + ROCE_MAD_ATTRIBUTE + 1];
	if (attribute == ROCE_ATTRIBUTE_REQ || attribute == ROCE_ATTRIBUTE_SIDR_REQ)
		return ROCE_FOR_ANY;
	return b[ROCE_MAD_AT + ROCE_MAD_DATA + (attribute == ROCE_ATTRIBUTE_SIDR_REP ? 0 : 4)] &
	       (ROCE_MEMBERS - 1);
}

/* The same as a program of the kernel, for SO_ATTACH_REUSEPORT_CBPF: offset 0 is the BTH. */
static const struct sock_filter roce_steering[] = {
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 4),
	BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xffffff),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 1, 2, 0),
	BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 6),
	BPF_STMT(BPF_JMP | BPF_JA, 7),
	BPF_STMT(BPF_LD | BPF_H | BPF_ABS, ROCE_MAD_AT + ROCE_MAD_ATTRIBUTE),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ROCE_ATTRIBUTE_REQ, 7, 0),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ROCE_ATTRIBUTE_SIDR_REQ, 6, 0),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ROCE_ATTRIBUTE_SIDR_REP, 2, 0),
	BPF_STMT(BPF_LD | BPF_B | BPF_ABS, ROCE_MAD_AT + ROCE_MAD_DATA + 4),
	BPF_STMT(BPF_JMP | BPF_JA, 1),
	BPF_STMT(BPF_LD | BPF_B | BPF_ABS, ROCE_MAD_AT + ROCE_MAD_DATA),
	BPF_STMT(BPF_ALU | BPF_AND | BPF_K, ROCE_MEMBERS - 1),
	BPF_STMT(BPF_RET | BPF_A, 0),
	BPF_STMT(BPF_RET | BPF_K, ROCE_FOR_ANY),
};
