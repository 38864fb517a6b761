/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The last capsules of each queue: the records are what a raw host has sent, in order, with their
 * results; also in the log when a host violates the protocol, and when rblkd crashes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/bits.h"
#include "base/cleanup.h"
#include "base/rpc.h"
#include "base/rpc_client.h"
#include "tests/raw/group.h"
#include "tests/raw/host.h"

enum {
	PATIENCE_MS = 60000,
	KEPT = 32,
};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#	define CRASH SIGABRT /* other signals are the sanitizer's */
#else
#	define CRASH SIGSEGV
#endif

/* ---- asking --------------------------------------------------------------------------------- */

/* The answer is the caller's; the queue's object is in *ret_queue. */
static struct json_object *ask(const struct raw_host *h, unsigned qid,
			       struct json_object **ret_queue)
{
	struct json_object *params = json_object_new_object(), *result = NULL, *queues;
	struct json_object *names = json_object_new_array();
	struct error error = {.code = EXIT_OK};
	char path[128], name[32];

	snprintf(path, sizeof(path), "%s/sock", d.folder);
	snprintf(name, sizeof(name), "%u/%u", h->cntlid, qid);
	json_object_array_add(names, json_object_new_string(name));
	json_object_object_add(params, "queues", names);
	if (rpc_call(path, "capsules", params, PATIENCE_MS, &result, &error))
		fail_msg("capsules: %s", error.message);
	json_object_put(params);
	queues = json_object_object_get(result, "queues");
	assert_int_equal(json_object_array_length(queues), 1);
	*ret_queue = json_object_array_get_idx(queues, 0);
	return result;
}

static int64_t number(struct json_object *o, const char *key)
{
	return json_object_get_int64(json_object_object_get(o, key));
}

static struct json_object *list_of(struct json_object *queue)
{
	return json_object_object_get(queue, "capsules");
}

/* The nth record from the end. */
static struct json_object *last(struct json_object *queue, size_t n)
{
	size_t length = json_object_array_length(list_of(queue));

	assert_true(n < length);
	return json_object_array_get_idx(list_of(queue), length - 1 - n);
}

static void expect_text(struct json_object *o, const char *key, const char *wanted)
{
	const char *is = json_object_get_string(json_object_object_get(o, key));

	if (!is || !wanted)
		assert_true(is == wanted);
	else
		assert_string_equal(is, wanted);
}

/* ---- what a host does ----------------------------------------------------------------------- */

static enum nvme_status run_read(struct raw_host *h, uint64_t slba)
{
	struct nvme_sqe sqe = raw_blocks(&h->io, NVME_IO_READ, DAEMON_RAM, slba, 8);
	struct nvme_cqe cqe;

	raw_describe(&h->io, &sqe, 0, 4096);
	return raw_run(&h->io, &sqe, NULL, 0, &cqe);
}

/* ---- tests ---------------------------------------------------------------------------------- */

