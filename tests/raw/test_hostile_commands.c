/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hostile hosts against a whole rblkd: commands. Capsules (rules R2 and R3 of the security model),
 * log pages (R5), keys (R7), lifetimes (R9) and the fence between two associations. After each, all
 * of the host's resources are freed and the next good host connects quickly.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "tests/raw/group.h"
#include "tests/raw/host.h"

/* ---- R3: capsules ---------------------------------------------------------------------------- */

static void r3_short_capsules(void **state)
{
	static const uint32_t sizes[] = {0, 1, 16, 63};
	uint8_t bytes[64] = {0};
	struct raw_queue q;

	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(raw_open(&q, d.port, i & 1, 32), 0);
		raw_send(&q, bytes, sizes[i]);
		assert_true(raw_is_dropped(&q));
		raw_close(&q);
	}
}

static void r3_oversized_capsule(void **state)
{
	static const uint8_t bytes[64 + 4096 + 512];
	struct raw_host h;

	raw_host_open(&h, d.port);
	raw_send(&h.io, bytes, sizeof(bytes));
	assert_true(raw_is_dropped(&h.io));
	raw_host_close(&h);
}

/* A write of one block with the caller's descriptor and flags; 512 bytes in the capsule. */
static enum nvme_status try_sgl(struct raw_host *h, const struct nvme_sgl *sgl, uint8_t flags)
{
	static const uint8_t data[512];
	struct nvme_sqe sqe = raw_sqe(&h->io, NVME_IO_WRITE, DAEMON_RAM);
	struct nvme_cqe cqe;

	sqe.sgl = *sgl;
	sqe.flags = flags;
	return raw_run(&h->io, &sqe, data, sizeof(data), &cqe);
}

static void r3_descriptors(void **state)
{
	static const struct {
		uint64_t offset;
		uint32_t length;
		uint8_t type;
		enum nvme_status status;
	} cases[] = {
		{0, 512, 0x01, NVME_OK},
		{1, 512, 0x01, NVME_SGL_LENGTH_INVALID},
		{512, 512, 0x01, NVME_SGL_LENGTH_INVALID},
		{513, 0, 0x01, NVME_SGL_OFFSET_INVALID},
		{4096, 512, 0x01, NVME_SGL_OFFSET_INVALID},
		{0, 513, 0x01, NVME_SGL_LENGTH_INVALID},
		{0, 0xffffffff, 0x01, NVME_SGL_LENGTH_INVALID},
		{1, 0xffffffff, 0x01, NVME_SGL_LENGTH_INVALID},
		{UINT64_MAX, 1, 0x01, NVME_SGL_OFFSET_INVALID},
		{UINT64_MAX, 512, 0x01, NVME_SGL_OFFSET_INVALID},
		{UINT64_MAX - 511, 512, 0x01, NVME_SGL_OFFSET_INVALID},
		{0, 256, 0x01, NVME_SGL_LENGTH_INVALID},
		{0, 512, 0x00, NVME_INVALID_FIELD},
		{0, 512, 0x02, NVME_INVALID_FIELD},
		{0, 512, 0x41, NVME_INVALID_FIELD},
		{0, 512, 0x11, NVME_SGL_TYPE_INVALID},
		{0, 16, 0x21, NVME_SGL_TYPE_INVALID},
		{0, 16, 0x31, NVME_SGL_TYPE_INVALID},
		{0, 512, 0x5f, NVME_SGL_TYPE_INVALID},
		{0, 512, 0xff, NVME_SGL_TYPE_INVALID},
	};
	struct raw_host h;

	raw_host_open(&h, d.port);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct nvme_sgl sgl = {.block = {.offset = put_le64(cases[i].offset),
						 .length = put_le32(cases[i].length),
						 .type = cases[i].type}};
		enum nvme_status status = try_sgl(&h, &sgl, NVME_FLAGS_PSDT_SGL);

		assert_int_equal(status, cases[i].status | (cases[i].status ? NVME_DNR : 0));
	}
	raw_host_close(&h);
}

