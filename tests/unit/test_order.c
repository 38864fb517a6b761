/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rules whose breach shows only in a certain order of events: while the disk has a command, after a
 * silence, between two reads of a log. The target runs in one thread over the fabric of tests/fuzz,
 * on a disk and a clock of this test. So the order is the test's, and a command that has not begun
 * when no work is left would never begin.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "target/association/controller.h"
#include "target/engine/record/portal.h"
#include "target/engine/queue/queue_path.h"
#include "target/engine/request/request.h"
#include "target/export/guard/guard.h"
#include "target/export/namespace.h"
#include "target/operations/change/drain.h"
#include "tests/fuzz/fuzz_disk.h"
#include "tests/fuzz/fuzz_host.h"
#include "tests/fuzz/fuzz_wire.h"
#include "transport/wire/fabrics.h"
#include "transport/wire/nvme_reservation.h"

enum {
	ADMIN, /* of the first host */
	IO,
	OTHER_ADMIN, /* of another host */
	OTHER_IO,
	NEW_ADMIN, /* of an association that comes later */
	NEW_IO,
	ON_DISK = 2,
	BLOCK = 512,
	N = 8, /* blocks of a command */
	STEP_MS = 5,
	STEPS_MAX = 1000,
	ONE_HOST_BYTES = 1 << 20,
	KEY = 10,
	KATO_S = 60, /* of WORLD_KEEPS_ALIVE */
};

/* ---- time ----------------------------------------------------------------------------------- */

static uint64_t time_ns = 1000 * NSEC_PER_SEC;

static uint64_t read_time(void)
{
	return __atomic_load_n(&time_ns, __ATOMIC_RELAXED);
}

static void move_time(uint64_t ns)
{
	__atomic_add_fetch(&time_ns, ns, __ATOMIC_RELAXED);
}

static const struct clock_source source = {read_time, read_time, move_time};

/* In steps of the shortest timer that a case waits for. */
static void let_pass(unsigned ms)
{
	for (unsigned i = 0; i < ms; i += STEP_MS) {
		move_time(STEP_MS * NSEC_PER_MSEC);
		host_settle();
	}
}

/* ---- the world ------------------------------------------------------------------------------ */

static int begin_in(unsigned world)
{
	host_begin(world, true);
	/* A case counts what the disk has, and a command without a buffer does not come there. */
	atomic_store(&host_queue(ADMIN)->target->bytes_per_host, ONE_HOST_BYTES);
	return 0;
}

static int begin(void **state)
{
	return begin_in(0);
}

static int begin_with_state(void **state)
{
	return begin_in(WORLD_STATE);
}

static int begin_with_kato(void **state)
{
	return begin_in(WORLD_KEEPS_ALIVE);
}

static int begin_discovery(void **state)
{
	return begin_in(WORLD_DISCOVERY);
}

static int end(void **state)
{
	wire_set_sink(NULL, 0);
	host_end();
	return 0;
}

/* ---- commands ------------------------------------------------------------------------------- */

/* Each command of a case has a number of its own: its CID. */
static void send_blocks(unsigned i, uint8_t opcode, unsigned fuse, unsigned slba, unsigned cid)
{
	struct nvme_sqe sqe = {.opcode = opcode,
			       .flags = (uint8_t)(NVME_FLAGS_PSDT_SGL | fuse),
			       .cid = put_le16((uint16_t)cid),
			       .nsid = put_le32(ON_DISK),
			       .cdw10 = put_le32(slba),
			       .cdw12 = put_le32(N - 1)};

	host_send(i, &sqe, (size_t)N * BLOCK);
}

static void send_write(unsigned i, unsigned slba, unsigned cid)
{
	send_blocks(i, NVME_IO_WRITE, 0, slba, cid);
	host_settle();
}

static struct nvme_sqe simple(uint8_t opcode, unsigned cid, uint32_t cdw10)
{
	return (struct nvme_sqe){.opcode = opcode,
				 .flags = NVME_FLAGS_PSDT_SGL,
				 .cid = put_le16((uint16_t)cid),
				 .nsid = put_le32(ON_DISK),
				 .cdw10 = put_le32(cdw10)};
}

static void reserve(unsigned i, uint8_t opcode, uint32_t cdw10, uint64_t first, uint64_t second)
{
	struct nvme_sqe sqe = simple(opcode, 70, cdw10);
	le64 keys[2] = {put_le64(first), put_le64(second)};

	wire_set_memory(0, (const uint8_t *)keys, sizeof(keys));
	host_send(i, &sqe, sizeof(keys));
	host_settle();
	wire_set_memory(0, NULL, 0);
}

/* Whether all commands of the queue were answered with success. */
static void expect_done(unsigned i)
{
	const struct queue *queue = host_queue(i);

	assert_non_null(queue);
	assert_int_equal(queue->n_busy, 0);
	assert_int_equal(queue->counters.n_errors, 0);
}

