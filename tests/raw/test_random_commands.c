/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random commands (rule R2 of the security model): each gets a status that its command may have,
 * and changes the blocks that it names or none.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/raw/group.h"
#include "tests/raw/host.h"

enum {
	RAM_BLOCKS = 32768,
	READ_AT = 65536, /* where random reads put their data */
	PIECE = 1048576,
	DATA = 0xa5a5a5a5, /* what random writes take */
};

/* Blocks of a namespace, from its first one on. */
struct space {
	uint32_t nsid;
	uint64_t n_blocks;
	unsigned block;
};

static uint64_t rng = 88172645463325252ULL;

static uint64_t random64(void)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return rng;
}

/* One to eight blocks: in DAEMON_RAM, about its end, or about the end of all numbers. */
static void likely_blocks(struct nvme_sqe *sqe)
{
	static const uint64_t ends[] = {RAM_BLOCKS, RAM_BLOCKS, RAM_BLOCKS, 0};
	uint64_t slba = random64() % 2 ? random64() % RAM_BLOCKS
				       : ends[random64() % 4] - random64() % 9;
	unsigned n_blocks = 1 + random64() % 8;

	sqe->cdw10 = put_le32((uint32_t)slba);
	sqe->cdw11 = put_le32((uint32_t)(slba >> 32));
	sqe->cdw12 = put_le32(n_blocks - 1);
	sqe->sgl.keyed.length = put_le24(sqe->opcode & 3 ? n_blocks * 512 : 0);
}

static void random_sqe(struct raw_queue *q, struct nvme_sqe *sqe)
{
	static const uint8_t opcodes[] = {0, 1, 2, 8, 9, 2, 6, 8, 9, 10, 0x18, 0x7f};
	static const uint8_t types[] = {0x40, 0x40, 0x40, 0x01, 0x4f, 0x00};
	static const uint32_t nsids[] = {0, DAEMON_RAM, DAEMON_RAM, DAEMON_READ_ONLY, 5};

	for (unsigned i = 0; i < sizeof(*sqe); i += 8) {
		uint64_t bits = random64() & random64();

		memcpy((char *)sqe + i, &bits, 8);
	}
	sqe->opcode = opcodes[random64() % sizeof(opcodes)];
	sqe->flags = NVME_FLAGS_PSDT_SGL;
	sqe->cid = put_le16(q->next_cid++);
	sqe->nsid = put_le32(nsids[random64() % (sizeof(nsids) / sizeof(nsids[0]))]);
	if (sqe->opcode == NVME_IO_READ) /* changes nothing: of any namespace */
		sqe->nsid = put_le32((uint32_t)(random64() % 6));
	raw_describe(q, sqe, random64() % 4096 + (nvme_is_c2h(sqe->opcode) ? READ_AT : 0),
		     (uint32_t)(random64() % 9000));
	if (random64() % 2)
		sqe->cdw11 = put_le32(0);
	if (random64() % 2)
		likely_blocks(sqe);
	sqe->sgl.keyed.type = types[random64() % 2 ? 0 : random64() % 4];
	/* A plain region's key cannot be invalidated; 4Fh would end the connection. */
	if (sqe->sgl.keyed.type == 0x4f)
		sqe->sgl.keyed.type = 0x40;
	if (sqe->opcode == NVME_FABRICS && sqe->nsid.b[0] == NVMF_PROPERTY_SET)
		sqe->nsid.b[0] = NVMF_PROPERTY_GET;
}

/* The contents of a block that no random command changes: a word of its own. */
static uint32_t word_of(const struct space *space, uint64_t lba)
{
	return space->nsid == DAEMON_READ_ONLY ? 0 : space->nsid << 24 | (uint32_t)lba;
}

static void fill(struct raw_queue *q, const struct space *space)
{
	unsigned n_at_once = PIECE / space->block;
	uint32_t *words = (uint32_t *)(void *)q->data;

	for (uint64_t lba = 0; lba < space->n_blocks; lba += n_at_once) {
		for (unsigned i = 0; i < PIECE / 4; i++)
			words[i] = word_of(space, lba + i * 4 / space->block);
		assert_int_equal(raw_io(q, NVME_IO_WRITE, space->nsid, lba, n_at_once, PIECE),
				 NVME_OK);
	}
}

/* Blocks that random commands have written, of DAEMON_RAM. */
static bool is_written[RAM_BLOCKS];

static void expect_whole(struct raw_queue *q, const struct space *space)
{
	unsigned n_at_once = PIECE / space->block;
	const uint32_t *words = (const uint32_t *)(const void *)q->data;

	for (uint64_t lba = 0; lba < space->n_blocks; lba += n_at_once) {
		assert_int_equal(raw_io(q, NVME_IO_READ, space->nsid, lba, n_at_once, PIECE),
				 NVME_OK);
		for (unsigned i = 0; i < PIECE / 4; i++) {
			uint64_t at = lba + i * 4 / space->block;

			if (space->nsid == DAEMON_RAM && is_written[at])
				assert_true(words[i] == 0 || words[i] == DATA);
			else
				assert_int_equal(words[i], word_of(space, at));
		}
	}
}

