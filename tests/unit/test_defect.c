/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each of these tests breaks an invariant of one queue. That queue ends, the log has the reason and
 * its host's last capsules, and nothing else is affected. The target runs in one thread, over the
 * fabric of tests/fuzz.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/log.h"
#include "target/association/connection.h"
#include "target/association/controller.h"
#include "target/association/defect.h"
#include "target/engine/request/request.h"
#include "target/engine/request/request_run.h"
#include "tests/fuzz/fuzz_disk.h"
#include "tests/fuzz/fuzz_host.h"
#include "tests/fuzz/fuzz_wire.h"

enum {
	ADMIN,
	IO, /* of the host whose queue breaks */
	OTHER_ADMIN,
	OTHER_IO,
	AGAIN, /* the connections of that host's return */
	ON_RAM = 1,
	ON_DISK = 2,
	BLOCK = 512,
};

static char log_path[] = "/tmp/test_defect.XXXXXX";
static int log_fd, real_stderr;

/* ---- what rblkd says ------------------------------------------------------------------------ */

static int begin(void **state)
{
	host_begin(0, true);
	assert_int_equal(ftruncate(log_fd, 0), 0);
	lseek(log_fd, 0, SEEK_SET);
	fflush(stderr);
	dup2(log_fd, STDERR_FILENO);
	log_set_level(LOG_WARN);
	return 0;
}

static int end(void **state)
{
	log_set_level((enum log_level) - 1);
	dup2(real_stderr, STDERR_FILENO);
	host_end();
	return 0;
}

static void expect_logged(const char *text, bool is_there)
{
	char log[16384];
	ssize_t n = pread(log_fd, log, sizeof(log) - 1, 0);

	assert_true(n >= 0);
	log[n] = 0;
	if (!strstr(log, text) == is_there) {
		print_message("%s\n", log);
		fail_msg("%s the log: %s", is_there ? "not in" : "in", text);
	}
}

/* ---- what hosts do -------------------------------------------------------------------------- */

static void send_io(unsigned i, uint8_t opcode, uint32_t nsid, unsigned n_blocks, unsigned cid)
{
	struct nvme_sqe sqe = {.opcode = opcode,
			       .flags = NVME_FLAGS_PSDT_SGL,
			       .cid = put_le16((uint16_t)cid),
			       .nsid = put_le32(nsid),
			       .cdw12 = put_le32(n_blocks - 1)};

	host_send(i, &sqe, (size_t)n_blocks * BLOCK);
}

static struct request *only_request_in(unsigned i, enum request_state state)
{
	struct queue *queue = host_queue(i);
	struct request *found = NULL;

	assert_non_null(queue);
	for (unsigned k = 0; k < queue->n_requests; k++)
		if (queue->requests[k].state == state) {
			assert_null(found);
			found = &queue->requests[k];
		}
	assert_non_null(found);
	return found;
}

/* The other host, and the admin queue of this one, are served as before. */
static void expect_others_well(void)
{
	static const uint8_t opcodes[] = {NVME_IO_WRITE, NVME_IO_READ};

	assert_true(connection_is_live(host_queue(ADMIN)->connection));
	for (unsigned i = 0; i < 2; i++) {
		const struct queue_counters *counters = &host_queue(OTHER_IO)->counters;
		uint64_t n_errors = counters->n_errors, n = counters->n_commands;

		send_io(OTHER_IO, opcodes[i], ON_RAM, 8, 99);
		host_settle();
		assert_true(connection_is_live(host_queue(OTHER_IO)->connection));
		assert_int_equal(counters->n_commands, n + 1);
		assert_int_equal(counters->n_errors, n_errors);
	}
}

static void expect_said(const char *what)
{
	expect_logged("a defect of rblkd: ", true);
	expect_logged(what, true);
	expect_logged("queue 1: its last capsules, oldest first:", true);
	expect_logged("Read (0x2)", true);
}

/* A read that the disk holds. */
static struct request *hold_read(unsigned cid)
{
	disk_say(0, 0, true);
	send_io(IO, NVME_IO_READ, ON_DISK, 8, cid);
	host_settle();
	return only_request_in(IO, REQUEST_BACKEND);
}

static void wait_too_long(void)
{
	static const uint8_t time[] = {7, 0x7f};

	host_play(time, sizeof(time));
}

static void reserve(uint8_t opcode, uint32_t cdw10, const uint64_t keys[2])
{
	struct nvme_sqe sqe = {.opcode = opcode,
			       .flags = NVME_FLAGS_PSDT_SGL,
			       .cid = put_le16(77),
			       .nsid = put_le32(ON_DISK),
			       .cdw10 = put_le32(cdw10)};
	const struct queue_counters *counters = &host_queue(OTHER_IO)->counters;
	uint64_t n = counters->n_commands;

	wire_set_memory(0, (const uint8_t *)keys, 16);
	host_send(OTHER_IO, &sqe, 16);
	host_settle();
	assert_int_equal(counters->n_commands, n + 1);
	assert_int_equal(counters->n_errors, 0);
	assert_int_equal(host_queue(OTHER_IO)->n_busy, 0); /* answered */
}

/* The other host registers, and takes the namespace for itself: its command waits for all commands
 * of other hosts that are inside. */
static void reserve_for_other(void)
{
	static const uint64_t keys[2] = {0, 5}, mine[2] = {5, 0};

	reserve(NVME_IO_RESERVATION_REGISTER, 0, keys);
	reserve(NVME_IO_RESERVATION_ACQUIRE, NVME_RTYPE_EXCLUSIVE_ACCESS << NVME_RESV_RTYPE_SHIFT,
		mine);
	reserve(NVME_IO_RESERVATION_REGISTER, NVME_RREGA_UNREGISTER, mine);
}

