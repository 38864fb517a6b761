/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Another rblkd takes over: hosts are told by the event for which Linux resets a controller, one
 * that does not listen to it is served for a while and then disconnected, one that is slow to leave
 * has answers on its admin queue meanwhile, and all that hosts have set is as it was, also what no
 * restart keeps.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <cmocka.h>

#include "tests/raw/fencing.h"
#include "tests/raw/group.h"
#include "tests/raw/host.h"
#include "transport/wire/nvme_reservation.h"

#define TOOK_OVER "upgrade: took over"

enum {
	PATIENCE_MS = 60000,
	SILENT_MS = 100,
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

/* Another rblkd, whose disk can hang. */
static int start_hung(void **state)
{
	const char *softrdma = getenv("LD_PRELOAD");
	char preload[8192];

	snprintf(preload, sizeof(preload), "%s:%s", getenv("LIBHUNG"), softrdma);
	stop(state);
	setenv("LD_PRELOAD", preload, 1);
	return start_as_parent(state);
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

/* As a scan does. Linux forgets a namespace if the answer is a success or final. */
static enum nvme_status look_at_namespaces(struct raw_host *h)
{
	struct nvme_sqe sqe = raw_sqe(&h->admin, NVME_ADMIN_IDENTIFY, 0);
	struct nvme_cqe cqe;

	sqe.cdw10 = put_le32(NVME_CNS_NS_LIST);
	raw_describe(&h->admin, &sqe, 0, 4096);
	return raw_run(&h->admin, &sqe, NULL, 0, &cqe); /* with DNR */
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

/* A reset of Linux: the host ends its I/O queues, and then disables the controller. In between its
 * time is over, and the stores are another's. */
static void host_is_slow_to_leave(void **state)
{
	unsigned n_before;

	raw_host_open(&host, d.port);
	raw_host_open_as(&other, d.port, 2);
	listen_to_events(&host);
	n_before = daemon_n_logged(&d, TOOK_OVER);
	daemon_begin_upgrade(&d);
	expect_told(&host);
	raw_close(&host.io);
	raw_host_close(&other);
	daemon_wait_logged_again(&d, TOOK_OVER, n_before + 1);

	raw_host_open_as(&other, d.port, 2); /* nothing waits for the slow one */
	assert_int_equal(on_block(&other, NVME_IO_READ, DAEMON_FILE), NVME_OK);
	assert_int_equal(look_at_namespaces(&host), NVME_ABORTED_SQ_DELETION);
	assert_int_equal(raw_property_set(&host.admin, NVME_PROP_CC, 0), NVME_OK);
	raw_wait_csts(&host.admin, NVME_CSTS_RDY, 0);
	raw_host_close(&host);
	daemon_end_upgrade(&d);
	raw_host_close(&other);
	raw_host_open(&host, d.port);
	assert_int_equal(on_block(&host, NVME_IO_READ, DAEMON_FILE), NVME_OK);
	raw_host_close(&host);
}

/* It was told and has done nothing yet: the loss of an I/O queue would make it wait. One that asks
 * for the next event has ignored this one. */
static void host_is_slow_to_notice(void **state)
{
	unsigned n_before = daemon_n_logged(&d, TOOK_OVER);
	struct nvme_sqe sqe;
	struct nvme_cqe cqe;

	raw_host_open(&host, d.port);
	raw_host_open_as(&other, d.port, 2);
	listen_to_events(&host);
	listen_to_events(&other);
	daemon_begin_upgrade(&d);
	expect_told(&host);
	expect_told(&other);
	listen_to_events(&other);
	assert_true(raw_is_dropped(&other.io));
	daemon_wait_logged_again(&d, TOOK_OVER, n_before + 1);
	sqe = raw_blocks(&host.io, NVME_IO_READ, DAEMON_FILE, LOST_BLOCK, 1);
	raw_describe(&host.io, &sqe, 0, 4096);
	raw_send(&host.io, &sqe, sizeof(sqe));
	assert_int_equal(look_at_namespaces(&host), NVME_ABORTED_SQ_DELETION);
	assert_false(raw_receive(&host.io, &cqe, SILENT_MS));
	assert_false(host.io.is_dead);
	assert_int_equal(raw_property_set(&host.admin, NVME_PROP_CC, 0), NVME_OK);
	raw_wait_csts(&host.admin, NVME_CSTS_RDY, 0);
	assert_true(raw_is_dropped(&host.io));
	raw_host_close(&host);
	raw_host_close(&other);
	daemon_end_upgrade(&d);
}

/* The same with I/O queues until they end, and a shutdown. */
static void host_is_slow_to_shut_down(void **state)
{
	unsigned n_before;

	n_before = daemon_n_logged(&d, TOOK_OVER);
	raw_host_open(&host, d.port);
	daemon_begin_upgrade(&d);
	assert_true(raw_is_dropped(&host.io));
	daemon_wait_logged_again(&d, TOOK_OVER, n_before + 1);
	assert_int_equal(raw_property_set(&host.admin, NVME_PROP_CC,
					  NVME_CC_ENABLE_VALUE | NVME_CC_SHN_NORMAL),
			 NVME_OK);
	raw_wait_csts(&host.admin, NVME_CSTS_SHST_COMPLETE, NVME_CSTS_SHST_COMPLETE);
	raw_host_close(&host);
	daemon_end_upgrade(&d);
}

/* By then another process is that of the service. */
static void old_one_is_stopped(void **state)
{
	unsigned n_before = daemon_n_logged(&d, TOOK_OVER);

	raw_host_open(&host, d.port);
	daemon_begin_upgrade(&d);
	daemon_wait_logged_again(&d, TOOK_OVER, n_before + 1);
	assert_int_equal(look_at_namespaces(&host), NVME_ABORTED_SQ_DELETION);
	assert_int_equal(kill(d.pid, SIGTERM), 0);
	assert_true(raw_is_dropped(&host.admin));
	daemon_end_upgrade(&d);
	raw_host_close(&host);
	raw_host_open(&host, d.port);
	assert_int_equal(on_block(&host, NVME_IO_READ, DAEMON_FILE), NVME_OK);
	raw_host_close(&host);
}

/* While it still has the stores, and a disk hangs that is to be synced. */
static void upgrade_is_stopped(void **state)
{
	raw_host_open(&host, d.port);
	listen_to_events(&host);
	fencing_hang_disk(true);
	daemon_begin_upgrade(&d);
	expect_told(&host);
	raw_close(&host.io);
	while (look_at_namespaces(&host) != NVME_ABORTED_SQ_DELETION)
		assert_true(daemon_n_connections(&d) > 0);
	daemon_terminate(&d);
	assert_true(raw_is_dropped(&host.admin));
	fencing_hang_disk(false);
	daemon_restart(&d);
	raw_host_close(&host);
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
		cmocka_unit_test(host_is_slow_to_leave),
		cmocka_unit_test(host_is_slow_to_notice),
		cmocka_unit_test(host_is_slow_to_shut_down),
		cmocka_unit_test(old_one_is_stopped),
		cmocka_unit_test(again_and_again),
		cmocka_unit_test_setup(upgrade_is_stopped, start_hung),
	};

	return cmocka_run_group_tests_name("upgrade", tests, start_as_parent, stop);
}
