/* SPDX-License-Identifier: BSD-3-Clause */
/* Commands of a storm: every opcode, with fields that are mostly legal; in some commands one bit is
 * inverted. */
#include <stddef.h>
#include <string.h>

#include "base/bits.h"
#include "tests/storm/storm.h"

enum {
	NEAR = 64, /* blocks that all write */
	FAR = 40000,
	SPOILT = 15, /* of 1000 */
};

static unsigned in_capsule_max;

void set_in_capsule_max(unsigned n_bytes)
{
	in_capsule_max = n_bytes;
}

static uint32_t any_nsid(struct dice *dice)
{
	if (chance(dice, 20))
		return chance(dice, 500) ? NVME_NSID_ALL : (uint32_t)roll(dice, 9);
	return 1 + (uint32_t)roll(dice, STORM_NAMESPACES);
}

static unsigned block_size(uint32_t nsid)
{
	return nsid == 2 || nsid == 4 ? 4096 : 512;
}

static void spoil(struct dice *dice, struct nvme_sqe *sqe)
{
	if (chance(dice, SPOILT))
		((uint8_t *)sqe)[roll(dice, sizeof(*sqe))] ^= (uint8_t)(1 << roll(dice, 8));
}

/* Describes length bytes at q->data, by key or in the capsule. */
static void finish(struct dice *dice, struct raw_queue *q, struct nvme_sqe *sqe, uint64_t length,
		   bool is_from_host, struct capsule_made *c)
{
	c->n = sizeof(*sqe);
	if (length > RAW_DATA_BYTES)
		length = RAW_DATA_BYTES;
	if (length && is_from_host && length <= in_capsule_max && chance(dice, 500)) {
		memset(&sqe->sgl, 0, sizeof(sqe->sgl));
		sqe->sgl.block.length = put_le32((uint32_t)length);
		sqe->sgl.block.type = NVME_SGL_DATA_BLOCK_OFFSET;
		memcpy(c->bytes + c->n, q->data, length);
		c->n += (uint32_t)length;
	} else if (length) {
		raw_describe(q, sqe, 0, (uint32_t)length);
	}
	spoil(dice, sqe);
	memcpy(c->bytes, sqe, sizeof(*sqe));
	if (c->n > sizeof(*sqe) && chance(dice, 10))
		c->n -= (uint32_t)roll(dice, c->n - sizeof(*sqe));
}

/* ---- I/O ------------------------------------------------------------------------------------ */

static void put_range(char *to, uint64_t slba, uint32_t n_blocks)
{
	struct nvme_dsm_range range = {.nlb = put_le32(n_blocks), .slba = put_le64(slba)};

	memcpy(to, &range, sizeof(range));
}

static uint64_t make_deallocate(struct dice *dice, struct raw_queue *q, struct nvme_sqe *sqe)
{
	unsigned n = 1 + (unsigned)roll(dice, chance(dice, 900) ? 4 : 256);

	sqe->cdw10 = put_le32(n - 1);
	sqe->cdw11 = put_le32(chance(dice, 900) ? 4 : (uint32_t)roll(dice, 8));
	sqe->cdw12 = put_le32(0);
	for (unsigned i = 0; i < n; i++)
		put_range(q->data + 16 * i, roll(dice, chance(dice, 990) ? 2000 : 1 << 30),
			  (uint32_t)roll(dice, NEAR));
	return 16 * (uint64_t)n;
}

static uint64_t make_copy(struct dice *dice, struct raw_queue *q, struct nvme_sqe *sqe)
{
	unsigned n = 1 + (unsigned)roll(dice, chance(dice, 900) ? 3 : 128);

	sqe->cdw12 = put_le32(n - 1);
	memset(q->data, 0, 32 * n);
	for (unsigned i = 0; i < n; i++) {
		le64 slba = put_le64(roll(dice, chance(dice, 950) ? 200 : 1 << 28));
		le16 nlb = put_le16((uint16_t)roll(dice, chance(dice, 900) ? 32 : 65536));

		memcpy(q->data + 32 * i + 8, &slba, sizeof(slba));
		memcpy(q->data + 32 * i + 16, &nlb, sizeof(nlb));
	}
	return 32 * (uint64_t)n;
}

