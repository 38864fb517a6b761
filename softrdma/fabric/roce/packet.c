/* SPDX-License-Identifier: BSD-3-Clause */
/* Headers of RoCE v2; see packet.h. All fields but the ICRC are big endian. */
#include "softrdma/fabric/roce/packet.h"

#include <endian.h>
#include <string.h>

#define REQUEST	 (ROCE_IS_KNOWN | ROCE_IS_RC)
#define RESPONSE (ROCE_IS_KNOWN | ROCE_IS_RC | ROCE_IS_RESPONSE)
#define LOSSY	 (ROCE_IS_KNOWN | ROCE_IS_UC)
#define DATA	 ROCE_HAS_PAYLOAD
#define ONLY	 (ROCE_BEGINS | ROCE_ENDS)

enum {
	PARTITION = 0x7fff, /* the default one; the top bit tells full from limited members */
	PAD_SHIFT = 4,
	TRANSPORT_VERSION = 0x0f,
	SOLICITED = 0x80,
	MIGRATED = 0x40, /* the usual state; not checked */
	ACK_REQUEST = 0x80,
	BECN = 0x40,
};

static const uint16_t traits[256] = {
	[ROCE_SEND_FIRST] = REQUEST | DATA | ROCE_BEGINS,
	[ROCE_SEND_MIDDLE] = REQUEST | DATA,
	[ROCE_SEND_LAST] = REQUEST | DATA | ROCE_ENDS,
	[ROCE_SEND_LAST_IMM] = REQUEST | DATA | ROCE_ENDS | ROCE_HAS_IMM,
	[ROCE_SEND_ONLY] = REQUEST | DATA | ONLY,
	[ROCE_SEND_ONLY_IMM] = REQUEST | DATA | ONLY | ROCE_HAS_IMM,
	[ROCE_SEND_LAST_INV] = REQUEST | DATA | ROCE_ENDS | ROCE_HAS_KEY,
	[ROCE_SEND_ONLY_INV] = REQUEST | DATA | ONLY | ROCE_HAS_KEY,
	[ROCE_WRITE_FIRST] = REQUEST | DATA | ROCE_BEGINS | ROCE_HAS_RETH,
	[ROCE_WRITE_MIDDLE] = REQUEST | DATA,
	[ROCE_WRITE_LAST] = REQUEST | DATA | ROCE_ENDS,
	[ROCE_WRITE_LAST_IMM] = REQUEST | DATA | ROCE_ENDS | ROCE_HAS_IMM,
	[ROCE_WRITE_ONLY] = REQUEST | DATA | ONLY | ROCE_HAS_RETH,
	[ROCE_WRITE_ONLY_IMM] = REQUEST | DATA | ONLY | ROCE_HAS_RETH | ROCE_HAS_IMM,
	[ROCE_READ_REQUEST] = REQUEST | ONLY | ROCE_HAS_RETH,
	[ROCE_COMPARE_SWAP] = REQUEST | ONLY | ROCE_HAS_ATOMIC,
	[ROCE_FETCH_ADD] = REQUEST | ONLY | ROCE_HAS_ATOMIC,
	[ROCE_READ_FIRST] = RESPONSE | DATA | ROCE_BEGINS | ROCE_HAS_AETH,
	[ROCE_READ_MIDDLE] = RESPONSE | DATA,
	[ROCE_READ_LAST] = RESPONSE | DATA | ROCE_ENDS | ROCE_HAS_AETH,
	[ROCE_READ_ONLY] = RESPONSE | DATA | ONLY | ROCE_HAS_AETH,
	[ROCE_ACK] = RESPONSE | ONLY | ROCE_HAS_AETH,
	[ROCE_ATOMIC_ACK] = RESPONSE | ONLY | ROCE_HAS_AETH | ROCE_HAS_ATOMIC_ACK,
	[ROCE_UC_SEND_FIRST] = LOSSY | DATA | ROCE_BEGINS,
	[ROCE_UC_SEND_MIDDLE] = LOSSY | DATA,
	[ROCE_UC_SEND_LAST] = LOSSY | DATA | ROCE_ENDS,
	[ROCE_UC_SEND_LAST_IMM] = LOSSY | DATA | ROCE_ENDS | ROCE_HAS_IMM,
	[ROCE_UC_SEND_ONLY] = LOSSY | DATA | ONLY,
	[ROCE_UC_SEND_ONLY_IMM] = LOSSY | DATA | ONLY | ROCE_HAS_IMM,
	[ROCE_UC_WRITE_FIRST] = LOSSY | DATA | ROCE_BEGINS | ROCE_HAS_RETH,
	[ROCE_UC_WRITE_MIDDLE] = LOSSY | DATA,
	[ROCE_UC_WRITE_LAST] = LOSSY | DATA | ROCE_ENDS,
	[ROCE_UC_WRITE_LAST_IMM] = LOSSY | DATA | ROCE_ENDS | ROCE_HAS_IMM,
	[ROCE_UC_WRITE_ONLY] = LOSSY | DATA | ONLY | ROCE_HAS_RETH,
	[ROCE_UC_WRITE_ONLY_IMM] = LOSSY | DATA | ONLY | ROCE_HAS_RETH | ROCE_HAS_IMM,
	[ROCE_UD_SEND_ONLY] = ROCE_IS_KNOWN | DATA | ONLY | ROCE_HAS_DETH,
	[ROCE_UD_SEND_ONLY_IMM] = ROCE_IS_KNOWN | DATA | ONLY | ROCE_HAS_DETH | ROCE_HAS_IMM,
	[ROCE_CNP] = ROCE_IS_KNOWN | DATA | ONLY, /* 16 reserved bytes */
};