static void expect_state(unsigned i, unsigned cid, enum request_state state)
{
	const struct queue *queue = host_queue(i);

	assert_non_null(queue);
	for (unsigned k = 0; k < queue->n_requests; k++) {
		const struct request *r = &queue->requests[k];

		if (r->state == REQUEST_FREE || get_le16(r->sqe.cid) != cid)
			continue;
		assert_int_equal(r->state, state);
		return;
	}
	fail_msg("command %u is over", cid);
}

static void resume_disk(void)
{
	disk_say(0, 0, false);
	host_settle();
}

/* ---- a pair --------------------------------------------------------------------------------- */

/* The disk has the read of a Compare and Write. Commands of other hosts to its blocks are parked
 * until both halves are done; others go on. */
static void a_pair_has_its_range_alone(void **state)
{
	disk_say(0, 0, true);
	send_blocks(IO, NVME_IO_COMPARE, NVME_FLAGS_FUSE_FIRST, 0, 1);
	send_blocks(IO, NVME_IO_WRITE, NVME_FLAGS_FUSE_SECOND, 0, 2);
	host_settle();
	assert_int_equal(disk_n_held(), 1);
	send_write(OTHER_IO, N - 1, 3);
	expect_state(OTHER_IO, 3, REQUEST_PARKED);
	assert_int_equal(disk_n_held(), 1);
	send_write(OTHER_IO, N, 4);
	expect_state(OTHER_IO, 4, REQUEST_BACKEND);
	disk_end_oldest(); /* the pair's read; its write follows */
	host_settle();
	expect_state(OTHER_IO, 3, REQUEST_PARKED);
	resume_disk();
	expect_done(IO);
	expect_done(OTHER_IO);
}

/* ---- new rules ------------------------------------------------------------------------------ */

/* A host that holds the reservation may rely on it as soon as it is answered. */
static void a_preempt_waits_for_the_writes_of_the_holder(void **state)
{
	const uint32_t type = NVME_RTYPE_WRITE_EXCLUSIVE << NVME_RESV_RTYPE_SHIFT;

	reserve(IO, NVME_IO_RESERVATION_REGISTER, NVME_RREGA_REGISTER, 0, KEY);
	reserve(OTHER_IO, NVME_IO_RESERVATION_REGISTER, NVME_RREGA_REGISTER, 0, KEY + 1);
	reserve(IO, NVME_IO_RESERVATION_ACQUIRE, type | NVME_RACQA_ACQUIRE, KEY, 0);
	expect_done(IO);
	disk_say(0, 0, true);
	send_write(IO, 0, 1);
	reserve(OTHER_IO, NVME_IO_RESERVATION_ACQUIRE, type | NVME_RACQA_PREEMPT, KEY + 1, KEY);
	expect_state(IO, 1, REQUEST_BACKEND);
	expect_state(OTHER_IO, 70, REQUEST_TURN);
	resume_disk();
	expect_done(IO);
	expect_done(OTHER_IO);
	send_write(IO, 0, 2);
	assert_int_equal(host_queue(IO)->counters.n_errors, 1); /* a conflict */
}

static struct guard *guard_on_disk(void)
{
	return subsystem_namespace(queue_subsystem(host_queue(ADMIN)), ON_DISK)->guard;
}

/* The medium changes no more once protection is answered: first the writes end, then the cache is
 * flushed. */
static void protection_waits_for_writes(void **state)
{
	struct nvme_sqe sqe = simple(NVME_ADMIN_SET_FEATURES, 71, NVME_FEAT_WRITE_PROTECT);

	sqe.cdw11 = put_le32(NVME_WP_PROTECTED);
	disk_say(0, 0, true);
	send_write(OTHER_IO, 0, 1);
	host_send(ADMIN, &sqe, 0);
	/* A thread of rblkd stores the new state meanwhile. */
	while (!(guard_flags(guard_on_disk()) & GUARD_PROTECTED))
		host_settle();
	host_settle();
	assert_int_equal(disk_n_held(), 1);
	expect_state(ADMIN, 71, REQUEST_TURN);
	disk_end_oldest();
	host_settle();
	assert_int_equal(disk_n_held(), 1); /* the flush */
	expect_state(ADMIN, 71, REQUEST_TURN);
	resume_disk();
	expect_done(ADMIN);
	expect_done(OTHER_IO);
}

/* ---- old writes ----------------------------------------------------------------------------- */

static bool is_connected(unsigned i)
{
	return host_queue(i) && host_queue(i)->controller;
}

/* The first host connects anew, beside its older association. */
static void open_new_association(void)
{
	host_ask(NEW_ADMIN, 1);
	for (unsigned i = 0; i < STEPS_MAX && !is_connected(NEW_ADMIN); i++)
		let_pass(STEP_MS);
	assert_true(is_connected(NEW_ADMIN));
	host_enter(NEW_ADMIN, 1);
}