/* Keys are few, so that some fit. */
static uint64_t make_reservation(struct dice *dice, struct raw_queue *q, struct nvme_sqe *sqe)
{
	le64 keys[2] = {put_le64(roll(dice, 4)), put_le64(1 + roll(dice, 3))};
	uint32_t action = (uint32_t)roll(dice, 4), type = 1 + (uint32_t)roll(dice, 6);

	memcpy(q->data, keys, sizeof(keys));
	switch (sqe->opcode) {
	case NVME_IO_RESERVATION_REGISTER:
		sqe->cdw10 = put_le32(action | (chance(dice, 300) ? 8 : 0) |
				      (uint32_t)roll(dice, 4) << 30);
		return 16;
	case NVME_IO_RESERVATION_ACQUIRE:
		sqe->cdw10 = put_le32(action | (chance(dice, 50) ? 8 : 0) | type << 8);
		return 16;
	default:
		sqe->cdw10 = put_le32((action & 1) | (chance(dice, 50) ? 8 : 0) | type << 8);
		return 8;
	}
}

static uint64_t make_blocks(struct dice *dice, struct nvme_sqe *sqe, uint32_t nsid)
{
	uint32_t n = 1 + (uint32_t)roll(dice, chance(dice, 700)	  ? 8
					      : chance(dice, 900) ? 256
								  : 65536);
	uint32_t flags = (chance(dice, 200) ? 1U << 30 : 0) | (chance(dice, 100) ? 1U << 25 : 0);

	sqe->cdw10 = put_le32((uint32_t)roll(dice, chance(dice, 700) ? NEAR : FAR));
	sqe->cdw12 = put_le32((n - 1) | flags);
	return (uint64_t)n * block_size(nsid);
}

static uint64_t fill_in(struct dice *dice, struct raw_queue *q, struct nvme_sqe *sqe, uint32_t nsid,
			bool *ret_is_from_host)
{
	uint64_t length = make_blocks(dice, sqe, nsid);
	uint32_t n_dwords;

	*ret_is_from_host = true;
	switch (sqe->opcode) {
	case NVME_IO_FLUSH:
	case NVME_IO_WRITE_UNCORRECTABLE:
	case NVME_IO_WRITE_ZEROES:
	case NVME_IO_VERIFY:
		return 0;
	case NVME_IO_READ:
		*ret_is_from_host = false;
		return length;
	case NVME_IO_DSM:
		return make_deallocate(dice, q, sqe);
	case NVME_IO_COPY:
		return make_copy(dice, q, sqe);
	case NVME_IO_RESERVATION_REGISTER:
	case NVME_IO_RESERVATION_ACQUIRE:
	case NVME_IO_RESERVATION_RELEASE:
		return make_reservation(dice, q, sqe);
	case NVME_IO_RESERVATION_REPORT:
		n_dwords = 1 + (uint32_t)roll(dice, 2000);
		sqe->cdw10 = put_le32(n_dwords - 1);
		sqe->cdw11 = put_le32(chance(dice, 900));
		*ret_is_from_host = false;
		return 4 * (uint64_t)n_dwords;
	default:
		memset(q->data, (int)roll(dice, 256), 4096);
		return length;
	}
}

void make_io_command(struct dice *dice, struct raw_queue *q, struct capsule_made *c)
{
	static const uint8_t opcodes[] = {
		NVME_IO_WRITE,
		NVME_IO_WRITE,
		NVME_IO_WRITE,
		NVME_IO_READ,
		NVME_IO_READ,
		NVME_IO_READ,
		NVME_IO_FLUSH,
		NVME_IO_WRITE_UNCORRECTABLE,
		NVME_IO_COMPARE,
		NVME_IO_WRITE_ZEROES,
		NVME_IO_DSM,
		NVME_IO_VERIFY,
		NVME_IO_COPY,
		NVME_IO_COPY,
		NVME_IO_RESERVATION_REGISTER,
		NVME_IO_RESERVATION_REPORT,
		NVME_IO_RESERVATION_ACQUIRE,
		NVME_IO_RESERVATION_RELEASE,
	};
	uint8_t opcode = chance(dice, 10) ? (uint8_t)roll(dice, 256)
					  : opcodes[roll(dice, sizeof(opcodes))];
	uint32_t nsid = any_nsid(dice);
	struct nvme_sqe sqe = raw_sqe(q, opcode, nsid);
	bool is_from_host;
	uint64_t length = fill_in(dice, q, &sqe, nsid, &is_from_host);

	if (chance(dice, 40)) /* half of a pair, without the other */
		sqe.flags |= (uint8_t)(1 + roll(dice, 2));
	finish(dice, q, &sqe, length, is_from_host, c);
}