static void r3_flags(void **state)
{
	struct nvme_sgl sgl = {.block = {.length = put_le32(512), .type = 0x01}};
	struct raw_host h;

	raw_host_open(&h, d.port);
	for (unsigned flags = 0; flags < 256; flags++) {
		enum nvme_status wanted = NVME_INVALID_FIELD | NVME_DNR;

		if ((flags & 0xc3) == NVME_FLAGS_PSDT_SGL)
			wanted = NVME_OK;
		else if ((flags & 0xc3) == (NVME_FLAGS_PSDT_SGL | 2)) /* after a bad first half */
			wanted = NVME_ABORTED_FAILED_FUSED | NVME_DNR;
		assert_int_equal(try_sgl(&h, &sgl, (uint8_t)flags), wanted);
	}
	raw_host_close(&h);
}

static void r3_ranges_and_lengths(void **state)
{
	static const struct {
		uint8_t opcode;
		uint32_t nsid;
		uint64_t slba;
		unsigned n_blocks;
		uint32_t n_bytes;
		enum nvme_status status;
	} cases[] = {
		{NVME_IO_READ, 0, 0, 1, 512, NVME_INVALID_NSID},
		{NVME_IO_READ, 5, 0, 1, 512, NVME_INVALID_NSID},
		{NVME_IO_READ, NVME_NSID_ALL, 0, 1, 512, NVME_INVALID_NSID},
		{NVME_IO_FLUSH, 5, 0, 1, 0, NVME_INVALID_NSID},
		{NVME_IO_READ, 1, 32767, 1, 512, NVME_OK},
		{NVME_IO_READ, 1, 32768, 1, 512, NVME_LBA_OUT_OF_RANGE},
		{NVME_IO_READ, 1, 32767, 2, 1024, NVME_LBA_OUT_OF_RANGE},
		{NVME_IO_WRITE, 1, UINT64_MAX, 1, 512, NVME_LBA_OUT_OF_RANGE},
		{NVME_IO_WRITE, 1, UINT64_MAX, 2, 1024, NVME_LBA_OUT_OF_RANGE},
		{NVME_IO_WRITE, 2, 1ULL << 52, 1, 4096, NVME_LBA_OUT_OF_RANGE},
		{NVME_IO_WRITE_ZEROES, 1, UINT64_MAX, 65536, 0, NVME_LBA_OUT_OF_RANGE},
		{NVME_IO_WRITE_ZEROES, 1, 0, 65536, 0, NVME_LBA_OUT_OF_RANGE},
		{NVME_IO_READ, 1, 0, 1, 0, NVME_SGL_LENGTH_INVALID},
		{NVME_IO_READ, 1, 0, 1, 511, NVME_SGL_LENGTH_INVALID},
		{NVME_IO_READ, 1, 0, 1, 1024, NVME_SGL_LENGTH_INVALID},
		{NVME_IO_READ, 1, 0, 2049, 2049 * 512, NVME_SGL_LENGTH_INVALID},
		{NVME_IO_WRITE, 1, 0, 32768, 0xfffffe, NVME_SGL_LENGTH_INVALID},
		{NVME_IO_READ, 4, 0, 65536, 0, NVME_SGL_LENGTH_INVALID},
		{NVME_IO_WRITE, 3, 0, 1, 512, NVME_NS_WRITE_PROTECTED},
		{NVME_IO_WRITE_ZEROES, 3, 0, 1, 0, NVME_NS_WRITE_PROTECTED},
		{NVME_IO_FLUSH, 1, 0, 1, 512, NVME_SGL_LENGTH_INVALID},
	};
	struct raw_host h;

	raw_host_open(&h, d.port);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		enum nvme_status status = raw_io(&h.io, cases[i].opcode, cases[i].nsid,
						 cases[i].slba, cases[i].n_blocks,
						 cases[i].n_bytes);

		assert_int_equal(status, cases[i].status | (cases[i].status ? NVME_DNR : 0));
	}
	raw_host_close(&h);
}

