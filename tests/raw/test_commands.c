/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compare, fused Compare and Write, Verify, Write Uncorrectable, Copy, write protection, Abort: the
 * specification's behaviour of each, byte by byte, and its refusals.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/bits.h"
#include "tests/raw/group.h"
#include "tests/raw/host.h"

enum {
	WAIT_MS = 60000,
	FUSED_MAX = 256 * 1024, /* a quarter of max_transfer */
};

static unsigned block_of(uint32_t nsid)
{
	return nsid == DAEMON_FILE || nsid == DAEMON_BIG_RAM ? 4096 : 512;
}

static enum nvme_status run(struct raw_queue *q, const struct nvme_sqe *sqe)
{
	struct nvme_cqe cqe;

	return raw_run(q, sqe, NULL, 0, &cqe);
}

/* Through q->data at 0. */
static enum nvme_status io(struct raw_host *h, uint8_t opcode, uint32_t nsid, uint64_t slba,
			   unsigned n_blocks)
{
	return raw_io(&h->io, opcode, nsid, slba, n_blocks, n_blocks * block_of(nsid));
}

static enum nvme_status without_data(struct raw_host *h, uint8_t opcode, uint32_t nsid,
				     uint64_t slba, unsigned n_blocks)
{
	struct nvme_sqe sqe = raw_blocks(&h->io, opcode, nsid, slba, n_blocks);

	return run(&h->io, &sqe);
}

/* ---- Compare and Verify --------------------------------------------------------------------- */

