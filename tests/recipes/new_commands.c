/* SPDX-License-Identifier: BSD-3-Clause */
/* A host that sends the commands which the recipes of docs/HACKING.md add to the rblkd in
 * $RBLKD. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

#include "base/check.h"
#include "tests/raw/daemon.h"
#include "tests/raw/host.h"

enum {
	OPCODE_CAPACITY = 0x80,	   /* of the recipe io-command */
	OPCODE_GENERATION = 0xc0,  /* of the recipe admin-command */
	CAPACITY = 16 << 20 >> 12, /* of DAEMON_FILE, in blocks */
	EFFECTS_BYTES = 4096,
};

static uint32_t effects(struct raw_queue *q, unsigned at)
{
	struct nvme_sqe sqe = raw_sqe(q, NVME_ADMIN_GET_LOG_PAGE, NVME_NSID_ALL);
	struct nvme_cqe cqe;
	le32 value;

	raw_describe(q, &sqe, 0, EFFECTS_BYTES);
	sqe.cdw10 = put_le32(NVME_LOG_EFFECTS | (EFFECTS_BYTES / 4 - 1) << 16);
	assert_int_equal(raw_run(q, &sqe, NULL, 0, &cqe), NVME_OK);
	memcpy(&value, q->data + at * sizeof(value), sizeof(value));
	return get_le32(value);
}

static void io_command(void **state)
{
	struct raw_host h;
	struct nvme_cqe cqe;
	struct nvme_sqe sqe;
	struct daemon d;

	daemon_start(&d, "");
	raw_host_open(&h, d.port);
	sqe = raw_sqe(&h.io, OPCODE_CAPACITY, DAEMON_FILE);
	assert_int_equal(raw_run(&h.io, &sqe, NULL, 0, &cqe), NVME_OK);
	assert_int_equal(get_le64(cqe.result), CAPACITY);
	sqe = raw_sqe(&h.io, OPCODE_CAPACITY, DAEMON_ANA_GROUP + 1000);
	assert_int_equal(raw_run(&h.io, &sqe, NULL, 0, &cqe), NVME_INVALID_NSID | NVME_DNR);
	assert_int_equal(effects(&h.admin, 256 + OPCODE_CAPACITY), NVME_EFFECT_CSUPP);
	raw_host_close(&h);
	daemon_stop(&d);
}

static void admin_command(void **state)
{
	struct raw_host h;
	struct nvme_cqe cqe;
	struct nvme_sqe sqe;
	struct daemon d;

	daemon_start(&d, "");
	raw_host_open(&h, d.port);
	sqe = raw_sqe(&h.admin, OPCODE_GENERATION, 0);
	assert_int_equal(raw_run(&h.admin, &sqe, NULL, 0, &cqe), NVME_OK);
	assert_int_equal(get_le64(cqe.result), 1);
	assert_int_equal(effects(&h.admin, OPCODE_GENERATION), NVME_EFFECT_CSUPP);
	raw_host_close(&h);
	daemon_stop(&d);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest io[] = {cmocka_unit_test(io_command)};
	const struct CMUnitTest admin[] = {cmocka_unit_test(admin_command)};

	check(argc == 2);
	if (!strcmp(argv[1], "io"))
		return cmocka_run_group_tests_name("io", io, NULL, NULL);
	return cmocka_run_group_tests_name("admin", admin, NULL, NULL);
}