/* The response's data would go into the capsule. */
static void r3_read_into_the_capsule(void **state)
{
	struct raw_host h;
	struct nvme_sqe sqe;
	struct nvme_cqe cqe;
	uint8_t data[512] = {0};

	raw_host_open(&h, d.port);
	sqe = raw_sqe(&h.io, NVME_IO_READ, DAEMON_RAM);
	sqe.sgl.block.length = put_le32(512);
	sqe.sgl.block.type = NVME_SGL_DATA_BLOCK_OFFSET;
	assert_int_equal(raw_run(&h.io, &sqe, data, sizeof(data), &cqe),
			 NVME_INVALID_FIELD | NVME_DNR);
	raw_host_close(&h);
}

static bool is_known_admin(unsigned opcode)
{
	static const uint8_t known[] = {0x02, 0x06, 0x08, 0x09, 0x0a, 0x0c, 0x18, 0x38, 0x7f, 0x86};

	return memchr(known, (int)opcode, sizeof(known));
}

static bool is_known_io(unsigned opcode)
{
	static const uint8_t known[] = {0x00, 0x01, 0x02, 0x04, 0x05, 0x08, 0x09,
					0x0c, 0x0d, 0x0e, 0x11, 0x15, 0x19, 0x7f};

	return memchr(known, (int)opcode, sizeof(known));
}

static void r2_every_opcode(void **state)
{
	struct raw_host h;

	raw_host_open(&h, d.port);
	for (unsigned opcode = 0; opcode < 256; opcode++) {
		struct nvme_sqe sqe = raw_sqe(&h.admin, (uint8_t)opcode, 0xa5a5a5a5);
		struct nvme_cqe cqe;

		if (!is_known_admin(opcode))
			assert_int_equal(raw_run(&h.admin, &sqe, NULL, 0, &cqe),
					 NVME_INVALID_OPCODE | NVME_DNR);
		sqe.cid = put_le16(h.io.next_cid++);
		if (!is_known_io(opcode))
			assert_int_equal(raw_run(&h.io, &sqe, NULL, 0, &cqe),
					 NVME_INVALID_OPCODE | NVME_DNR);
	}
	raw_host_close(&h);
}

static void r2_every_fabrics_type(void **state)
{
	struct raw_host h;

	raw_host_open(&h, d.port);
	for (uint32_t type = 0; type < 256; type++) {
		struct nvme_sqe sqe = raw_sqe(&h.io, NVME_FABRICS, type);
		struct nvme_cqe cqe;

		assert_int_not_equal(raw_run(&h.io, &sqe, NULL, 0, &cqe), NVME_OK);
		sqe.cid = put_le16(h.admin.next_cid++);
		sqe.cdw11 = put_le32(0x1000); /* no such property */
		assert_int_not_equal(raw_run(&h.admin, &sqe, NULL, 0, &cqe), NVME_OK);
	}
	raw_host_close(&h);
}

/* ---- R5: log pages --------------------------------------------------------------------------- */

static enum nvme_status get_log(struct raw_queue *q, unsigned id, uint64_t offset,
				uint32_t n_dwords, uint32_t n_bytes)
{
	struct nvme_sqe sqe = raw_sqe(q, NVME_ADMIN_GET_LOG_PAGE, 0);
	struct nvme_cqe cqe;

	raw_describe(q, &sqe, 0, n_bytes);
	sqe.cdw10 = put_le32(id | (n_dwords & 0xffff) << 16);
	sqe.cdw11 = put_le32(n_dwords >> 16);
	sqe.cdw12 = put_le32((uint32_t)offset);
	sqe.cdw13 = put_le32((uint32_t)(offset >> 32));
	return raw_run(q, &sqe, NULL, 0, &cqe);
}

