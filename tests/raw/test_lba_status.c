/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Get LBA Status: which blocks are allocated. A file says so for each of its ranges, memory for all
 * of it. Each answer is bounded, and a wrong question gets its status.
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
	BLOCK = 4096,	    /* of DAEMON_FILE */
	FILE_BLOCKS = 4096, /* 16 MiB */
	RAM_BLOCKS = 32768, /* 16 MiB of 512 */
	RANGES_MAX = 120,   /* of one answer */
	PAGE = 4096,
};

struct question {
	uint32_t nsid;
	uint64_t slba;
	unsigned rl, action;
	uint32_t n_bytes; /* as MNDW says */
	uint32_t room;	  /* of the SGL */
};

static enum nvme_status ask(struct raw_host *h, struct question q)
{
	struct nvme_sqe sqe = raw_sqe(&h->admin, NVME_ADMIN_GET_LBA_STATUS, q.nsid);
	struct nvme_cqe cqe;

	memset(h->admin.data, 0xee, PAGE);
	sqe.cdw10 = put_le32((uint32_t)q.slba);
	sqe.cdw11 = put_le32((uint32_t)(q.slba >> 32));
	sqe.cdw12 = put_le32(q.n_bytes / 4 - 1);
	sqe.cdw13 = put_le32(q.rl | q.action << 24);
	raw_describe(&h->admin, &sqe, 0, q.room);
	return raw_run(&h->admin, &sqe, NULL, 0, &cqe);
}

static struct question about(uint32_t nsid, uint64_t slba, unsigned rl)
{
	return (struct question){nsid, slba, rl, NVME_LBA_STATUS_ALLOCATED, PAGE, PAGE};
}

static const struct nvme_lba_status *answer(const struct raw_host *h)
{
	return (const struct nvme_lba_status *)(const void *)h->admin.data;
}

static void expect(struct raw_host *h, unsigned condition, unsigned n)
{
	assert_int_equal(get_le32(answer(h)->nlsd), n);
	assert_int_equal(answer(h)->cmpc, condition);
}

static void expect_range(struct raw_host *h, unsigned i, uint64_t slba, uint32_t n_blocks)
{
	const struct nvme_lba_status_desc *desc = &answer(h)->descs[i];

	assert_int_equal(get_le64(desc->dslba), slba);
	assert_int_equal(get_le32(desc->nlb), n_blocks);
	assert_int_equal(desc->status, NVME_LBARS_ALLOCATED);
}

static void change(struct raw_host *h, uint8_t opcode, uint64_t slba, unsigned n, uint32_t flags)
{
	struct nvme_sqe sqe = raw_blocks(&h->io, opcode, DAEMON_FILE, slba, n);
	struct nvme_cqe cqe;

	sqe.cdw12 = put_le32(get_le32(sqe.cdw12) | flags);
	assert_int_equal(raw_run(&h->io, &sqe, NULL, 0, &cqe), NVME_OK);
}

static void empty(struct raw_host *h)
{
	change(h, NVME_IO_WRITE_ZEROES, 0, FILE_BLOCKS, NVME_WZ_DEAC);
}

static void write_blocks(struct raw_host *h, uint64_t slba, unsigned n)
{
	assert_int_equal(raw_io(&h->io, NVME_IO_WRITE, DAEMON_FILE, slba, n, n * BLOCK), NVME_OK);
}