/* Two writes of one association are old, and one of them ends: the other still keeps newer writes
 * of its host's other associations from its blocks. */
static void each_old_write_guards_its_blocks(void **state)
{
	open_new_association();
	disk_say(0, 0, true);
	send_write(IO, 0, 1);
	send_write(IO, N, 2);
	let_pass(2000);
	assert_true(guard_flags(guard_on_disk()) & GUARD_AGED);
	send_write(NEW_IO, N, 3);
	expect_state(NEW_IO, 3, REQUEST_PARKED);
	disk_end_oldest();
	host_settle();
	let_pass(100); /* it is tried again meanwhile */
	expect_state(IO, 2, REQUEST_BACKEND);
	expect_state(NEW_IO, 3, REQUEST_PARKED);
	send_write(NEW_IO, 0, 4);
	expect_state(NEW_IO, 4, REQUEST_BACKEND);
	resume_disk();
	let_pass(100);
	expect_done(IO);
	expect_done(NEW_IO);
	assert_false(guard_flags(guard_on_disk()) & GUARD_AGED);
}

/* A new association of a host waits for the writes of its older ones, and for no other host's. */
static void a_connect_waits_for_its_own_host(void **state)
{
	disk_say(0, 0, true);
	send_write(IO, 0, 1);
	host_ask(NEW_ADMIN, 3);
	assert_true(is_connected(NEW_ADMIN));
	host_ask(NEW_IO, 1);
	let_pass(100);
	assert_false(is_connected(NEW_IO));
	resume_disk();
	let_pass(100);
	assert_true(is_connected(NEW_IO));
	expect_done(IO);
}

/* ---- silence -------------------------------------------------------------------------------- */

static void an_association_that_is_silent_ends(void **state)
{
	move_time((KATO_S - 1) * NSEC_PER_SEC);
	host_settle();
	send_write(OTHER_IO, 0, 1);
	expect_done(IO);
	move_time(2 * NSEC_PER_SEC);
	host_settle();
	assert_null(host_queue(ADMIN));
	assert_null(host_queue(IO));
	expect_done(OTHER_IO);
}

/* rblkd was stopped: the time is over, though no timer has expired. The host may have sent the
 * write again elsewhere. */
static void an_expired_association_writes_nothing(void **state)
{
	static const uint8_t silence[] = {7, 0x7e};

	disk_say(0, 0, true);
	host_play(silence, sizeof(silence));
	send_write(IO, 0, 1);
	assert_int_equal(disk_n_held(), 0);
	assert_null(host_queue(IO));
}

/* ---- discovery ------------------------------------------------------------------------------ */

static struct nvmf_discovery_header read_log(void)
{
	struct nvmf_discovery_header header = {0};
	unsigned n_dwords = sizeof(header) / 4;
	struct nvme_sqe sqe = simple(NVME_ADMIN_GET_LOG_PAGE, 72,
				     NVME_LOG_DISCOVERY | (n_dwords - 1) << 16);

	wire_set_sink((uint8_t *)&header, sizeof(header));
	host_send(ADMIN, &sqe, sizeof(header));
	host_settle();
	wire_set_sink(NULL, 0);
	expect_done(ADMIN);
	return header;
}

/* Hosts that read the log in pieces see by its generation that it has changed in between. */
static void a_log_without_a_portal_is_another(void **state)
{
	struct portal *portal = &host_queue(ADMIN)->target->portals[2];
	struct nvmf_discovery_header before = read_log(), without, after;

	portal_drain(portal);
	without = read_log();
	assert_true(get_le64(without.numrec) < get_le64(before.numrec));
	assert_int_not_equal(get_le64(without.genctr), get_le64(before.genctr));
	assert_int_equal(portal_undrain(portal), 0);
	after = read_log();
	assert_int_equal(get_le64(after.numrec), get_le64(before.numrec));
	assert_int_not_equal(get_le64(after.genctr), get_le64(without.genctr));
	assert_int_not_equal(get_le64(after.genctr), get_le64(before.genctr));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_pair_has_its_range_alone, begin, end),
		cmocka_unit_test_setup_teardown(a_preempt_waits_for_the_writes_of_the_holder, begin,
						end),
		cmocka_unit_test_setup_teardown(protection_waits_for_writes, begin_with_state, end),
		cmocka_unit_test_setup_teardown(each_old_write_guards_its_blocks, begin, end),
		cmocka_unit_test_setup_teardown(a_connect_waits_for_its_own_host, begin, end),
		cmocka_unit_test_setup_teardown(an_association_that_is_silent_ends, begin_with_kato,
						end),
		cmocka_unit_test_setup_teardown(an_expired_association_writes_nothing,
						begin_with_kato, end),
		cmocka_unit_test_setup_teardown(a_log_without_a_portal_is_another, begin_discovery,
						end),
	};

	clock_source = &source;
	return cmocka_run_group_tests_name("order", tests, NULL, NULL);
}
