/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Another rblkd takes over: hosts are told by the event for which Linux resets a controller, one
 * that does not listen to it is served for a while and then disconnected, and all that hosts have
 * set is as it was, also what no restart keeps.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <cmocka.h>

#include "tests/raw/group.h"
#include "tests/raw/host.h"
#include "transport/wire/nvme_reservation.h"

enum {
	PATIENCE_MS = 60000,
	KEY = 10,
	LOST_BLOCK = 7,
};

/* The event is for each; of the others the second host does not know. */
static struct raw_host host, other;

/* Processes that take over are children of one that has ended: they become the test's. */
static int start_as_parent(void **state)
{
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0);
	return start_keeping(state);
}

static enum nvme_status reserve(uint8_t opcode, uint32_t cdw10, uint64_t first, uint64_t second)
{
	return raw_reserve(&host.io, DAEMON_RAM, opcode, cdw10, first, second);
}

static struct nvme_resv_status report(void)
{
	return raw_report(&host.io, DAEMON_RAM);
}

static enum nvme_status protect(unsigned how)
{
	struct nvme_sqe sqe = raw_sqe(&host.admin, NVME_ADMIN_SET_FEATURES, DAEMON_FILE);
	struct nvme_cqe cqe;

	sqe.cdw10 = put_le32(NVME_FEAT_WRITE_PROTECT);
	sqe.cdw11 = put_le32(how);
	return nvme_status_code(raw_run(&host.admin, &sqe, NULL, 0, &cqe));
}

static enum nvme_status on_block(struct raw_host *h, uint8_t opcode, uint32_t nsid)
{
	struct nvme_sqe sqe = raw_blocks(&h->io, opcode, nsid, LOST_BLOCK, 1);
	struct nvme_cqe cqe;

	if (opcode != NVME_IO_WRITE_UNCORRECTABLE)
		raw_describe(&h->io, &sqe, 0, nsid == DAEMON_RAM ? 512 : 4096);
	return nvme_status_code(raw_run(&h->io, &sqe, NULL, 0, &cqe));
}

/* Sends it; its response is the event. */
static void listen_to_events(struct raw_host *h)
{
	struct nvme_sqe sqe = raw_sqe(&h->admin, NVME_ADMIN_ASYNC_EVENT_REQUEST, 0);

	raw_send(&h->admin, &sqe, sizeof(sqe));
}

static void expect_told(struct raw_host *h)
{
	struct nvme_cqe cqe;

	assert_true(raw_receive(&h->admin, &cqe, PATIENCE_MS));
	assert_int_equal(nvme_status_code(get_le16(cqe.status) >> 1), NVME_OK);
	assert_int_equal((uint32_t)get_le64(cqe.result), NVME_AER_PERSISTENT_ERROR);
}

/* ---- the cases ------------------------------------------------------------------------------ */

static void what_hosts_have_set_stays(void **state)
{
	struct nvme_resv_status before;

	raw_host_open(&host, d.port);
	assert_int_equal(reserve(NVME_IO_RESERVATION_REGISTER, NVME_RREGA_REGISTER, 0, KEY),
			 NVME_OK);
	assert_int_equal(
		reserve(NVME_IO_RESERVATION_ACQUIRE,
			NVME_RACQA_ACQUIRE | NVME_RTYPE_WRITE_EXCLUSIVE << NVME_RESV_RTYPE_SHIFT,
			KEY, 0),
		NVME_OK);
	assert_int_equal(on_block(&host, NVME_IO_WRITE_UNCORRECTABLE, DAEMON_RAM), NVME_OK);
	assert_int_equal(protect(NVME_WP_UNTIL_POWER_CYCLE), NVME_OK);
	before = report();
	assert_int_equal(before.ptpls, 0);
	raw_host_close(&host);

	daemon_upgrade(&d);
	raw_host_open(&host, d.port);
	raw_host_open_as(&other, d.port, 2);
	assert_memory_equal(&before, &(struct nvme_resv_status[1]){report()}, sizeof(before));
	assert_int_equal(on_block(&host, NVME_IO_READ, DAEMON_RAM), NVME_UNRECOVERED_READ);
	assert_int_equal(on_block(&host, NVME_IO_WRITE, DAEMON_RAM), NVME_OK);
	assert_int_equal(on_block(&other, NVME_IO_WRITE, DAEMON_RAM), NVME_RESERVATION_CONFLICT);
	assert_int_equal(on_block(&host, NVME_IO_WRITE, DAEMON_FILE), NVME_NS_WRITE_PROTECTED);
	raw_host_close(&host);
	raw_host_close(&other);
}

static void hosts_are_told(void **state)
{
	raw_host_open(&host, d.port);
	raw_host_open_as(&other, d.port, 2);
	listen_to_events(&host);
	daemon_begin_upgrade(&d);
	expect_told(&host);
	/* one that does not listen goes on; it is disconnected in the end */
	assert_int_equal(on_block(&other, NVME_IO_READ, DAEMON_FILE), NVME_OK);
	assert_true(raw_is_dropped(&other.io));
	assert_true(raw_is_dropped(&host.admin));
	daemon_end_upgrade(&d);
	raw_host_close(&host);
	raw_host_close(&other);
	raw_host_open(&host, d.port);
	assert_int_equal(on_block(&host, NVME_IO_READ, DAEMON_FILE), NVME_OK);
	raw_host_close(&host);
}

/* Through many processes nothing is lost on the way. */
static void again_and_again(void **state)
{
	struct nvme_resv_status before;

	raw_host_open(&host, d.port);
	before = report();
	raw_host_close(&host);
	for (unsigned i = 0; i < 5; i++)
		daemon_upgrade(&d);
	raw_host_open(&host, d.port);
	assert_memory_equal(&before, &(struct nvme_resv_status[1]){report()}, sizeof(before));
	assert_int_equal(on_block(&host, NVME_IO_WRITE, DAEMON_FILE), NVME_NS_WRITE_PROTECTED);
	raw_host_close(&host);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_hosts_have_set_stays),
		cmocka_unit_test(hosts_are_told),
		cmocka_unit_test(again_and_again),
	};

	return cmocka_run_group_tests_name("upgrade", tests, start_as_parent, stop);
}