/* ---- tests ---------------------------------------------------------------------------------- */

/* The disk has the command meanwhile: nothing of it is freed before the disk completes it. */
static void a_move_that_may_not_be(void **state)
{
	struct request *r = hold_read(7);
	struct queue *queue = host_queue(IO);
	struct target *target = queue->target;
	unsigned n_before = target->n_defects;

	request_run(r, REQUEST_PARSE);
	assert_int_equal(r->state, REQUEST_BACKEND);
	host_settle();
	expect_said("opcode 02, CID 7 may not go from state backend to parse");
	assert_true(connection_is_dying(queue->connection));
	assert_non_null(r->buffer.data);
	expect_others_well();
	disk_say(0, 0, false);
	host_settle();
	assert_null(host_queue(IO));
	expect_others_well();
	assert_int_equal(target->n_defects, n_before + 1);
	assert_int_equal(target->n_stranded, 0);
}

/* The disk completes a command whose state is free: the command, and its queue, are never freed. */
static void a_command_that_is_lost(void **state)
{
	struct request *r = hold_read(8);
	struct queue *queue = host_queue(IO);
	struct target *target = queue->target;

	r->state = REQUEST_FREE;
	disk_say(0, 0, false);
	host_settle();
	expect_said("opcode 02, CID 8 may not go from state free to respond");
	assert_true(connection_is_dying(queue->connection));
	expect_logged("its memory stays", false);
	wait_too_long();
	expect_logged("its memory stays", true);
	assert_int_equal(target->n_stranded, 1);
	assert_false(defect_has_all_stranded(target));
	expect_others_well();
	/* The fence does not wait for the stranded queue. */
	host_return(AGAIN);
	assert_true(connection_is_live(host_queue(AGAIN + 1)->connection));
	expect_others_well();
	reserve_for_other();
	/* Its state is repaired, so the command ends after all. */
	r->state = REQUEST_BACKEND;
	request_run(r, request_end(r, NVME_OK));
	host_settle();
	assert_null(host_queue(IO));
	assert_int_equal(target->n_stranded, 0);
}

static void a_free_command_that_is_not(void **state)
{
	struct queue *queue = host_queue(IO);

	send_io(IO, NVME_IO_READ, ON_RAM, 8, 1);
	host_settle();
	queue->free_requests->pair = queue->free_requests;
	send_io(IO, NVME_IO_READ, ON_RAM, 8, 2);
	host_settle();
	expect_said("a free command is not free, but in state free");
	assert_null(host_queue(IO));
	expect_others_well();
}

/* In an arena so small that 4096 bytes are the largest buffer. */
static void expect_no_buffer(void)
{
	host_settle();
	expect_said("opcode 02 needs a buffer of 8192 bytes, which there never is");
	assert_null(host_queue(IO));
	expect_others_well();
}

static void a_buffer_that_there_never_is(void **state)
{
	struct buddy *buddy = &host_queue(IO)->poller->data.buddy;
	size_t max_block = buddy->max_block;

	buddy->max_block = BLOCK;
	send_io(IO, NVME_IO_READ, ON_DISK, 16, 3);
	buddy->max_block = max_block;
	expect_no_buffer();
}

/* The first command takes the host's whole share, so the second is granted only when that is
 * given back. */
static void a_buffer_that_is_waited_for_in_vain(void **state)
{
	struct buddy *buddy = &host_queue(IO)->poller->data.buddy;
	size_t max_block = buddy->max_block;

	hold_read(3);
	send_io(IO, NVME_IO_READ, ON_DISK, 16, 4);
	only_request_in(IO, REQUEST_WAIT_BUFFER);
	buddy->max_block = BLOCK;
	disk_say(0, 0, false);
	host_settle();
	buddy->max_block = max_block;
	expect_no_buffer();
}

static void a_fetch_of_what_is_not_there(void **state)
{
	struct request *r;

	wire_hold(true);
	for (unsigned i = 0; i < 2; i++) /* here a host may have one buffer */
		send_io(IO, NVME_IO_WRITE, ON_DISK, 8, 4 + i);
	host_settle();
	r = only_request_in(IO, REQUEST_WAIT_BUFFER);
	r->sgl.place = SGL_NONE;
	wire_hold(false);
	host_settle();
	expect_logged("opcode 01 would fetch what is not with its host", true);
	assert_null(host_queue(IO));
	expect_others_well();
}

static void a_queue_that_lives_already(void **state)
{
	struct queue *queue = host_queue(IO);

	send_io(IO, NVME_IO_READ, ON_RAM, 8, 1);
	host_settle();
	connection_set_live(queue->connection);
	host_settle();
	expect_said("it may not become live in its state");
	assert_null(host_queue(IO));
	expect_others_well();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_move_that_may_not_be, begin, end),
		cmocka_unit_test_setup_teardown(a_command_that_is_lost, begin, end),
		cmocka_unit_test_setup_teardown(a_free_command_that_is_not, begin, end),
		cmocka_unit_test_setup_teardown(a_buffer_that_there_never_is, begin, end),
		cmocka_unit_test_setup_teardown(a_buffer_that_is_waited_for_in_vain, begin, end),
		cmocka_unit_test_setup_teardown(a_fetch_of_what_is_not_there, begin, end),
		cmocka_unit_test_setup_teardown(a_queue_that_lives_already, begin, end),
	};
	int r;

	log_fd = mkstemp(log_path);
	real_stderr = dup(STDERR_FILENO);
	r = cmocka_run_group_tests_name("defect", tests, NULL, NULL);
	unlink(log_path);
	return r;
}