static void a_file_has_holes(void **state)
{
	struct raw_host h;

	raw_host_open(&h, d.port);
	empty(&h);
	assert_int_equal(ask(&h, about(DAEMON_FILE, 0, 0)), NVME_OK);
	expect(&h, NVME_LBA_STATUS_COMPLETE, 0);
	write_blocks(&h, 10, 3);
	write_blocks(&h, 100, 1);
	write_blocks(&h, FILE_BLOCKS - 1, 1);
	assert_int_equal(ask(&h, about(DAEMON_FILE, 0, 0)), NVME_OK);
	expect(&h, NVME_LBA_STATUS_COMPLETE, 3);
	expect_range(&h, 0, 10, 3);
	expect_range(&h, 1, 100, 1);
	expect_range(&h, 2, FILE_BLOCKS - 1, 1);
	/* The range cuts what it meets. */
	assert_int_equal(ask(&h, about(DAEMON_FILE, 11, 89)), NVME_OK);
	expect(&h, NVME_LBA_STATUS_COMPLETE, 1);
	expect_range(&h, 0, 11, 2);
	assert_int_equal(ask(&h, about(DAEMON_FILE, 13, 87)), NVME_OK);
	expect(&h, NVME_LBA_STATUS_COMPLETE, 0);
	/* A write that was answered is seen, and so is what deallocates. */
	write_blocks(&h, 50, 1);
	change(&h, NVME_IO_WRITE_ZEROES, 10, 3, NVME_WZ_DEAC);
	assert_int_equal(ask(&h, about(DAEMON_FILE, 0, 100)), NVME_OK);
	expect(&h, NVME_LBA_STATUS_COMPLETE, 1);
	expect_range(&h, 0, 50, 1);
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

static void memory_has_none(void **state)
{
	struct raw_host h;

	raw_host_open(&h, d.port);
	assert_int_equal(ask(&h, about(DAEMON_RAM, 0, 0)), NVME_OK);
	expect(&h, NVME_LBA_STATUS_COMPLETE, 1);
	expect_range(&h, 0, 0, RAM_BLOCKS);
	assert_int_equal(ask(&h, about(DAEMON_RAM, 7, 9)), NVME_OK);
	expect(&h, NVME_LBA_STATUS_COMPLETE, 1);
	expect_range(&h, 0, 7, 9);
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

/* A lost block does not read as zeroes. */
static void lost_blocks_are_no_hole(void **state)
{
	struct raw_host h;

	raw_host_open(&h, d.port);
	empty(&h);
	change(&h, NVME_IO_WRITE_UNCORRECTABLE, 500, 2, 0);
	assert_int_equal(ask(&h, about(DAEMON_FILE, 0, 500)), NVME_OK);
	expect(&h, NVME_LBA_STATUS_COMPLETE, 0);
	assert_int_equal(ask(&h, about(DAEMON_FILE, 500, 2)), NVME_OK);
	expect(&h, NVME_LBA_STATUS_COMPLETE, 1);
	expect_range(&h, 0, 500, 2);
	write_blocks(&h, 500, 2);
	empty(&h);
	assert_int_equal(ask(&h, about(DAEMON_FILE, 0, 0)), NVME_OK);
	expect(&h, NVME_LBA_STATUS_COMPLETE, 0);
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

/* Asks on from the end of the last range, as a host does. */
static void answers_are_bounded(void **state)
{
	unsigned n_ranges = RANGES_MAX + 50;
	struct question q = about(DAEMON_FILE, 0, 0);
	struct raw_host h;

	raw_host_open(&h, d.port);
	empty(&h);
	for (unsigned i = 0; i < n_ranges; i++)
		write_blocks(&h, 2 * i, 1);
	assert_int_equal(ask(&h, q), NVME_OK);
	expect(&h, NVME_LBA_STATUS_INCOMPLETE, RANGES_MAX);
	for (unsigned i = 0; i < RANGES_MAX; i++)
		expect_range(&h, i, 2 * i, 1);
	q.slba = 2 * RANGES_MAX - 1;
	assert_int_equal(ask(&h, q), NVME_OK);
	expect(&h, NVME_LBA_STATUS_COMPLETE, 50);
	/* Less room: as many descriptors as fit. */
	q = (struct question){DAEMON_FILE, 0, 0, NVME_LBA_STATUS_ALLOCATED, 8 + 2 * 16 + 4, PAGE};
	assert_int_equal(ask(&h, q), NVME_OK);
	expect(&h, NVME_LBA_STATUS_INCOMPLETE, 2);
	expect_range(&h, 1, 2, 1);
	assert_int_equal((uint8_t)h.admin.data[8 + 2 * 16 + 4],
			 0xee); /* nothing is sent behind MNDW */
	q.n_bytes = 8;
	assert_int_equal(ask(&h, q), NVME_OK);
	expect(&h, NVME_LBA_STATUS_INCOMPLETE, 0);
	q.n_bytes = 4;
	assert_int_equal(ask(&h, q), NVME_OK);
	assert_int_equal((uint8_t)h.admin.data[4], 0xee);
	/* MNDW FFFFFFFFh: all that there is. */
	q.n_bytes = 0;
	assert_int_equal(ask(&h, q), NVME_OK);
	expect(&h, NVME_LBA_STATUS_INCOMPLETE, RANGES_MAX);
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

static void refuses_wrong_questions(void **state)
{
	const struct {
		struct question question;
		enum nvme_status status;
	} cases[] = {
		{about(DAEMON_FILE, FILE_BLOCKS, 0), NVME_LBA_OUT_OF_RANGE},
		{about(DAEMON_FILE, FILE_BLOCKS, 1), NVME_LBA_OUT_OF_RANGE},
		{about(DAEMON_FILE, FILE_BLOCKS - 1, 2), NVME_LBA_OUT_OF_RANGE},
		{about(DAEMON_FILE, UINT64_MAX, 0), NVME_LBA_OUT_OF_RANGE},
		{about(DAEMON_FILE, UINT64_MAX, 0xffff), NVME_LBA_OUT_OF_RANGE},
		{about(0, 0, 0), NVME_INVALID_NSID},
		{about(55, 0, 0), NVME_INVALID_NSID},
		{about(NVME_NSID_ALL, 0, 0), NVME_INVALID_NSID},
		{{DAEMON_FILE, 0, 0, 0x00, PAGE, PAGE}, NVME_INVALID_FIELD},
		{{DAEMON_FILE, 0, 0, 0x10, PAGE, PAGE}, NVME_INVALID_FIELD},
		{{DAEMON_FILE, 0, 0, 0x11, PAGE, PAGE}, NVME_INVALID_FIELD},
		{{DAEMON_FILE, 0, 0, 0x02, PAGE, 1024}, NVME_SGL_LENGTH_INVALID},
	};
	struct raw_host h;

	raw_host_open(&h, d.port);
	for (unsigned i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(ask(&h, cases[i].question), cases[i].status | NVME_DNR);
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

static void is_reported(void **state)
{
	const struct nvme_id_ctrl_nvm *id;
	struct nvme_cqe cqe;
	struct raw_host h;
	struct nvme_sqe sqe;

	raw_host_open(&h, d.port);
	sqe = raw_sqe(&h.admin, NVME_ADMIN_IDENTIFY, 0);
	sqe.cdw10 = put_le32(NVME_CNS_CSI_CTRL);
	raw_describe(&h.admin, &sqe, 0, PAGE);
	assert_int_equal(raw_run(&h.admin, &sqe, NULL, 0, &cqe), NVME_OK);
	id = (const struct nvme_id_ctrl_nvm *)(const void *)h.admin.data;
	assert_int_equal(get_le16(id->aocs), NVME_AOCS_ALLOCATED_BLOCKS);
	sqe = raw_sqe(&h.admin, NVME_ADMIN_GET_LOG_PAGE, NVME_NSID_ALL);
	sqe.cdw10 = put_le32(NVME_LOG_EFFECTS | (PAGE / 4 - 1) << 16);
	raw_describe(&h.admin, &sqe, 0, PAGE);
	assert_int_equal(raw_run(&h.admin, &sqe, NULL, 0, &cqe), NVME_OK);
	assert_int_equal(h.admin.data[4 * NVME_ADMIN_GET_LBA_STATUS], NVME_EFFECT_CSUPP);
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_reported),	       cmocka_unit_test(a_file_has_holes),
		cmocka_unit_test(memory_has_none),     cmocka_unit_test(lost_blocks_are_no_hole),
		cmocka_unit_test(answers_are_bounded), cmocka_unit_test(refuses_wrong_questions),
	};

	return cmocka_run_group_tests_name("lba_status", tests, start_keeping, stop);
}