static void r5_log_offsets(void **state)
{
	static const uint64_t offsets[] = {
		4100,	    1ULL << 20,	    1ULL << 32,	      (1ULL << 32) + 4096,
		1ULL << 63, UINT64_MAX - 3, UINT64_MAX - 4095};
	static const unsigned logs[] = {NVME_LOG_ERROR, NVME_LOG_SMART, NVME_LOG_FIRMWARE,
					NVME_LOG_CHANGED_NS, NVME_LOG_EFFECTS};
	struct raw_host h, discovery;

	raw_host_open_admin(&h, d.port, RAW_SUBNQN);
	raw_host_open_admin(&discovery, d.port, NVMF_DISCOVERY_NQN);
	for (unsigned i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		for (unsigned j = 0; j < sizeof(logs) / sizeof(logs[0]); j++)
			assert_int_equal(get_log(&h.admin, logs[j], offsets[i], 1023, 4096),
					 NVME_INVALID_FIELD | NVME_DNR);
		assert_int_equal(
			get_log(&discovery.admin, NVME_LOG_DISCOVERY, offsets[i], 1023, 4096),
			NVME_INVALID_FIELD | NVME_DNR);
	}
	assert_int_equal(get_log(&h.admin, NVME_LOG_ERROR, 0, 0xffffffff, 4096),
			 NVME_INVALID_FIELD | NVME_DNR);
	assert_int_equal(get_log(&h.admin, NVME_LOG_ERROR, 0, 1023, 4092),
			 NVME_SGL_LENGTH_INVALID | NVME_DNR);
	raw_host_close(&h);
	raw_host_close(&discovery);
}

/* Bytes beyond a page are zero, however many a host requests. */
static void r5_nothing_leaks(void **state)
{
	struct raw_host h;

	raw_host_open_admin(&h, d.port, NVMF_DISCOVERY_NQN);
	memset(h.admin.data, 0xee, 64 * 1024);
	assert_int_equal(get_log(&h.admin, NVME_LOG_DISCOVERY, 0, 64 * 256 - 1, 64 * 1024),
			 NVME_OK);
	for (unsigned i = 2048; i < 64 * 1024; i++)
		assert_int_equal(h.admin.data[i], 0);
	raw_host_close(&h);
}

/* ---- R7, R9: keys, lifetimes
 * ------------------------------------------------------------------ */

static void r7_wrong_keys(void **state)
{
	static const uint8_t opcodes[] = {NVME_IO_READ, NVME_IO_WRITE};
	struct raw_host good, bad;

	raw_host_open(&good, d.port);
	for (unsigned i = 0; i < 2; i++) {
		struct nvme_sqe sqe;

		raw_host_open(&bad, d.port);
		sqe = raw_sqe(&bad.io, opcodes[i], DAEMON_FILE);
		raw_describe(&bad.io, &sqe, 0, 4096);
		sqe.sgl.keyed.key = put_le32(bad.io.mr->rkey ^ 0x5500);
		raw_send(&bad.io, &sqe, sizeof(sqe));
		assert_true(raw_is_dropped(&bad.io));
		raw_host_close(&bad);
		assert_int_equal(raw_io(&good.io, NVME_IO_READ, DAEMON_RAM, 0, 1, 512), NVME_OK);
	}
	raw_host_close(&good);
}

static void r9_more_commands_than_entries(void **state)
{
	struct raw_connect c;
	struct raw_queue q;
	struct nvme_cqe cqe;

	assert_int_equal(raw_open(&q, d.port, 0, 2), 0);
	raw_connect_init(&c, &q, 0, 1, NVMF_CNTLID_DYNAMIC);
	assert_int_equal(raw_connect(&q, &c, &cqe), NVME_OK);
	assert_int_equal(raw_property_set(&q, NVME_PROP_CC, NVME_CC_ENABLE_VALUE), NVME_OK);
	for (unsigned i = 0; i < 3; i++) {
		struct nvme_sqe sqe = raw_sqe(&q, NVME_ADMIN_ASYNC_EVENT_REQUEST, 0);

		raw_send(&q, &sqe, sizeof(sqe));
	}
	assert_true(raw_is_dropped(&q));
	daemon_wait_logged(&d, "more than 2 commands outstanding");
	raw_close(&q);
}

