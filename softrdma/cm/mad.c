/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MADs of the connection manager: mad.h. One table a message says where each field lies, in bits
 * from the end of the MAD header as in the specification's figures. Encoding and decoding both walk
 * the table, so neither can differ from the other.
 */
#include "softrdma/cm/mad.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum {
	HEADER = 24,
	BASE_VERSION = 1,
	CLASS_CM = 7,
	CLASS_VERSION = 2,
	METHOD_SEND = 3,
	MAX_FIELDS = 48,
};

/* A number, or with n_bits 0 so many bytes as they are. */
struct field {
	uint16_t bit; /* from the end of the header; the most significant bit of a byte first */
	uint8_t n_bits;
	uint8_t size;	 /* of the member */
	uint16_t member; /* its offset in struct mad */
};

#define MEMBER(m) .size = sizeof(((struct mad *)0)->m), .member = offsetof(struct mad, m)
#define BITS(m, byte, first, n)                                                                    \
	{                                                                                          \
		.bit = (byte)*8 + (first), .n_bits = (n), MEMBER(m)                                \
	}
#define BYTES(m, byte)                                                                             \
	{                                                                                          \
		.bit = (byte)*8, MEMBER(m)                                                         \
	}
#define IDS BITS(local_id, 0, 0, 32), BITS(remote_id, 4, 0, 32)
#define PATH(p, at)                                                                                \
	BITS(p.local_lid, (at), 0, 16), BITS(p.remote_lid, (at) + 2, 0, 16),                       \
		BYTES(p.local_gid, (at) + 4), BYTES(p.remote_gid, (at) + 20),                      \
		BITS(p.flow_label, (at) + 36, 0, 20), BITS(p.rate, (at) + 39, 2, 6),               \
		BITS(p.traffic_class, (at) + 40, 0, 8), BITS(p.hop_limit, (at) + 41, 0, 8),        \
		BITS(p.service_level, (at) + 42, 0, 4), BITS(p.is_subnet_local, (at) + 42, 4, 1),  \
		BITS(p.ack_timeout, (at) + 43, 0, 5)

struct message {
	const char *name;
	uint16_t data, data_bytes; /* where the private data begins */
	struct field fields[MAX_FIELDS];
};

static const struct message messages[] = {
	[MAD_REQ - MAD_FIRST] = {"REQ",
				 140,
				 92,
				 {BITS(local_id, 0, 0, 32),
				  BITS(req.service_id, 8, 0, 64),
				  BYTES(req.guid, 16),
				  BITS(req.qkey, 28, 0, 32),
				  BITS(req.qpn, 32, 0, 24),
				  BITS(req.responder_resources, 35, 0, 8),
				  BITS(req.local_eecn, 36, 0, 24),
				  BITS(req.initiator_depth, 39, 0, 8),
				  BITS(req.remote_eecn, 40, 0, 24),
				  BITS(req.remote_timeout, 43, 0, 5),
				  BITS(req.transport, 43, 5, 2),
				  BITS(req.flow_control, 43, 7, 1),
				  BITS(req.psn, 44, 0, 24),
				  BITS(req.local_timeout, 47, 0, 5),
				  BITS(req.retry_count, 47, 5, 3),
				  BITS(req.pkey, 48, 0, 16),
				  BITS(req.path_mtu, 50, 0, 4),
				  BITS(req.rdc_exists, 50, 4, 1),
				  BITS(req.rnr_retry_count, 50, 5, 3),
				  BITS(req.max_retries, 51, 0, 4),
				  BITS(req.srq, 51, 4, 1),
				  BITS(req.transport_extended, 51, 5, 3),
				  PATH(req.primary, 52),
				  PATH(req.alternate, 96)}},
	[MAD_MRA - MAD_FIRST] = {"MRA",
				 10,
				 222,
				 {IDS, BITS(mra.answered, 8, 0, 2),
				  BITS(mra.service_timeout, 9, 0, 5)}},
	[MAD_REJ - MAD_FIRST] = {"REJ",
				 84,
				 148,
				 {IDS, BITS(rej.answered, 8, 0, 2), BITS(rej.ari_len, 9, 0, 7),
				  BITS(rej.reason, 10, 0, 16), BYTES(rej.ari, 12)}},
	[MAD_REP -
		MAD_FIRST] = {"REP",
			      36,
			      196,
			      {IDS, BITS(rep.qkey, 8, 0, 32), BITS(rep.qpn, 12, 0, 24),
			       BITS(rep.local_eecn, 16, 0, 24), BITS(rep.psn, 20, 0, 24),
			       BITS(rep.responder_resources, 24, 0, 8),
			       BITS(rep.initiator_depth, 25, 0, 8), BITS(rep.ack_delay, 26, 0, 5),
			       BITS(rep.failover, 26, 5, 2), BITS(rep.flow_control, 26, 7, 1),
			       BITS(rep.rnr_retry_count, 27, 0, 3), BITS(rep.srq, 27, 3, 1),
			       BYTES(rep.guid, 28)}},
	[MAD_RTU - MAD_FIRST] = {"RTU", 8, 224, {IDS}},
	[MAD_DREQ - MAD_FIRST] = {"DREQ", 12, 220, {IDS, BITS(dreq.remote_qpn, 8, 0, 24)}},
	[MAD_DREP - MAD_FIRST] = {"DREP", 8, 224, {IDS}},
	[MAD_SIDR_REQ -
		MAD_FIRST] = {"SIDR_REQ",
			      16,
			      216,
			      {BITS(sidr_req.request_id, 0, 0, 32), BITS(sidr_req.pkey, 4, 0, 16),
			       BITS(sidr_req.service_id, 8, 0, 64)}},
	[MAD_SIDR_REP -
		MAD_FIRST] = {"SIDR_REP",
			      96,
			      136,
			      {BITS(sidr_rep.request_id, 0, 0, 32), BITS(sidr_rep.status, 4, 0, 8),
			       BITS(sidr_rep.info_len, 5, 0, 8), BITS(sidr_rep.qpn, 8, 0, 24),
			       BITS(sidr_rep.service_id, 12, 0, 64), BITS(sidr_rep.qkey, 20, 0, 32),
			       BYTES(sidr_rep.info, 24)}},
};

