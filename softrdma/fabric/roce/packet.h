/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One RoCE v2 packet as the payload of a UDP datagram: BTH, the extended headers of its opcode,
 * payload, pad, ICRC (IBA volume 1, chapter 9 and annex A17). Pure: no sockets, no memory of its
 * own. Its input may be hostile; icrc.h has the checksum.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	ROCE_PORT = 4791,
	ROCE_BTH_BYTES = 12,
	ROCE_ICRC_BYTES = 4,
	ROCE_HEADERS_MAX = ROCE_BTH_BYTES + 32, /* XRCETH and AtomicETH are the longest */
	ROCE_MTU_MAX = 4096,
	ROCE_PACKET_MAX = ROCE_HEADERS_MAX + ROCE_MTU_MAX + ROCE_ICRC_BYTES,
};

/* IBA table 38. */
enum roce_opcode {
	ROCE_SEND_FIRST = 0x00,
	ROCE_SEND_MIDDLE = 0x01,
	ROCE_SEND_LAST = 0x02,
	ROCE_SEND_LAST_IMM = 0x03,
	ROCE_SEND_ONLY = 0x04,
	ROCE_SEND_ONLY_IMM = 0x05,
	ROCE_WRITE_FIRST = 0x06,
	ROCE_WRITE_MIDDLE = 0x07,
	ROCE_WRITE_LAST = 0x08,
	ROCE_WRITE_LAST_IMM = 0x09,
	ROCE_WRITE_ONLY = 0x0a,
	ROCE_WRITE_ONLY_IMM = 0x0b,
	ROCE_READ_REQUEST = 0x0c,
	ROCE_READ_FIRST = 0x0d, /* the responses */
	ROCE_READ_MIDDLE = 0x0e,
	ROCE_READ_LAST = 0x0f,
	ROCE_READ_ONLY = 0x10,
	ROCE_ACK = 0x11,
	ROCE_ATOMIC_ACK = 0x12,
	ROCE_COMPARE_SWAP = 0x13,
	ROCE_FETCH_ADD = 0x14,
	ROCE_SEND_LAST_INV = 0x16,
	ROCE_SEND_ONLY_INV = 0x17,
	ROCE_UC = 0x20, /* the bit in which UC's opcodes differ from RC's */
	ROCE_UC_SEND_FIRST = 0x20,
	ROCE_UC_SEND_MIDDLE = 0x21,
	ROCE_UC_SEND_LAST = 0x22,
	ROCE_UC_SEND_LAST_IMM = 0x23,
	ROCE_UC_SEND_ONLY = 0x24,
	ROCE_UC_SEND_ONLY_IMM = 0x25,
	ROCE_UC_WRITE_FIRST = 0x26,
	ROCE_UC_WRITE_MIDDLE = 0x27,
	ROCE_UC_WRITE_LAST = 0x28,
	ROCE_UC_WRITE_LAST_IMM = 0x29,
	ROCE_UC_WRITE_ONLY = 0x2a,
	ROCE_UC_WRITE_ONLY_IMM = 0x2b,
	ROCE_UD_SEND_ONLY = 0x64,
	ROCE_UD_SEND_ONLY_IMM = 0x65,
	ROCE_XRC = 0xa0,	 /* the bits in which XRC's opcodes differ from RC's */
	ROCE_BASE_OPCODE = 0x1f, /* the others: RC's opcode */
	ROCE_CNP = 0x81,	 /* congestion notification, annex A17 */
};

/* The traits of a packet, by its opcode. */
enum roce_trait {
	ROCE_IS_KNOWN = 1 << 0,
	ROCE_HAS_RETH = 1 << 1,
	ROCE_HAS_AETH = 1 << 2,
	ROCE_HAS_ATOMIC = 1 << 3,     /* AtomicETH */
	ROCE_HAS_ATOMIC_ACK = 1 << 4, /* AtomicAckETH */
	ROCE_HAS_IMM = 1 << 5,
	ROCE_HAS_KEY = 1 << 6, /* IETH: SEND with invalidate */
	ROCE_HAS_DETH = 1 << 7,
	ROCE_HAS_PAYLOAD = 1 << 8, /* may have one */
	ROCE_IS_RESPONSE = 1 << 9, /* to a requester; other RC packets are to a responder */
	ROCE_IS_RC = 1 << 10,
	ROCE_BEGINS = 1 << 11, /* first or only packet of a message */
	ROCE_ENDS = 1 << 12,   /* last or only */
	ROCE_IS_UC = 1 << 13,
	ROCE_IS_XRC = 1 << 14,
	ROCE_HAS_SRQ = 1 << 15, /* XRCETH */
};

/* The traits of an opcode; 0 for one that no queue pair of ours understands. XRC's has those of
 * RC's, but ROCE_IS_XRC in place of ROCE_IS_RC, and ROCE_HAS_SRQ. */
unsigned roce_traits(uint8_t opcode);

/* AETH syndromes, IBA table 44. */
enum {
	ROCE_SYNDROME_ACK = 0x1f, /* without a credit count */
	ROCE_SYNDROME_RNR = 0x20, /* and the timer */
	ROCE_NAK_SEQUENCE = 0x60,
	ROCE_NAK_REQUEST = 0x61,
	ROCE_NAK_ACCESS = 0x62,
	ROCE_NAK_OPERATION = 0x63,
};

struct roce_packet {
	uint8_t opcode;
	bool solicited, ack_request;
	bool was_congested; /* BECN */
	uint32_t dest_qpn, psn;
	/* As the opcode's traits tell; 0 otherwise. */
	uint64_t va; /* RETH, AtomicETH */
	uint32_t rkey;
	uint32_t length;   /* RETH: of the whole message */
	uint64_t swap_add; /* AtomicETH */
	uint64_t compare;
	uint64_t original; /* AtomicAckETH */
	uint8_t syndrome;  /* AETH */
	uint32_t msn;
	uint32_t imm;		 /* as the application gave it: network byte order */
	uint32_t invalidate_key; /* IETH */
	uint32_t q_key, source_qpn;
	uint32_t srqn;		/* XRCETH */
	const uint8_t *payload; /* borrowed: within the bytes that were decoded */
	uint32_t payload_bytes;
};

/*
 * Decodes what follows the UDP header, ICRC included. False: not a packet for us (an opcode that is
 * not known, another transport version or partition, too short, a pad without payload); *ret is
 * undefined then. ret->payload points into bytes.
 */
bool roce_packet_decode(const uint8_t *bytes, size_t n, struct roce_packet *ret);

/*
 * Writes BTH and extended headers to at most ROCE_HEADERS_MAX bytes. The caller adds payload_bytes
 * of payload, roce_pad_bytes() zeros and the ICRC. Returns the bytes written.
 */
size_t roce_packet_encode(const struct roce_packet *p, uint8_t *to);

static inline unsigned roce_pad_bytes(uint32_t payload_bytes)
{
	return -payload_bytes & 3;
}