/* Connections in every stage, with commands in flight, of a process that dies. */
static void live_until_killed(void)
{
	struct raw_queue pending, connecting;
	struct raw_host h;

	raw_host_open(&h, d.port);
	if (raw_open(&pending, d.port, 0, 32) || raw_open(&connecting, d.port, 1, 32))
		_exit(1);
	for (unsigned i = 0; i < 20; i++) {
		struct nvme_sqe sqe = raw_sqe(&h.io, NVME_IO_WRITE, 1 + i % 2);

		raw_describe(&h.io, &sqe, 0, 1024 * 1024);
		sqe.cdw12 = put_le32((1024 * 1024 >> (i % 2 ? 12 : 9)) - 1);
		raw_send(&h.io, &sqe, sizeof(sqe));
	}
	kill(getpid(), SIGKILL);
}

static void r9_killed_hosts(void **state)
{
	for (unsigned i = 0; i < 5; i++) {
		int status;
		pid_t pid = fork();

		if (pid == 0)
			live_until_killed();
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
	}
}

static void r9_connect_storm(void **state)
{
	struct raw_queue queues[6];

	for (unsigned round = 0; round < 30; round++) {
		for (unsigned i = 0; i < 6; i++)
			assert_int_equal(raw_open(&queues[i], d.port, i & 1, 32), 0);
		for (unsigned i = 0; i < 6; i++)
			raw_close(&queues[i]);
		daemon_wait_empty(&d);
	}
}

/* ---- the fence
 * -------------------------------------------------------------------------------- */

static void put_pattern(struct raw_host *h, char pattern, uint64_t lba)
{
	memset(h->io.data, pattern, 4096);
	assert_int_equal(raw_io(&h->io, NVME_IO_WRITE, DAEMON_BIG_RAM, lba, 1, 4096), NVME_OK);
}

/*
 * SPDK issue 3593: slow writes of a dead association reach the disk after those of the new one.
 * Here the slow writes are Write Zeroes over 256 MiB; the new association's writes must stay.
 */
static void fence_old_writes_stay_behind(void **state)
{
	const uint64_t last = 65535, deadline = clock_ns() + 60 * NSEC_PER_SEC;
	struct raw_host h;

	for (unsigned round = 0; round < 3; round++) {
		raw_host_open(&h, d.port);
		for (unsigned i = 0; i < 16; i++) {
			struct nvme_sqe sqe = raw_sqe(&h.io, NVME_IO_WRITE_ZEROES, DAEMON_BIG_RAM);

			sqe.cdw12 = put_le32(65535);
			raw_send(&h.io, &sqe, sizeof(sqe));
		}
		raw_host_close(&h);
		raw_host_open(&h, d.port);
		put_pattern(&h, 'A', last);
		while (daemon_n_connections(&d) > 2) /* the dead association has ended */
			assert_true(clock_ns() < deadline);
		memset(h.io.data, 0, 4096);
		assert_int_equal(raw_io(&h.io, NVME_IO_READ, DAEMON_BIG_RAM, last, 1, 4096),
				 NVME_OK);
		assert_int_equal(h.io.data[0], 'A');
		assert_int_equal(h.io.data[4095], 'A');
		raw_host_close(&h);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(r3_short_capsules, next_good_host),
		cmocka_unit_test_teardown(r3_oversized_capsule, next_good_host),
		cmocka_unit_test_teardown(r3_descriptors, next_good_host),
		cmocka_unit_test_teardown(r3_flags, next_good_host),
		cmocka_unit_test_teardown(r3_ranges_and_lengths, next_good_host),
		cmocka_unit_test_teardown(r3_read_into_the_capsule, next_good_host),
		cmocka_unit_test_teardown(r2_every_opcode, next_good_host),
		cmocka_unit_test_teardown(r2_every_fabrics_type, next_good_host),
		cmocka_unit_test_teardown(r5_log_offsets, next_good_host),
		cmocka_unit_test_teardown(r5_nothing_leaks, next_good_host),
		cmocka_unit_test_teardown(r7_wrong_keys, next_good_host),
		cmocka_unit_test_teardown(r9_more_commands_than_entries, next_good_host),
		cmocka_unit_test_teardown(r9_killed_hosts, next_good_host),
		cmocka_unit_test_teardown(r9_connect_storm, next_good_host),
		cmocka_unit_test_teardown(fence_old_writes_stay_behind, next_good_host),
	};

	return cmocka_run_group_tests_name("hostile_commands", tests, start, stop);
}