/* IBA A14: XRC has the opcodes of RC, and its requests name an SRQ. */
static unsigned xrc_traits(uint8_t opcode)
{
	unsigned has = traits[opcode & ROCE_BASE_OPCODE];

	if (!has)
		return 0;
	return (has & ~(unsigned)ROCE_IS_RC) | ROCE_IS_XRC |
	       (has & ROCE_IS_RESPONSE ? 0 : ROCE_HAS_SRQ);
}

unsigned roce_traits(uint8_t opcode)
{
	if ((opcode & ~ROCE_BASE_OPCODE) == ROCE_XRC)
		return xrc_traits(opcode);
	return traits[opcode];
}

static uint16_t get16(const uint8_t *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

static uint32_t get32(const uint8_t *at)
{
	uint32_t v;

	memcpy(&v, at, sizeof(v));
	return be32toh(v);
}

static uint64_t get64(const uint8_t *at)
{
	return (uint64_t)get32(at) << 32 | get32(at + 4);
}

static uint8_t *put32(uint8_t *at, uint32_t v)
{
	v = htobe32(v);
	memcpy(at, &v, sizeof(v));
	return at + sizeof(v);
}

static uint8_t *put64(uint8_t *at, uint64_t v)
{
	return put32(put32(at, (uint32_t)(v >> 32)), (uint32_t)v);
}

static size_t extended_bytes(unsigned has)
{
	return (has & ROCE_HAS_RETH ? 16 : 0) + (has & ROCE_HAS_AETH ? 4 : 0) +
	       (has & ROCE_HAS_ATOMIC ? 28 : 0) + (has & ROCE_HAS_ATOMIC_ACK ? 8 : 0) +
	       (has & ROCE_HAS_IMM ? 4 : 0) + (has & ROCE_HAS_KEY ? 4 : 0) +
	       (has & ROCE_HAS_DETH ? 8 : 0) + (has & ROCE_HAS_SRQ ? 4 : 0);
}

/* The headers between BTH and payload, in the order of IBA 9.2. */
static void decode_extended(unsigned has, const uint8_t *at, struct roce_packet *p)
{
	if (has & ROCE_HAS_SRQ) {
		p->srqn = get32(at) & 0xffffff;
		at += 4;
	}
	if (has & ROCE_HAS_DETH) {
		p->q_key = get32(at);
		p->source_qpn = get32(at + 4) & 0xffffff;
		at += 8;
	}
	if (has & (ROCE_HAS_RETH | ROCE_HAS_ATOMIC)) {
		p->va = get64(at);
		p->rkey = get32(at + 8);
		at += 12;
	}
	if (has & ROCE_HAS_RETH) {
		p->length = get32(at);
		at += 4;
	}
	if (has & ROCE_HAS_ATOMIC) {
		p->swap_add = get64(at);
		p->compare = get64(at + 8);
	}
	if (has & ROCE_HAS_AETH) {
		p->syndrome = at[0];
		p->msn = get32(at) & 0xffffff;
		at += 4;
	}
	if (has & ROCE_HAS_ATOMIC_ACK)
		p->original = get64(at);
	if (has & ROCE_HAS_IMM)
		memcpy(&p->imm, at, 4);
	if (has & ROCE_HAS_KEY)
		p->invalidate_key = get32(at);
}

bool roce_packet_decode(const uint8_t *bytes, size_t n, struct roce_packet *ret)
{
	unsigned has, pad;
	size_t headers;

	if (n < ROCE_BTH_BYTES + ROCE_ICRC_BYTES)
		return false;
	has = roce_traits(bytes[0]);
	pad = bytes[1] >> PAD_SHIFT & 3;
	headers = ROCE_BTH_BYTES + extended_bytes(has);
	if (!has || bytes[1] & TRANSPORT_VERSION || (get16(bytes + 2) & PARTITION) != PARTITION ||
	    n < headers + pad + ROCE_ICRC_BYTES || n % 4)
		return false;
	*ret = (struct roce_packet){
		.opcode = bytes[0],
		.solicited = bytes[1] & SOLICITED,
		.was_congested = bytes[4] & BECN,
		.dest_qpn = get32(bytes + 4) & 0xffffff,
		.ack_request = bytes[8] & ACK_REQUEST,
		.psn = get32(bytes + 8) & 0xffffff,
		.payload = bytes + headers,
		.payload_bytes = (uint32_t)(n - headers - pad - ROCE_ICRC_BYTES),
	};
	if (!(has & ROCE_HAS_PAYLOAD) && (ret->payload_bytes || pad))
		return false;
	decode_extended(has, bytes + ROCE_BTH_BYTES, ret);
	return true;
}

static uint8_t *encode_extended(unsigned has, const struct roce_packet *p, uint8_t *at)
{
	if (has & ROCE_HAS_SRQ)
		at = put32(at, p->srqn & 0xffffff);
	if (has & ROCE_HAS_DETH)
		at = put32(put32(at, p->q_key), p->source_qpn & 0xffffff);
	if (has & (ROCE_HAS_RETH | ROCE_HAS_ATOMIC))
		at = put32(put64(at, p->va), p->rkey);
	if (has & ROCE_HAS_RETH)
		at = put32(at, p->length);
	if (has & ROCE_HAS_ATOMIC)
		at = put64(put64(at, p->swap_add), p->compare);
	if (has & ROCE_HAS_AETH)
		at = put32(at, (uint32_t)p->syndrome << 24 | (p->msn & 0xffffff));
	if (has & ROCE_HAS_ATOMIC_ACK)
		at = put64(at, p->original);
	if (has & ROCE_HAS_IMM) {
		memcpy(at, &p->imm, 4);
		at += 4;
	}
	if (has & ROCE_HAS_KEY)
		at = put32(at, p->invalidate_key);
	return at;
}

size_t roce_packet_encode(const struct roce_packet *p, uint8_t *to)
{
	unsigned pad = roce_pad_bytes(p->payload_bytes);
	uint8_t *at = to;

	at[0] = p->opcode;
	at[1] = (uint8_t)((p->solicited ? SOLICITED : 0) | MIGRATED | pad << PAD_SHIFT);
	at[2] = at[3] = 0xff; /* the default partition, full member */
	at = put32(at + 4,
		   (p->was_congested ? (uint32_t)BECN << 24 : 0) | (p->dest_qpn & 0xffffff));
	at = put32(at, (p->ack_request ? (uint32_t)ACK_REQUEST << 24 : 0) | (p->psn & 0xffffff));
	return (size_t)(encode_extended(roce_traits(p->opcode), p, at) - to);
}