/* ---- duels ---------------------------------------------------------------------------------- */

enum {
	DUEL_BLOCKS = 4, /* hosts meet at these */
	DUEL_MIN = 200,
	DUEL_MAX = 2000,
};

void start_duel(struct dice *dice, struct duel *duel)
{
	static const uint8_t opcodes[] = {
		NVME_IO_WRITE,
		NVME_IO_READ,
		NVME_IO_WRITE_UNCORRECTABLE,
		NVME_IO_WRITE_UNCORRECTABLE,
		NVME_IO_WRITE_ZEROES,
		NVME_IO_COMPARE,
		NVME_IO_COPY,
		NVME_IO_VERIFY,
	};

	duel->nsid = 1 + (uint32_t)roll(dice, STORM_NAMESPACES);
	duel->slba = roll(dice, DUEL_BLOCKS);
	duel->opcodes[0] = NVME_IO_WRITE;
	for (unsigned i = 1; i < ARRAY_LEN(duel->opcodes); i++)
		duel->opcodes[i] = opcodes[roll(dice, sizeof(opcodes))];
	duel->n_left = DUEL_MIN + (unsigned)roll(dice, DUEL_MAX - DUEL_MIN);
}

void make_duel_command(struct dice *dice, struct raw_queue *q, struct duel *duel,
		       struct capsule_made *c)
{
	uint8_t opcode = duel->opcodes[roll(dice, ARRAY_LEN(duel->opcodes))];
	struct nvme_sqe sqe = raw_sqe(q, opcode, duel->nsid);
	bool is_from_host;
	uint64_t length = fill_in(dice, q, &sqe, duel->nsid, &is_from_host);

	sqe.cdw10 = put_le32((uint32_t)duel->slba);
	if (opcode != NVME_IO_COPY) {
		sqe.cdw12 = put_le32(0);
		length = length ? block_size(duel->nsid) : 0;
	}
	duel->n_left--;
	finish(dice, q, &sqe, length, is_from_host, c);
}

/* ---- pairs ---------------------------------------------------------------------------------- */

void make_half(struct dice *dice, struct raw_queue *q, bool is_second, uint32_t nsid, uint64_t slba,
	       struct capsule_made *c)
{
	struct nvme_sqe sqe = raw_blocks(q, is_second ? NVME_IO_WRITE : NVME_IO_COMPARE, nsid,
					 chance(dice, 980) ? slba : slba + 1, 1);

	sqe.flags |= is_second ? NVME_FLAGS_FUSE_SECOND : NVME_FLAGS_FUSE_FIRST;
	memset(q->data, chance(dice, 700) ? 0 : (int)roll(dice, 256), 4096);
	finish(dice, q, &sqe, block_size(nsid), true, c);
}

/* ---- admin ---------------------------------------------------------------------------------- */

static uint64_t make_log_page(struct dice *dice, struct nvme_sqe *sqe)
{
	static const uint8_t pages[] = {1, 2, 3, 4, 5, 0xc, 0xd, 0x70, 0x80};
	uint32_t n = (uint32_t)roll(dice, chance(dice, 950) ? 2000 : 1 << 18);

	sqe->nsid = put_le32(chance(dice, 800) ? NVME_NSID_ALL : (uint32_t)roll(dice, 8));
	sqe->cdw10 = put_le32(pages[roll(dice, sizeof(pages))] | (uint32_t)roll(dice, 16) << 8 |
			      (n & 0xffff) << 16);
	sqe->cdw11 = put_le32(n >> 16);
	sqe->cdw12 = put_le32(chance(dice, 600) ? 0 : 4 * (uint32_t)roll(dice, 3000));
	return 4 * (uint64_t)(n + 1);
}