static void compares(void **state)
{
	static const uint32_t nsids[] = {DAEMON_RAM, DAEMON_FILE};
	struct raw_host h;

	raw_host_open(&h, d.port);
	for (unsigned i = 0; i < 2; i++) {
		uint32_t nsid = nsids[i], block = block_of(nsid);
		unsigned n = MIB / block;

		memset(h.io.data, 0x5a, MIB);
		assert_int_equal(io(&h, NVME_IO_WRITE, nsid, 16, n), NVME_OK);
		assert_int_equal(io(&h, NVME_IO_COMPARE, nsid, 16, n), NVME_OK);
		assert_int_equal(io(&h, NVME_IO_COMPARE, nsid, 16, 1), NVME_OK);
		h.io.data[MIB - 1] ^= 1; /* differs in the last piece only */
		assert_int_equal(io(&h, NVME_IO_COMPARE, nsid, 16, n),
				 NVME_COMPARE_FAILURE | NVME_DNR);
		h.io.data[0] ^= 1;
		assert_int_equal(io(&h, NVME_IO_COMPARE, nsid, 16, 1),
				 NVME_COMPARE_FAILURE | NVME_DNR);
		assert_int_equal(io(&h, NVME_IO_COMPARE, nsid, 1ULL << 40, 1),
				 NVME_LBA_OUT_OF_RANGE | NVME_DNR);
		assert_int_equal(raw_io(&h.io, NVME_IO_COMPARE, nsid, 0, 2, block),
				 NVME_SGL_LENGTH_INVALID | NVME_DNR);
		assert_int_equal(without_data(&h, NVME_IO_VERIFY, nsid, 0, 4096), NVME_OK);
		assert_int_equal(without_data(&h, NVME_IO_VERIFY, nsid, UINT64_MAX, 2),
				 NVME_LBA_OUT_OF_RANGE | NVME_DNR);
	}
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

/* ---- Compare and Write ---------------------------------------------------------------------- */

struct pair {
	enum nvme_status first, second;
};

/* Compare data at 0 of q->data, write data at 1 MiB; both in capsules on request. */
static void send_half(struct raw_queue *q, struct nvme_sqe *sqe, unsigned fuse, size_t offset,
		      uint32_t n_bytes, bool is_in_capsule)
{
	uint8_t capsule[64 + 4096];

	sqe->flags |= (uint8_t)fuse;
	if (!is_in_capsule) {
		raw_describe(q, sqe, offset, n_bytes);
		raw_send(q, sqe, sizeof(*sqe));
		return;
	}
	sqe->sgl = (struct nvme_sgl){
		.block = {.length = put_le32(n_bytes), .type = NVME_SGL_DATA_BLOCK_OFFSET}};
	memcpy(capsule, sqe, sizeof(*sqe));
	memcpy(capsule + 64, q->data + offset, n_bytes);
	raw_send(q, capsule, 64 + n_bytes);
}

static enum nvme_status answer(struct raw_queue *q, const struct nvme_sqe *sqe)
{
	struct nvme_cqe cqe;

	assert_true(raw_receive(q, &cqe, WAIT_MS));
	assert_memory_equal(&cqe.cid, &sqe->cid, sizeof(le16)); /* first, then second */
	return get_nvme_status(cqe.status);
}

static struct pair fused(struct raw_queue *q, uint32_t nsid, uint64_t slba, unsigned n_blocks,
			 bool is_in_capsule)
{
	struct nvme_sqe c = raw_blocks(q, NVME_IO_COMPARE, nsid, slba, n_blocks);
	struct nvme_sqe w = raw_blocks(q, NVME_IO_WRITE, nsid, slba, n_blocks);
	uint32_t n_bytes = n_blocks * block_of(nsid);
	struct pair result;

	send_half(q, &c, 1, 0, n_bytes, is_in_capsule);
	send_half(q, &w, 2, MIB, n_bytes, is_in_capsule);
	result.first = answer(q, &c);
	result.second = answer(q, &w);
	return result;
}

static void assert_pair(struct pair pair, enum nvme_status first, enum nvme_status second)
{
	assert_int_equal(pair.first, first ? first | NVME_DNR : NVME_OK);
	assert_int_equal(pair.second, second ? second | NVME_DNR : NVME_OK);
}

static void compares_and_writes(void **state)
{
	static const uint32_t nsids[] = {DAEMON_RAM, DAEMON_FILE};
	struct raw_host h;

	raw_host_open(&h, d.port);
	for (unsigned i = 0; i < 8; i++) {
		uint32_t nsid = nsids[i & 1];
		bool is_in_capsule = i & 2, is_long = i & 4;
		unsigned n = is_long && !is_in_capsule ? FUSED_MAX / block_of(nsid) : 1;
		uint32_t n_bytes = n * block_of(nsid);

		memset(h.io.data, (int)(0x10 + i), n_bytes);
		assert_int_equal(io(&h, NVME_IO_WRITE, nsid, 7, n), NVME_OK);
		memset(h.io.data + MIB, (int)(0x80 + i), n_bytes);
		assert_pair(fused(&h.io, nsid, 7, n, is_in_capsule), NVME_OK, NVME_OK);
		/* The same pair again: the block holds other data now, and keeps it. */
		assert_pair(fused(&h.io, nsid, 7, n, is_in_capsule), NVME_COMPARE_FAILURE,
			    NVME_ABORTED_FAILED_FUSED);
		assert_int_equal(io(&h, NVME_IO_READ, nsid, 7, n), NVME_OK);
		assert_memory_equal(h.io.data, h.io.data + MIB, n_bytes);
	}
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

static void pairs_that_do_not_match(void **state)
{
	struct nvme_sqe c, w, other;
	struct raw_queue *q;
	struct raw_host h;

	raw_host_open(&h, d.port);
	q = &h.io;
	/* Another range; too long. */
	c = raw_blocks(q, NVME_IO_COMPARE, DAEMON_RAM, 0, 1);
	w = raw_blocks(q, NVME_IO_WRITE, DAEMON_RAM, 1, 1);
	send_half(q, &c, 1, 0, 512, false);
	send_half(q, &w, 2, MIB, 512, false);
	assert_int_equal(answer(q, &c), NVME_ABORTED_FAILED_FUSED | NVME_DNR);
	assert_int_equal(answer(q, &w), NVME_INVALID_FIELD | NVME_DNR);
	assert_pair(fused(q, DAEMON_RAM, 0, FUSED_MAX / 512 + 1, false), NVME_ABORTED_FAILED_FUSED,
		    NVME_INVALID_FIELD);
	assert_pair(fused(q, DAEMON_RAM, 1ULL << 40, 1, false), NVME_LBA_OUT_OF_RANGE,
		    NVME_ABORTED_FAILED_FUSED);
	/* A second half alone, a first half alone, a first after a first. */
	w = raw_blocks(q, NVME_IO_WRITE, DAEMON_RAM, 0, 1);
	send_half(q, &w, 2, MIB, 512, false);
	assert_int_equal(answer(q, &w), NVME_ABORTED_MISSING_FUSED | NVME_DNR);
	c = raw_blocks(q, NVME_IO_COMPARE, DAEMON_RAM, 0, 1);
	other = raw_blocks(q, NVME_IO_FLUSH, DAEMON_RAM, 0, 1);
	send_half(q, &c, 1, 0, 512, true);
	raw_send(q, &other, sizeof(other));
	assert_int_equal(answer(q, &c), NVME_ABORTED_MISSING_FUSED | NVME_DNR);
	assert_int_equal(answer(q, &other), NVME_OK);
	/* Read and Write are no pair; 3 is no valid value of FUSE. */
	c = raw_blocks(q, NVME_IO_READ, DAEMON_RAM, 0, 1);
	send_half(q, &c, 1, 0, 512, false);
	assert_int_equal(answer(q, &c), NVME_INVALID_FIELD | NVME_DNR);
	c = raw_blocks(q, NVME_IO_COMPARE, DAEMON_RAM, 0, 1);
	send_half(q, &c, 3, 0, 512, false);
	assert_int_equal(answer(q, &c), NVME_INVALID_FIELD | NVME_DNR);
	/* A read-only namespace; a host that leaves between the two. */
	memset(q->data, 0, 512);
	assert_pair(fused(q, DAEMON_READ_ONLY, 0, 1, false), NVME_ABORTED_FAILED_FUSED,
		    NVME_NS_WRITE_PROTECTED);
	c = raw_blocks(q, NVME_IO_COMPARE, DAEMON_RAM, 0, 1);
	send_half(q, &c, 1, 0, 512, true);
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

/* Only Compare and Write form a pair, on whichever queue. */
static void only_compare_and_write_are_a_pair(void **state)
{
	struct raw_host h;

	raw_host_open(&h, d.port);
	for (unsigned i = 0; i < 2 * 256; i++) {
		struct raw_queue *q = i % 2 ? &h.io : &h.admin;
		uint8_t opcode = (uint8_t)(i / 2);
		bool is_held = q == &h.io && opcode == NVME_IO_COMPARE;
		struct nvme_sqe first = raw_sqe(q, opcode, DAEMON_RAM);
		struct nvme_sqe second = raw_sqe(q, opcode, DAEMON_RAM);
		struct nvme_sqe neither = raw_sqe(q, opcode, DAEMON_RAM);

		send_half(q, &first, 1, 0, 512, false);
		send_half(q, &second, 2, 0, 512, false);
		send_half(q, &neither, 3, 0, 512, false);
		assert_int_equal(answer(q, &first),
				 (is_held ? NVME_ABORTED_FAILED_FUSED : NVME_INVALID_FIELD) |
					 NVME_DNR);
		assert_int_equal(answer(q, &second),
				 (is_held ? NVME_INVALID_FIELD : NVME_ABORTED_FAILED_FUSED) |
					 NVME_DNR);
		assert_int_equal(answer(q, &neither), NVME_INVALID_FIELD | NVME_DNR);
	}
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

/* A host reads a block in memory and takes no response: it must not prevent another host's
 * exclusive access. */
static void a_reader_that_takes_nothing(void **state)
{
	struct raw_host bad, good;

	raw_host_open_as(&bad, d.port, 1);
	raw_host_open(&good, d.port);
	bad.io.keeps_receives = true;
	for (unsigned i = 0; i < RAW_RECVS; i++)
		assert_int_equal(io(&bad, NVME_IO_READ, DAEMON_RAM, 9, 1), NVME_OK);
	for (unsigned i = 0; i < 4; i++) {
		struct nvme_sqe sqe = raw_blocks(&bad.io, NVME_IO_READ, DAEMON_RAM, 9, 1);

		raw_describe(&bad.io, &sqe, 0, 512);
		raw_send(&bad.io, &sqe, sizeof(sqe));
	}
	memset(good.io.data, 0x44, 512);
	assert_int_equal(io(&good, NVME_IO_WRITE, DAEMON_RAM, 9, 1), NVME_OK);
	memset(good.io.data + MIB, 0x45, 512);
	assert_pair(fused(&good.io, DAEMON_RAM, 9, 1, false), NVME_OK, NVME_OK);
	raw_host_close(&bad);
	raw_host_close(&good);
	daemon_wait_empty(&d);
}

/* ---- Write Uncorrectable -------------------------------------------------------------------- */

static void blocks_are_lost_until_written(void **state)
{
	static const uint32_t nsids[] = {DAEMON_RAM, DAEMON_FILE};
	const enum nvme_status lost = NVME_UNRECOVERED_READ | NVME_DNR;
	struct raw_host h;

	raw_host_open(&h, d.port);
	for (unsigned i = 0; i < 2; i++) {
		uint32_t nsid = nsids[i];

		assert_int_equal(io(&h, NVME_IO_WRITE, nsid, 100, 16), NVME_OK);
		assert_int_equal(without_data(&h, NVME_IO_WRITE_UNCORRECTABLE, nsid, 104, 4),
				 NVME_OK);
		assert_int_equal(io(&h, NVME_IO_READ, nsid, 100, 16), lost);
		assert_int_equal(io(&h, NVME_IO_READ, nsid, 107, 1), lost);
		assert_int_equal(io(&h, NVME_IO_READ, nsid, 100, 4), NVME_OK);
		assert_int_equal(io(&h, NVME_IO_READ, nsid, 108, 8), NVME_OK);
		assert_int_equal(io(&h, NVME_IO_COMPARE, nsid, 104, 1), lost);
		assert_int_equal(without_data(&h, NVME_IO_VERIFY, nsid, 0, 105), lost);
		assert_pair(fused(&h.io, nsid, 105, 1, false), NVME_UNRECOVERED_READ,
			    NVME_ABORTED_FAILED_FUSED);
		/* Writes a block in the middle, then one by zeroes. */
		assert_int_equal(io(&h, NVME_IO_WRITE, nsid, 105, 1), NVME_OK);
		assert_int_equal(io(&h, NVME_IO_READ, nsid, 105, 1), NVME_OK);
		assert_int_equal(io(&h, NVME_IO_READ, nsid, 104, 1), lost);
		assert_int_equal(without_data(&h, NVME_IO_WRITE_ZEROES, nsid, 104, 1), NVME_OK);
		assert_int_equal(io(&h, NVME_IO_READ, nsid, 104, 2), NVME_OK);
		assert_int_equal(io(&h, NVME_IO_READ, nsid, 106, 1), lost);
	}
	raw_host_close(&h);
	daemon_kill_and_restart(&d);
	raw_host_open(&h, d.port);
	assert_int_equal(io(&h, NVME_IO_READ, DAEMON_FILE, 106, 1), lost);
	assert_int_equal(io(&h, NVME_IO_READ, DAEMON_FILE, 104, 2), NVME_OK);
	assert_int_equal(io(&h, NVME_IO_READ, DAEMON_RAM, 106, 1), NVME_OK);
	assert_int_equal(io(&h, NVME_IO_WRITE, DAEMON_FILE, 100, 16), NVME_OK);
	assert_int_equal(io(&h, NVME_IO_READ, DAEMON_FILE, 100, 16), NVME_OK);
	assert_int_equal(without_data(&h, NVME_IO_WRITE_UNCORRECTABLE, DAEMON_READ_ONLY, 0, 1),
			 NVME_NS_WRITE_PROTECTED | NVME_DNR);
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

/* ---- Copy ----------------------------------------------------------------------------------- */

static enum nvme_status copy(struct raw_host *h, uint32_t nsid, uint64_t to, const uint64_t *from,
			     const unsigned *n_blocks, unsigned n, uint32_t *ret_result)
{
	struct nvme_sqe sqe = raw_sqe(&h->io, NVME_IO_COPY, nsid);
	struct nvme_copy_range *ranges = (struct nvme_copy_range *)(void *)h->io.data;
	struct nvme_cqe cqe;
	enum nvme_status status;

	memset(ranges, 0, n * sizeof(*ranges));
	for (unsigned i = 0; i < n; i++) {
		ranges[i].slba = put_le64(from[i]);
		ranges[i].nlb = put_le16((uint16_t)(n_blocks[i] - 1));
	}
	raw_describe(&h->io, &sqe, 0, n * (uint32_t)sizeof(*ranges));
	sqe.cdw10 = put_le32((uint32_t)to);
	sqe.cdw11 = put_le32((uint32_t)(to >> 32));
	sqe.cdw12 = put_le32(n - 1);
	status = raw_run(&h->io, &sqe, NULL, 0, &cqe);
	*ret_result = get_le32(cqe.dw0);
	return status;
}

static void copies(void **state)
{
	static const uint64_t from[] = {1000, 10, 500}, far_away[] = {0, 1ULL << 40};
	static const unsigned n_blocks[] = {3, 700, 1}, too_many[] = {32769};
	struct nvme_sqe sqe;
	struct raw_host h;
	uint32_t result;

	raw_host_open(&h, d.port);
	for (unsigned i = 0; i < 1024; i++) {
		memset(h.io.data + 512 * i, (int)(i * 7 + i / 256), 512);
	}
	assert_int_equal(io(&h, NVME_IO_WRITE, DAEMON_RAM, 0, 1024), NVME_OK);
	memcpy(h.io.data + MIB, h.io.data + 1000 * 512, 3 * 512);
	memcpy(h.io.data + MIB + 3 * 512, h.io.data + 10 * 512, 700 * 512);
	memcpy(h.io.data + MIB + 703 * 512, h.io.data + 500 * 512, 512);
	assert_int_equal(copy(&h, DAEMON_RAM, 5000, from, n_blocks, 3, &result), NVME_OK);
	assert_int_equal(io(&h, NVME_IO_READ, DAEMON_RAM, 5000, 704), NVME_OK);
	assert_memory_equal(h.io.data, h.io.data + MIB, 704 * 512);
	/* Refusals, with the number of the range. */
	assert_int_equal(copy(&h, DAEMON_RAM, 5000, far_away, n_blocks, 2, &result),
			 NVME_LBA_OUT_OF_RANGE | NVME_DNR);
	assert_int_equal(result, 1);
	assert_int_equal(copy(&h, DAEMON_RAM, 32767, from, n_blocks, 1, &result),
			 NVME_LBA_OUT_OF_RANGE | NVME_DNR);
	assert_int_equal(copy(&h, DAEMON_BIG_RAM, 0, from, too_many, 1, &result),
			 NVME_COMMAND_SIZE_LIMIT | NVME_DNR);
	assert_int_equal(without_data(&h, NVME_IO_WRITE_UNCORRECTABLE, DAEMON_RAM, 500, 1),
			 NVME_OK);
	assert_int_equal(copy(&h, DAEMON_RAM, 5000, from, n_blocks, 3, &result),
			 NVME_UNRECOVERED_READ | NVME_DNR);
	assert_int_equal(result, 1); /* 10..709 holds block 500 */
	assert_int_equal(copy(&h, DAEMON_RAM, 500, far_away, n_blocks, 1, &result), NVME_OK);
	assert_int_equal(io(&h, NVME_IO_READ, DAEMON_RAM, 500, 1), NVME_OK);
	assert_int_equal(copy(&h, DAEMON_READ_ONLY, 0, from, n_blocks, 1, &result),
			 NVME_NS_WRITE_PROTECTED | NVME_DNR);
	sqe = raw_sqe(&h.io, NVME_IO_COPY, DAEMON_RAM);
	raw_describe(&h.io, &sqe, 0, 32);
	sqe.cdw12 = put_le32(1 << 8); /* descriptor format 1 */
	assert_int_equal(run(&h.io, &sqe), NVME_INVALID_FIELD | NVME_DNR);
	sqe = raw_sqe(&h.io, NVME_IO_COPY, DAEMON_RAM);
	raw_describe(&h.io, &sqe, 0, 32 * 129);
	sqe.cdw12 = put_le32(128);
	assert_int_equal(run(&h.io, &sqe), NVME_COMMAND_SIZE_LIMIT | NVME_DNR);
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

static void put_all(struct raw_host *h, uint32_t nsid, const char *bytes)
{
	unsigned n = MIB / block_of(nsid);

	for (unsigned i = 0; i < 2; i++) {
		memcpy(h->io.data, bytes + i * MIB, MIB);
		assert_int_equal(io(h, NVME_IO_WRITE, nsid, (uint64_t)i * n, n), NVME_OK);
	}
}

static void expect_all(struct raw_host *h, uint32_t nsid, const char *bytes)
{
	unsigned n = MIB / block_of(nsid);

	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(io(h, NVME_IO_READ, nsid, (uint64_t)i * n, n), NVME_OK);
		assert_memory_equal(h->io.data, bytes + i * MIB, MIB);
	}
}

/* Ranges within the first 2 MiB, one after the other: each part's former contents reach their
 * destination. */
static void copy_as_memmove(struct raw_host *h, uint32_t nsid, size_t to, const size_t *from,
			    const size_t *n_bytes, unsigned n)
{
	unsigned block = block_of(nsid), n_blocks[4];
	char *model = malloc(2 * (size_t)MIB);
	size_t at = to;
	uint64_t slbas[4];
	uint32_t result;

	assert_non_null(model);
	for (size_t i = 0; i < 2 * (size_t)MIB; i++)
		model[i] = (char)(i / 512 * 7 + i / 65536 + i % 512);
	put_all(h, nsid, model);
	for (unsigned i = 0; i < n; i++) {
		memmove(model + at, model + from[i], n_bytes[i]);
		at += n_bytes[i];
		slbas[i] = from[i] / block;
		n_blocks[i] = (unsigned)(n_bytes[i] / block);
	}
	assert_int_equal(copy(h, nsid, to / block, slbas, n_blocks, n, &result), NVME_OK);
	expect_all(h, nsid, model);
	free(model);
}

/* Onto itself, shifted by less than a piece, by a piece, by more, upwards and downwards. */
static void copies_onto_itself(void **state)
{
	enum {
		PIECE = 256 * KIB - 128 * 32, /* a piece: what Copy moves at once */
		BASE = 512 * KIB,
		N_BYTES = 900 * KIB,
	};
	static const uint32_t nsids[] = {DAEMON_RAM, DAEMON_FILE};
	static const size_t shifts[] = {4 * KIB, 12 * KIB,	  100 * KIB, PIECE - 4 * KIB,
					PIECE,	 PIECE + 4 * KIB, 500 * KIB};
	struct raw_host h;

	raw_host_open(&h, d.port);
	for (unsigned i = 0; i < 2 * ARRAY_LEN(shifts); i++) {
		uint32_t nsid = nsids[i % 2];
		size_t shift = shifts[i / 2];
		size_t from[] = {BASE, BASE + 8 * KIB, BASE - 4 * KIB, 0};
		size_t n_bytes[] = {N_BYTES, PIECE + shift, 12 * KIB, 4 * KIB};

		copy_as_memmove(&h, nsid, BASE + shift, from, n_bytes, 1);
		copy_as_memmove(&h, nsid, BASE - shift, from, n_bytes, 1);
		/* One range after the other, each from the destination of the last one. */
		copy_as_memmove(&h, nsid, 16 * KIB, &from[1], &n_bytes[1], 3);
		copy_as_memmove(&h, nsid, BASE + shift / 8192 * 4096, &from[1], &n_bytes[1], 3);
	}
	copy_as_memmove(&h, DAEMON_RAM, BASE + 512, &(size_t){BASE}, &(size_t){N_BYTES}, 1);
	copy_as_memmove(&h, DAEMON_RAM, BASE - 512, &(size_t){BASE}, &(size_t){N_BYTES}, 1);
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

/* ---- write protection ----------------------------------------------------------------------- */

static enum nvme_status protect(struct raw_host *h, uint32_t nsid, uint32_t how)
{
	struct nvme_sqe sqe = raw_sqe(&h->admin, NVME_ADMIN_SET_FEATURES, nsid);

	sqe.cdw10 = put_le32(NVME_FEAT_WRITE_PROTECT);
	sqe.cdw11 = put_le32(how);
	return run(&h->admin, &sqe);
}

static uint32_t protection(struct raw_host *h, uint32_t nsid)
{
	struct nvme_sqe sqe = raw_sqe(&h->admin, NVME_ADMIN_GET_FEATURES, nsid);
	struct nvme_cqe cqe;

	sqe.cdw10 = put_le32(NVME_FEAT_WRITE_PROTECT);
	assert_int_equal(raw_run(&h->admin, &sqe, NULL, 0, &cqe), NVME_OK);
	return get_le32(cqe.dw0);
}

static void namespaces_are_write_protected(void **state)
{
	const enum nvme_status refused = NVME_NS_WRITE_PROTECTED | NVME_DNR;
	struct nvme_sqe sqe;
	struct raw_host h;

	raw_host_open(&h, d.port);
	assert_int_equal(protect(&h, DAEMON_FILE, NVME_WP_PERMANENT),
			 NVME_INVALID_FIELD | NVME_DNR);
	assert_int_equal(protect(&h, 9, NVME_WP_PROTECTED), NVME_INVALID_NSID | NVME_DNR);
	assert_int_equal(protect(&h, DAEMON_FILE, NVME_WP_PROTECTED), NVME_OK);
	assert_int_equal(protect(&h, DAEMON_RAM, NVME_WP_UNTIL_POWER_CYCLE), NVME_OK);
	for (uint32_t nsid = DAEMON_RAM; nsid <= DAEMON_FILE; nsid++) {
		assert_int_equal(io(&h, NVME_IO_WRITE, nsid, 0, 1), refused);
		assert_int_equal(without_data(&h, NVME_IO_WRITE_ZEROES, nsid, 0, 1), refused);
		assert_int_equal(without_data(&h, NVME_IO_WRITE_UNCORRECTABLE, nsid, 0, 1),
				 refused);
		assert_int_equal(io(&h, NVME_IO_READ, nsid, 0, 1), NVME_OK);
		assert_int_equal(without_data(&h, NVME_IO_FLUSH, nsid, 0, 1), NVME_OK);
		memset(h.io.data + MIB, 1, 4096);
		assert_pair(fused(&h.io, nsid, 0, 1, false), NVME_ABORTED_FAILED_FUSED,
			    NVME_NS_WRITE_PROTECTED);
	}
	assert_int_equal(protect(&h, DAEMON_RAM, NVME_WP_NONE),
			 NVME_FEATURE_NOT_CHANGEABLE | NVME_DNR);
	sqe = raw_sqe(&h.admin, NVME_ADMIN_IDENTIFY, DAEMON_FILE);
	raw_describe(&h.admin, &sqe, 0, 4096);
	assert_int_equal(run(&h.admin, &sqe), NVME_OK);
	assert_int_equal(h.admin.data[99] & 1, 1); /* NSATTR */
	raw_host_close(&h);
	daemon_kill_and_restart(&d);
	raw_host_open(&h, d.port);
	assert_int_equal(protection(&h, DAEMON_RAM), NVME_WP_NONE);
	assert_int_equal(protection(&h, DAEMON_FILE), NVME_WP_PROTECTED);
	assert_int_equal(io(&h, NVME_IO_WRITE, DAEMON_FILE, 0, 1), refused);
	assert_int_equal(protect(&h, DAEMON_FILE, NVME_WP_NONE), NVME_OK);
	assert_int_equal(io(&h, NVME_IO_WRITE, DAEMON_FILE, 0, 1), NVME_OK);
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

/* ---- features of one namespace, or of all --------------------------------------------------- */

static enum nvme_status set_feature(struct raw_host *h, unsigned id, uint32_t nsid, uint32_t value)
{
	struct nvme_sqe sqe = raw_sqe(&h->admin, NVME_ADMIN_SET_FEATURES, nsid);

	sqe.cdw10 = put_le32(id);
	sqe.cdw11 = put_le32(value);
	return run(&h->admin, &sqe);
}

static enum nvme_status get_feature(struct raw_host *h, unsigned id, uint32_t nsid,
				    uint32_t *ret_value)
{
	struct nvme_sqe sqe = raw_sqe(&h->admin, NVME_ADMIN_GET_FEATURES, nsid);
	struct nvme_cqe cqe;
	enum nvme_status status;

	sqe.cdw10 = put_le32(id);
	status = raw_run(&h->admin, &sqe, NULL, 0, &cqe);
	*ret_value = get_le32(cqe.dw0);
	return status;
}

static void features_of_all_namespaces(void **state)
{
	static const struct {
		unsigned id;
		uint32_t value;
		enum nvme_status get_all, get_none; /* for NSIDs FFFFFFFFh and 0 */
	} features[] = {
		{NVME_FEAT_ERROR_RECOVERY, 7, NVME_OK, NVME_OK},
		{NVME_FEAT_RESV_MASK, 6, NVME_INVALID_FIELD | NVME_DNR,
		 NVME_INVALID_NSID | NVME_DNR},
		{NVME_FEAT_RESV_PERSIST, 1, NVME_INVALID_FIELD | NVME_DNR,
		 NVME_INVALID_NSID | NVME_DNR},
		{NVME_FEAT_WRITE_PROTECT, NVME_WP_PROTECTED, NVME_INVALID_NSID | NVME_DNR,
		 NVME_INVALID_NSID | NVME_DNR},
	};
	struct raw_host h;
	uint32_t value;

	raw_host_open(&h, d.port);
	for (unsigned i = 0; i < ARRAY_LEN(features); i++) {
		unsigned id = features[i].id;

		assert_int_equal(set_feature(&h, id, NVME_NSID_ALL, features[i].value), NVME_OK);
		for (uint32_t nsid = DAEMON_RAM; nsid <= DAEMON_BIG_RAM; nsid++) {
			assert_int_equal(get_feature(&h, id, nsid, &value), NVME_OK);
			assert_int_equal(value, features[i].value);
		}
		assert_int_equal(set_feature(&h, id, DAEMON_FILE, 0), NVME_OK);
		assert_int_equal(get_feature(&h, id, DAEMON_FILE, &value), NVME_OK);
		assert_int_equal(value, 0);
		assert_int_equal(get_feature(&h, id, DAEMON_RAM, &value), NVME_OK);
		assert_int_equal(value, features[i].value);
		assert_int_equal(get_feature(&h, id, NVME_NSID_ALL, &value), features[i].get_all);
		assert_int_equal(value, features[i].get_all == NVME_OK ? features[i].value : 0);
		assert_int_equal(get_feature(&h, id, 0, &value), features[i].get_none);
		assert_int_equal(value, features[i].get_all == NVME_OK ? features[i].value : 0);
		assert_int_equal(set_feature(&h, id, 0, 0), NVME_INVALID_NSID | NVME_DNR);
		assert_int_equal(set_feature(&h, id, 9, 0), NVME_INVALID_NSID | NVME_DNR);
		assert_int_equal(set_feature(&h, id, NVME_NSID_ALL, 0), NVME_OK);
	}
	/* The first one whose protection cannot change ends it. */
	assert_int_equal(protect(&h, DAEMON_FILE, NVME_WP_UNTIL_POWER_CYCLE), NVME_OK);
	assert_int_equal(protect(&h, NVME_NSID_ALL, NVME_WP_PROTECTED),
			 NVME_FEATURE_NOT_CHANGEABLE | NVME_DNR);
	assert_int_equal(protection(&h, DAEMON_RAM), NVME_WP_PROTECTED);
	assert_int_equal(protection(&h, DAEMON_BIG_RAM), NVME_WP_NONE);
	assert_int_equal(protect(&h, DAEMON_RAM, NVME_WP_NONE), NVME_OK);
	raw_host_close(&h);
	daemon_kill_and_restart(&d); /* the power cycle */
}

static void features_of_no_namespace(void **state)
{
	struct raw_host h;

	raw_host_open(&h, d.port);
	for (unsigned id = NVME_FEAT_ARBITRATION; id <= NVME_FEAT_POWER; id++) {
		assert_int_equal(set_feature(&h, id, 0, 0), NVME_OK);
		assert_int_equal(set_feature(&h, id, NVME_NSID_ALL, 0), NVME_OK);
		assert_int_equal(set_feature(&h, id, DAEMON_RAM, 0),
				 NVME_FEATURE_NOT_NS_SPECIFIC | NVME_DNR);
		assert_int_equal(set_feature(&h, id, 9, 0), NVME_INVALID_NSID | NVME_DNR);
	}
	/* Deallocated blocks read without an error: DULBE. */
	assert_int_equal(set_feature(&h, NVME_FEAT_ERROR_RECOVERY, DAEMON_RAM, 0x10000),
			 NVME_INVALID_FIELD | NVME_DNR);
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

/* ---- Abort ---------------------------------------------------------------------------------- */

static uint32_t abort_command(struct raw_host *h, uint16_t qid, le16 cid)
{
	struct nvme_sqe sqe = raw_sqe(&h->admin, NVME_ADMIN_ABORT, 0);
	struct nvme_cqe cqe;

	sqe.cdw10 = put_le32(qid | (uint32_t)get_le16(cid) << 16);
	raw_send(&h->admin, &sqe, sizeof(sqe));
	do
		assert_true(raw_receive(&h->admin, &cqe, WAIT_MS));
	while (memcmp(&cqe.cid, &sqe.cid, sizeof(le16)) != 0);
	assert_int_equal(get_nvme_status(cqe.status), NVME_OK);
	return get_le32(cqe.dw0) & 1;
}

static void aborts_what_waits(void **state)
{
	struct nvme_sqe aer, first;
	struct raw_host h;

	raw_host_open(&h, d.port);
	aer = raw_sqe(&h.admin, NVME_ADMIN_ASYNC_EVENT_REQUEST, 0);
	raw_send(&h.admin, &aer, sizeof(aer));
	assert_int_equal(abort_command(&h, 0, aer.cid), 0);
	assert_int_equal(abort_command(&h, 0, aer.cid), 1); /* completed already */
	assert_int_equal(abort_command(&h, 7, aer.cid), 1); /* no such queue */
	/* A first half that waits for its second, which then fails. */
	first = raw_blocks(&h.io, NVME_IO_COMPARE, DAEMON_RAM, 0, 1);
	send_half(&h.io, &first, 1, 0, 512, true);
	while (abort_command(&h, 1, first.cid)) /* until it has arrived */
		;
	assert_int_equal(answer(&h.io, &first), NVME_ABORTED_BY_REQUEST);
	first = raw_blocks(&h.io, NVME_IO_WRITE, DAEMON_RAM, 0, 1);
	send_half(&h.io, &first, 2, 0, 512, false);
	assert_int_equal(answer(&h.io, &first), NVME_ABORTED_FAILED_FUSED | NVME_DNR);
	assert_int_equal(io(&h, NVME_IO_READ, DAEMON_RAM, 0, 1), NVME_OK);
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

/* ---- what Identify and SMART say ------------------------------------------------------------ */

static uint64_t smart(struct raw_host *h, size_t field)
{
	struct nvme_sqe sqe = raw_sqe(&h->admin, NVME_ADMIN_GET_LOG_PAGE, NVME_NSID_ALL);
	le64 value;

	sqe.cdw10 = put_le32(NVME_LOG_SMART | (512 / 4 - 1) << 16);
	raw_describe(&h->admin, &sqe, 0, 512);
	assert_int_equal(run(&h->admin, &sqe), NVME_OK);
	memcpy(&value, h->admin.data + field, sizeof(value));
	return get_le64(value);
}

static void tells_the_truth(void **state)
{
	const size_t reads = offsetof(struct nvme_smart_log, host_reads);
	const size_t writes = offsetof(struct nvme_smart_log, host_writes);
	const size_t media = offsetof(struct nvme_smart_log, media_errors);
	uint64_t n_reads, n_writes, n_media;
	const struct nvme_id_ctrl *id;
	struct nvme_sqe sqe;
	struct raw_host h;

	raw_host_open(&h, d.port);
	n_reads = smart(&h, reads);
	n_writes = smart(&h, writes);
	n_media = smart(&h, media);
	assert_int_equal(io(&h, NVME_IO_WRITE, DAEMON_RAM, 0, 8), NVME_OK);
	assert_int_equal(io(&h, NVME_IO_READ, DAEMON_RAM, 0, 8), NVME_OK);
	assert_int_equal(io(&h, NVME_IO_COMPARE, DAEMON_RAM, 0, 8), NVME_OK);
	assert_int_equal(io(&h, NVME_IO_READ, DAEMON_RAM, 1ULL << 40, 1),
			 NVME_LBA_OUT_OF_RANGE | NVME_DNR);
	assert_int_equal(without_data(&h, NVME_IO_WRITE_UNCORRECTABLE, DAEMON_RAM, 0, 1), NVME_OK);
	assert_int_equal(io(&h, NVME_IO_READ, DAEMON_RAM, 0, 1), NVME_UNRECOVERED_READ | NVME_DNR);
	assert_int_equal(smart(&h, reads), n_reads + 2);
	assert_int_equal(smart(&h, writes), n_writes + 1);
	assert_int_equal(smart(&h, media), n_media + 1); /* a wrong address is no media error */
	sqe = raw_sqe(&h.admin, NVME_ADMIN_IDENTIFY, 0);
	sqe.cdw10 = put_le32(NVME_CNS_CTRL);
	raw_describe(&h.admin, &sqe, 0, 4096);
	assert_int_equal(run(&h.admin, &sqe), NVME_OK);
	id = (const struct nvme_id_ctrl *)(const void *)h.admin.data;
	assert_int_equal(get_le16(id->oncs),
			 0x1af); /* Copy, Verify, reservations, WZ, DSM, WU, Compare */
	assert_int_equal(get_le16(id->fuses), 1);
	assert_int_equal(get_le16(id->acwu), FUSED_MAX / 4096 - 1);
	assert_int_equal(id->nwpc, 3);
	assert_int_equal(get_le16(id->ocfs), 1);
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(compares),
		cmocka_unit_test(compares_and_writes),
		cmocka_unit_test(pairs_that_do_not_match),
		cmocka_unit_test(only_compare_and_write_are_a_pair),
		cmocka_unit_test(a_reader_that_takes_nothing),
		cmocka_unit_test(blocks_are_lost_until_written),
		cmocka_unit_test(copies),
		cmocka_unit_test(copies_onto_itself),
		cmocka_unit_test(namespaces_are_write_protected),
		cmocka_unit_test(features_of_all_namespaces),
		cmocka_unit_test(features_of_no_namespace),
		cmocka_unit_test(aborts_what_waits),
		cmocka_unit_test(tells_the_truth),
	};

	return cmocka_run_group_tests_name("commands", tests, start_keeping, stop);
}