static const struct message *message_of(unsigned type)
{
	return type >= MAD_FIRST && type <= MAD_LAST ? &messages[type - MAD_FIRST] : NULL;
}

unsigned mad_data_bytes(enum mad_type type)
{
	const struct message *m = message_of(type);

	return m ? m->data_bytes : 0;
}

const char *mad_name(enum mad_type type)
{
	const struct message *m = message_of(type);

	return m ? m->name : "?";
}

/* ---- numbers ------------------------------------------------------------------------ */

static uint64_t get(const uint8_t *at, unsigned n_bytes)
{
	uint64_t v = 0;

	while (n_bytes--)
		v = v << 8 | *at++;
	return v;
}

static void put(uint8_t *at, unsigned n_bytes, uint64_t v)
{
	while (n_bytes--) {
		at[n_bytes] = (uint8_t)v;
		v >>= 8;
	}
}

/* The bytes that a field touches, and how far its last bit is from their end. */
static unsigned span(const struct field *f, unsigned *ret_shift)
{
	unsigned first = f->bit % 8, n = (first + f->n_bits + 7) / 8;

	*ret_shift = n * 8 - first - f->n_bits;
	return n;
}

static uint64_t mask(const struct field *f)
{
	return UINT64_MAX >> (64 - f->n_bits);
}

static void store(void *member, unsigned size, uint64_t v)
{
	switch (size) {
	case 1:
		*(uint8_t *)member = (uint8_t)v;
		break;
	case 2:
		*(uint16_t *)member = (uint16_t)v;
		break;
	case 4:
		*(uint32_t *)member = (uint32_t)v;
		break;
	default:
		*(uint64_t *)member = v;
		break;
	}
}

static uint64_t load(const void *member, unsigned size)
{
	switch (size) {
	case 1:
		return *(const uint8_t *)member;
	case 2:
		return *(const uint16_t *)member;
	case 4:
		return *(const uint32_t *)member;
	default:
		return *(const uint64_t *)member;
	}
}

static void decode_field(const struct field *f, const uint8_t *body, struct mad *m)
{
	void *member = (char *)m + f->member;
	unsigned shift, n;

	if (!f->n_bits) {
		memcpy(member, body + f->bit / 8, f->size);
		return;
	}
	n = span(f, &shift);
	store(member, f->size, get(body + f->bit / 8, n) >> shift & mask(f));
}

static void encode_field(const struct field *f, const struct mad *m, uint8_t *body)
{
	const void *member = (const char *)m + f->member;
	uint8_t *at = body + f->bit / 8;
	unsigned shift, n;

	if (!f->n_bits) {
		memcpy(at, member, f->size);
		return;
	}
	n = span(f, &shift);
	put(at, n, get(at, n) | (load(member, f->size) & mask(f)) << shift);
}

/* ---- whole messages ----------------------------------------------------------------- */

static bool lengths_are_inside(const struct mad *m)
{
	if (m->type == MAD_REJ)
		return m->rej.ari_len <= MAD_MAX_ARI;
	if (m->type == MAD_SIDR_REP)
		return m->sidr_rep.info_len <= MAD_MAX_ARI;
	return true;
}

int mad_decode(const uint8_t bytes[MAD_BYTES], struct mad *ret)
{
	const struct message *message = message_of((unsigned)get(bytes + 16, 2));

	if (bytes[0] != BASE_VERSION || bytes[1] != CLASS_CM || bytes[2] != CLASS_VERSION ||
	    bytes[3] != METHOD_SEND)
		return -EPROTO;
	if (!message)
		return -EOPNOTSUPP;
	memset(ret, 0, sizeof(*ret));
	ret->type = (enum mad_type)get(bytes + 16, 2);
	ret->tid = get(bytes + 8, 8);
	for (const struct field *f = message->fields; f->size; f++)
		decode_field(f, bytes + HEADER, ret);
	memcpy(ret->data, bytes + HEADER + message->data, message->data_bytes);
	return lengths_are_inside(ret) ? 0 : -EPROTO;
}

void mad_encode(const struct mad *m, uint8_t ret[MAD_BYTES])
{
	const struct message *message = message_of(m->type);

	memset(ret, 0, MAD_BYTES);
	ret[0] = BASE_VERSION;
	ret[1] = CLASS_CM;
	ret[2] = CLASS_VERSION;
	ret[3] = METHOD_SEND;
	put(ret + 8, 8, m->tid);
	put(ret + 16, 2, m->type);
	if (!message)
		return;
	for (const struct field *f = message->fields; f->size; f++)
		encode_field(f, m, ret + HEADER);
	memcpy(ret + HEADER + message->data, m->data, message->data_bytes);
}