static uint64_t make_feature(struct dice *dice, struct nvme_sqe *sqe)
{
	static const uint8_t features[] = {1,	2,   4,	   5,	 6,    7,    8,	   9,	0xa,
					   0xb, 0xf, 0x16, 0x81, 0x82, 0x83, 0x84, 0x84};
	uint8_t feature = features[roll(dice, sizeof(features))];
	uint32_t value = (uint32_t)roll(dice, chance(dice, 700) ? 16 : 1 << 30);

	if (feature == 0xf) /* keep alive: some expire */
		value = 1000 + (uint32_t)roll(dice, 20000);
	if (feature == 0x84) /* write protection: until the next power cycle would be for ever */
		value = chance(dice, 150);
	sqe->nsid = put_le32(chance(dice, 700) ? any_nsid(dice) : 0);
	sqe->cdw10 = put_le32(feature | (chance(dice, 50) ? 1U << 31 : 0));
	sqe->cdw11 = put_le32(value);
	return feature == 0x16 || feature == 0x81 ? 512 : 0;
}

static void make_property(struct dice *dice, struct raw_queue *q, struct capsule_made *c)
{
	static const uint64_t values[] = {
		0,
		NVME_CC_ENABLE_VALUE,
		NVME_CC_ENABLE_VALUE,
		NVME_CC_ENABLE_VALUE,
		NVME_CC_ENABLE_VALUE | 1 << 14,
		NVME_CC_ENABLE_VALUE | 2 << 14,
		1 << 14,
		0x460000,
	};
	struct nvmf_property_cmd cmd = {
		.opcode = NVME_FABRICS,
		.flags = NVME_FLAGS_PSDT_SGL,
		.cid = put_le16(q->next_cid++),
		.fctype = NVMF_PROPERTY_SET,
		.offset = put_le32(NVME_PROP_CC),
		.value = put_le64(values[roll(dice, 8)] ^
				  (chance(dice, 50) ? 1ULL << roll(dice, 32) : 0)),
	};

	((struct nvme_sqe *)&cmd)->sgl.keyed.type = NVME_SGL_KEYED_ADDRESS;
	c->n = sizeof(cmd);
	memcpy(c->bytes, &cmd, sizeof(cmd));
}

void make_abort(struct raw_queue *q, unsigned qid, uint16_t cid, struct capsule_made *c)
{
	struct nvme_sqe sqe = raw_sqe(q, NVME_ADMIN_ABORT, 0);

	sqe.cdw10 = put_le32((uint32_t)cid << 16 | qid);
	c->n = sizeof(sqe);
	memcpy(c->bytes, &sqe, sizeof(sqe));
}

void make_admin_command(struct dice *dice, struct raw_queue *q, struct capsule_made *c)
{
	static const uint8_t opcodes[] = {
		NVME_ADMIN_IDENTIFY,	 NVME_ADMIN_IDENTIFY,
		NVME_ADMIN_GET_LOG_PAGE, NVME_ADMIN_GET_LOG_PAGE,
		NVME_ADMIN_SET_FEATURES, NVME_ADMIN_SET_FEATURES,
		NVME_ADMIN_GET_FEATURES, NVME_ADMIN_ASYNC_EVENT_REQUEST,
		NVME_ADMIN_KEEP_ALIVE,
	};
	uint8_t opcode = chance(dice, 40) ? (uint8_t)roll(dice, 256)
					  : opcodes[roll(dice, sizeof(opcodes))];
	struct nvme_sqe sqe = raw_sqe(q, opcode, 0);
	uint64_t length = 0;

	if (chance(dice, 15)) {
		make_property(dice, q, c);
		return;
	}
	switch (opcode) {
	case NVME_ADMIN_IDENTIFY:
		sqe.nsid = put_le32((uint32_t)roll(dice, chance(dice, 800) ? 8 : 1ULL << 32));
		sqe.cdw10 = put_le32((uint32_t)roll(dice, 9));
		length = 4096;
		break;
	case NVME_ADMIN_GET_LOG_PAGE:
		length = make_log_page(dice, &sqe);
		break;
	case NVME_ADMIN_SET_FEATURES:
	case NVME_ADMIN_GET_FEATURES:
		length = make_feature(dice, &sqe);
		break;
	default:
		break;
	}
	finish(dice, q, &sqe, length, false, c);
}