/* A command that fails changes nothing. */
static void note_written(const struct nvme_sqe *sqe)
{
	uint64_t slba = (uint64_t)get_le32(sqe->cdw11) << 32 | get_le32(sqe->cdw10);
	unsigned n_blocks = (get_le32(sqe->cdw12) & 0xffff) + 1;

	if (sqe->opcode != NVME_IO_WRITE && sqe->opcode != NVME_IO_WRITE_ZEROES)
		return;
	assert_int_equal(get_le32(sqe->nsid), DAEMON_RAM);
	assert_in_range(slba, 0, RAM_BLOCKS - n_blocks);
	memset(is_written + slba, true, n_blocks);
}

/* The statuses that a command with descriptors that rblkd can read may have, besides NVME_OK. */
static const struct {
	bool is_io;
	uint8_t opcode;
	enum nvme_status statuses[7];
} allowed[] = {
	{false, NVME_ADMIN_GET_LOG_PAGE, {NVME_INVALID_FIELD, NVME_LOG_PAGE_INVALID}},
	{false, NVME_ADMIN_IDENTIFY, {NVME_INVALID_FIELD, NVME_INVALID_NSID}},
	{false, NVME_ADMIN_ABORT, {NVME_OK}},
	{false,
	 NVME_ADMIN_SET_FEATURES,
	 {NVME_INVALID_FIELD, NVME_INVALID_NSID, NVME_COMMAND_SEQUENCE, NVME_FEATURE_NOT_SAVEABLE,
	  NVME_FEATURE_NOT_CHANGEABLE, NVME_FEATURE_NOT_NS_SPECIFIC}},
	{false, NVME_ADMIN_GET_FEATURES, {NVME_INVALID_FIELD, NVME_INVALID_NSID}},
	{false, NVME_ADMIN_KEEP_ALIVE, {NVME_KATO_INVALID}}, /* the timer is off */
	{false, NVME_FABRICS, {NVME_INVALID_OPCODE, NVME_INVALID_FIELD, NVME_COMMAND_SEQUENCE}},
	{true, NVME_IO_FLUSH, {NVME_INVALID_NSID}},
	{true, NVME_IO_WRITE, {NVME_INVALID_NSID, NVME_LBA_OUT_OF_RANGE, NVME_NS_WRITE_PROTECTED}},
	{true, NVME_IO_READ, {NVME_INVALID_NSID, NVME_LBA_OUT_OF_RANGE}},
	{true,
	 NVME_IO_WRITE_ZEROES,
	 {NVME_INVALID_NSID, NVME_LBA_OUT_OF_RANGE, NVME_NS_WRITE_PROTECTED}},
	{true, NVME_IO_DSM, {NVME_INVALID_NSID, NVME_LBA_OUT_OF_RANGE, NVME_NS_WRITE_PROTECTED}},
	{true, NVME_FABRICS, {NVME_INVALID_OPCODE, NVME_COMMAND_SEQUENCE}},
};

static bool is_allowed(bool is_io, uint8_t opcode, enum nvme_status status)
{
	for (unsigned i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++) {
		if (allowed[i].is_io != is_io || allowed[i].opcode != opcode)
			continue;
		for (unsigned j = 0; j < 7; j++)
			if (allowed[i].statuses[j] == status)
				return true;
		return false;
	}
	return status == NVME_INVALID_OPCODE;
}

static void expect_among(bool is_io, uint8_t opcode, enum nvme_status status)
{
	enum nvme_status code = nvme_status_code(status);

	assert_int_equal(status, code == NVME_OK ? NVME_OK : code | NVME_DNR);
	if (code != NVME_SGL_LENGTH_INVALID && code != NVME_SGL_OFFSET_INVALID &&
	    !is_allowed(is_io, opcode, code))
		fail_msg("status %04x of opcode %02x, %s queue", status, opcode,
			 is_io ? "I/O" : "admin");
}

static void random_command(struct raw_queue *q, bool is_io)
{
	static const uint8_t data[4096];
	struct nvme_sqe sqe;
	struct nvme_cqe cqe;
	enum nvme_status status;

	random_sqe(q, &sqe);
	status = raw_run(q, &sqe, data, (uint32_t)(random64() % 3 * 1024), &cqe);
	expect_among(is_io, sqe.opcode, status);
	if (is_io && status == NVME_OK)
		note_written(&sqe);
}

static void r2_random_commands(void **state)
{
	static const struct space spaces[] = {
		{DAEMON_RAM, RAM_BLOCKS, 512},
		{DAEMON_FILE, 4096, 4096},
		{DAEMON_BIG_RAM, 4096, 4096},
		{DAEMON_READ_ONLY, 2048, 512},
	};
	struct raw_host h;

	raw_host_open(&h, d.port);
	for (unsigned i = 0; i < 3; i++)
		fill(&h.io, &spaces[i]);
	memset(h.io.data, (uint8_t)DATA, READ_AT);
	for (unsigned i = 0; i < 4000; i++)
		random_command(i & 1 ? &h.io : &h.admin, i & 1);
	for (unsigned i = 0; i < 4; i++)
		expect_whole(&h.io, &spaces[i]);
	assert_non_null(memchr(is_written, true, RAM_BLOCKS));
	raw_host_close(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(r2_random_commands, next_good_host),
	};

	return cmocka_run_group_tests_name("random_commands", tests, start, stop);
}