static void known_commands_are_shown(void **state)
{
	static const char data[512] = "in the capsule";
	struct json_object *answer, *queue, *o;
	struct nvme_sqe write, lost;
	struct raw_host h;
	struct nvme_cqe cqe;

	raw_host_open(&h, d.port);
	assert_int_equal(run_read(&h, 24), NVME_OK);
	write = raw_blocks(&h.io, NVME_IO_WRITE, DAEMON_RAM, 0x1234, 1);
	write.sgl = (struct nvme_sgl){
		.block = {.length = put_le32(512), .type = NVME_SGL_DATA_BLOCK_OFFSET}};
	assert_int_equal(raw_run(&h.io, &write, data, sizeof(data), &cqe), NVME_OK);
	lost = raw_blocks(&h.io, NVME_IO_WRITE_ZEROES, 77, (uint64_t)5 << 32 | 6, 3);
	assert_int_equal(raw_run(&h.io, &lost, NULL, 0, &cqe), NVME_INVALID_NSID | NVME_DNR);

	answer = ask(&h, 1, &queue);
	assert_int_equal(number(queue, "queue"), 1);
	expect_text(queue, "host_name", "raw");
	assert_int_equal(json_object_array_length(list_of(queue)), 4);
	expect_text(last(queue, 3), "command", "Connect");
	o = last(queue, 2);
	expect_text(o, "command", "Read");
	expect_text(o, "sgl", "keyed");
	assert_int_equal(number(o, "length"), 4096);
	assert_int_equal(number(o, "slba"), 24);
	assert_int_equal(number(o, "blocks"), 8);
	assert_int_equal(number(o, "nsid"), DAEMON_RAM);
	expect_text(o, "status_name", "Successful Completion");
	o = last(queue, 1);
	expect_text(o, "command", "Write");
	expect_text(o, "sgl", "in-capsule");
	assert_int_equal(number(o, "length"), 512);
	assert_int_equal(number(o, "slba"), 0x1234);
	assert_int_equal(number(o, "cid"), get_le16(write.cid));
	assert_int_equal(number(o, "status"), 0);
	o = last(queue, 0);
	expect_text(o, "command", "Write Zeroes");
	expect_text(o, "sgl", "none");
	assert_int_equal(number(o, "slba"), (uint64_t)5 << 32 | 6);
	assert_int_equal(number(o, "nsid"), 77);
	assert_int_equal(number(o, "status"), NVME_INVALID_NSID | NVME_DNR);
	assert_true(number(o, "age_ns") >= number(o, "took_ns"));
	json_object_put(answer);
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

/* More than the record holds: the last ones, in order; a waiting command has no result yet. */
static void the_last_are_kept(void **state)
{
	struct json_object *answer, *queue;
	struct nvme_sqe sqe;
	struct raw_host h;

	raw_host_open(&h, d.port);
	for (unsigned i = 0; i < 3 * KEPT + 5; i++)
		assert_int_equal(run_read(&h, i), NVME_OK);
	answer = ask(&h, 1, &queue);
	assert_int_equal(json_object_array_length(list_of(queue)), KEPT);
	for (unsigned i = 0; i < KEPT; i++)
		assert_int_equal(number(last(queue, i), "slba"), 3 * KEPT + 4 - i);
	json_object_put(answer);

	sqe = raw_sqe(&h.admin, NVME_ADMIN_ASYNC_EVENT_REQUEST, 0);
	raw_send(&h.admin, &sqe, sizeof(sqe));
	for (unsigned i = 0; i < 2; i++) { /* the first is waiting by then */
		struct nvme_sqe identify = raw_sqe(&h.admin, NVME_ADMIN_IDENTIFY, 0);
		struct nvme_cqe cqe;

		identify.cdw10 = put_le32(NVME_CNS_CTRL);
		raw_describe(&h.admin, &identify, 0, 4096);
		assert_int_equal(raw_run(&h.admin, &identify, NULL, 0, &cqe), NVME_OK);
	}
	answer = ask(&h, 0, &queue);
	expect_text(last(queue, 0), "command", "Identify");
	expect_text(last(queue, 0), "status_name", "Successful Completion");
	expect_text(last(queue, 2), "command", "Asynchronous Event Request");
	expect_text(last(queue, 2), "status_name", NULL);
	json_object_put(answer);

	/* A command that is answered after its record was reused: the new record keeps its own
	 * result. */
	for (unsigned i = 0; i < 2 * KEPT; i++) {
		uint64_t value;

		assert_int_equal(raw_property_get(&h.admin, NVME_PROP_CSTS, false, &value),
				 NVME_OK);
	}
	sqe = raw_sqe(&h.admin, NVME_ADMIN_ABORT, 0);
	sqe.cdw10 = put_le32((uint32_t)(h.admin.next_cid - 2 * KEPT - 4) << 16);
	raw_send(&h.admin, &sqe, sizeof(sqe));
	for (unsigned i = 0; i < 2; i++) {
		struct nvme_cqe cqe;

		assert_true(raw_receive(&h.admin, &cqe, PATIENCE_MS));
	}
	answer = ask(&h, 0, &queue);
	for (unsigned i = 1; i < KEPT; i++) {
		expect_text(last(queue, i), "command", "Property Get");
		expect_text(last(queue, i), "status_name", "Successful Completion");
	}
	json_object_put(answer);
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

/* A malformed capsule ends the queue: the log has the capsules before it, and nothing of its
 * rest. */
static void a_fault_is_logged_with_them(void **state)
{
	struct raw_host h;

	raw_host_open(&h, d.port);
	for (unsigned i = 0; i < 12; i++)
		assert_int_equal(run_read(&h, 4000 + i), NVME_OK);
	raw_send(&h.io, "too short", 9);
	assert_true(raw_is_dropped(&h.io));
	daemon_wait_logged(&d, "queue 1: its last capsules, oldest first");
	daemon_wait_logged(&d, "LBA 4011, 8 blocks, SGL keyed 4096: Successful Completion, after ");
	assert_true(
		daemon_has_logged(&d, "LBA 4004, 8 blocks, SGL keyed 4096: Successful Completion"));
	assert_false(daemon_has_logged(&d, "LBA 4003,"));
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

/* One command more than the queue has entries: it never became a request, and is the last
 * record. */
static void the_one_too_many_is_logged(void **state)
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

		sqe.cdw11 = put_le32(0xbeef00 + i);
		raw_send(&q, &sqe, sizeof(sqe));
	}
	assert_true(raw_is_dropped(&q));
	daemon_wait_logged(&d, "CDW11 0xbeef00: not answered");
	daemon_wait_logged(&d, "CDW11 0xbeef02: not answered");
	raw_close(&q);
	daemon_wait_empty(&d);
}

/* Records contain no names and no data of hosts: neither those of Connect, nor a block. */
static void nothing_secret_is_kept(void **state)
{
	struct json_object *answer, *queue;
	struct raw_host h;
	const char *text;

	raw_host_open(&h, d.port);
	answer = ask(&h, 0, &queue);
	text = json_object_to_json_string(list_of(queue));
	expect_text(json_object_array_get_idx(list_of(queue), 0), "command", "Connect");
	assert_null(strstr(text, "nqn."));
	assert_null(strstr(text, "key\":"));
	json_object_put(answer);
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

/* ---- rblkd breaks down ---------------------------------------------------------------------- */

static void a_crash_leaves_them(void **state)
{
	char sender[64];
	const struct rlimit none = {0, 0};
	struct daemon victim;
	struct raw_host h;
	struct nvme_sqe aer;

	setrlimit(RLIMIT_CORE, &none);
	daemon_start(&victim, "");
	raw_host_open(&h, victim.port);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(run_read(&h, 7000 + i), NVME_OK);
	aer = raw_sqe(&h.admin, NVME_ADMIN_ASYNC_EVENT_REQUEST, 0);
	raw_send(&h.admin, &aer, sizeof(aer));
	assert_int_equal(run_read(&h, 7003), NVME_OK);
	kill(victim.pid, CRASH);
	victim.is_terminated = true;
	assert_int_equal(WTERMSIG(daemon_end(&victim)), CRASH);
	assert_true(daemon_has_logged(&victim, "the last capsules of each queue"));
	snprintf(sender, sizeof(sender), ", sent by process %d of user ", getpid());
	assert_true(daemon_has_logged(&victim, sender));
	assert_true(daemon_has_logged(&victim, "rblkd("));
	assert_true(daemon_has_logged(&victim, ", host " RAW_HOSTNQN));
	assert_true(daemon_has_logged(&victim, "ago: Connect (0x7f), CID "));
	assert_true(daemon_has_logged(
		&victim,
		"NSID 1, LBA 7003, 8 blocks, SGL keyed 4096: Successful Completion, after "));
	raw_host_close(&h);
	daemon_remove(&victim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_commands_are_shown),
		cmocka_unit_test(the_last_are_kept),
		cmocka_unit_test(nothing_secret_is_kept),
		cmocka_unit_test(a_fault_is_logged_with_them),
		cmocka_unit_test(the_one_too_many_is_logged),
		cmocka_unit_test(a_crash_leaves_them),
	};

	return cmocka_run_group_tests_name("capsules", tests, start, stop);
}
