/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two rblkd that export one image, each with a host in raw verbs: what one writes down of
 * reservations, the other reads. test_ceph.py starts the cluster and names the image, without the
 * feature exclusive-lock: RBLK_TEST_RBD, RBLK_TEST_RBD_CONF.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/rpc.h"
#include "tests/raw/daemon.h"
#include "tests/raw/host.h"
#include "transport/wire/nvme_reservation.h"

enum {
	N = 2,
	PATIENCE_MS = 60000,
	ROUNDS = 25,
	CONFLICT = NVME_RESERVATION_CONFLICT | NVME_DNR,
};

static struct daemon gateways[N];
static struct raw_host hosts[N];

static void write_config(const struct daemon *d)
{
	bool is_first = d == &gateways[0];
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/target.yaml", d->folder);
	f = fopen(path, "w");
	assert_non_null(f);
	fprintf(f,
		"version: 1\ncontrol_socket: %s/sock\n"
		"controller_ids: {min: %u, max: %u}\n"
		"portals:\n  - {name: p, address: 127.0.0.1, port: %u}\n"
		"  - {name: q, address: 127.0.0.1, port: %u}\n"
		"subsystems:\n  - nqn: %s\n    allow_any_host: true\n    namespaces:\n"
		"      - {nsid: 1, rbd: %s, ceph_conf: %s}\n",
		d->folder, is_first ? 1 : 1001, is_first ? 1000 : 2000, d->port, d->second_port,
		RAW_SUBNQN, getenv("RBLK_TEST_RBD"), getenv("RBLK_TEST_RBD_CONF"));
	assert_int_equal(fclose(f), 0);
}

static int come(void **state)
{
	for (unsigned i = 0; i < N; i++)
		raw_host_open_as(&hosts[i], gateways[i].port, i);
	return 0;
}

static int leave(void **state)
{
	for (unsigned i = 0; i < N; i++)
		raw_host_close(&hosts[i]);
	for (unsigned i = 0; i < N; i++)
		daemon_wait_empty(&gateways[i]);
	return 0;
}

static int start(void **state)
{
	for (unsigned i = 0; i < N; i++)
		daemon_start_configured(&gateways[i], write_config);
	return 0;
}

static int stop(void **state)
{
	for (unsigned i = 0; i < N; i++)
		daemon_stop(&gateways[i]);
	return 0;
}

/* ---- the commands: host i at gateway i ------------------------------------------------------- */

static struct nvme_sqe describe(unsigned i, uint8_t opcode, uint32_t cdw10, uint64_t first,
				uint64_t second)
{
	struct raw_queue *q = &hosts[i].io;
	struct nvme_sqe sqe = raw_sqe(q, opcode, 1);
	le64 keys[2] = {put_le64(first), put_le64(second)};

	memcpy(q->data, keys, sizeof(keys));
	raw_describe(q, &sqe, 0, opcode == NVME_IO_RESERVATION_RELEASE ? 8 : 16);
	sqe.cdw10 = put_le32(cdw10);
	return sqe;
}

static enum nvme_status reserve(unsigned i, uint8_t opcode, uint32_t cdw10, uint64_t first,
				uint64_t second)
{
	struct nvme_sqe sqe = describe(i, opcode, cdw10, first, second);
	struct nvme_cqe cqe;

	return raw_run(&hosts[i].io, &sqe, NULL, 0, &cqe);
}

static enum nvme_status regist(unsigned i, uint64_t key)
{
	return reserve(i, NVME_IO_RESERVATION_REGISTER, NVME_RREGA_REGISTER, 0, key);
}

static enum nvme_status acquire(unsigned i, unsigned action, uint64_t key, uint64_t other)
{
	return reserve(i, NVME_IO_RESERVATION_ACQUIRE,
		       action | NVME_RTYPE_WRITE_EXCLUSIVE << NVME_RESV_RTYPE_SHIFT, key, other);
}

static enum nvme_status clear(unsigned i, uint64_t key)
{
	return reserve(i, NVME_IO_RESERVATION_RELEASE, NVME_RRELA_CLEAR, key, 0);
}

struct report {
	struct nvme_resv_status status;
	struct nvme_resv_registrant registrants[N];
};

static struct report report(unsigned i)
{
	struct raw_queue *q = &hosts[i].io;
	struct nvme_sqe sqe = raw_sqe(q, NVME_IO_RESERVATION_REPORT, 1);
	struct report report;
	struct nvme_cqe cqe;

	raw_describe(q, &sqe, 0, sizeof(report));
	sqe.cdw10 = put_le32(sizeof(report) / 4 - 1);
	sqe.cdw11 = put_le32(NVME_RESV_EDS);
	assert_int_equal(raw_run(q, &sqe, NULL, 0, &cqe), NVME_OK);
	memcpy(&report, q->data, sizeof(report));
	return report;
}

static enum nvme_status write_block(unsigned i)
{
	return raw_io(&hosts[i].io, NVME_IO_WRITE, 1, 0, 1, 512);
}

static uint32_t generation(unsigned i)
{
	return get_le32(report(i).status.gen);
}

static void expect_alike(void)
{
	struct report a = report(0), b = report(1);

	assert_memory_equal(&a, &b, sizeof(a));
}

/* ---- cases ----------------------------------------------------------------------------------- */

/* None of it was asked to persist (PTPL): the cluster has lost no power. */
static void a_kill_loses_nothing(void **state)
{
	struct report before, after;

	assert_int_equal(regist(0, 10), NVME_OK);
	assert_int_equal(regist(1, 11), NVME_OK);
	assert_int_equal(acquire(0, NVME_RACQA_ACQUIRE, 10, 0), NVME_OK);
	before = report(0);
	assert_int_equal(before.status.regctl[0], N);
	assert_int_equal(get_le32(before.status.gen), 2);
	assert_int_equal(before.status.ptpls, 0);
	expect_alike();
	leave(NULL);
	daemon_kill_and_restart(&gateways[0]);
	come(NULL);
	after = report(1);
	assert_memory_equal(&before, &after, sizeof(before));
	expect_alike();
	assert_int_equal(write_block(0), NVME_OK);
	assert_int_equal(write_block(1), CONFLICT);
}

/* The other gateway enforces it from its next report or change on. */
static void a_preempt_is_seen(void **state)
{
	assert_int_equal(acquire(1, NVME_RACQA_PREEMPT, 11, 10), NVME_OK);
	assert_int_equal(write_block(1), NVME_OK);
	assert_int_equal(report(0).status.regctl[0], 1);
	assert_int_equal(write_block(0), CONFLICT);
	assert_int_equal(acquire(0, NVME_RACQA_ACQUIRE, 10, 0), CONFLICT);
	assert_int_equal(generation(0), 3);
	assert_int_equal(clear(1, 11), NVME_OK);
	assert_int_equal(report(0).status.regctl[0], 0);
	assert_int_equal(write_block(0), NVME_OK);
}

/* Each change counts once, whichever gateway is faster. */
static void both_change_at_once(void **state)
{
	uint32_t before = generation(0);
	const uint32_t replace = NVME_RREGA_REPLACE |
				 (uint32_t)NVME_RESV_IEKEY; /* registers at first */

	for (unsigned round = 1; round <= ROUNDS; round++) {
		struct nvme_sqe sqes[N];

		for (unsigned i = 0; i < N; i++)
			sqes[i] = describe(i, NVME_IO_RESERVATION_REGISTER, replace, 0, round);
		for (unsigned i = 0; i < N; i++)
			raw_send(&hosts[i].io, &sqes[i], sizeof(sqes[i]));
		for (unsigned i = 0; i < N; i++)
			assert_true(raw_collect(&hosts[i].io, 1, PATIENCE_MS));
	}
	assert_int_equal(generation(1), before + N * ROUNDS);
	assert_int_equal(report(0).status.regctl[0], N);
	expect_alike();
	assert_int_equal(clear(0, ROUNDS), NVME_OK);
}

static uint64_t conflicts(unsigned i)
{
	struct json_object *params = json_object_new_object(), *result = NULL, *list;
	struct error error;
	char path[128];
	uint64_t n;

	snprintf(path, sizeof(path), "%s/sock", gateways[i].folder);
	json_object_object_add(params, "what", json_object_new_string("namespaces"));
	if (rpc_call(path, "list", params, PATIENCE_MS, &result, &error))
		fail_msg("%s", error.message);
	list = json_object_object_get(result, "namespaces");
	result = json_object_array_get_idx(list, 0);
	assert_non_null(
		strstr(json_object_get_string(json_object_object_get(result, "state_store")),
		       "/rblk.state."));
	assert_int_equal(json_object_get_int(json_object_object_get(result, "state_errors")), 0);
	n = (uint64_t)json_object_get_int64(json_object_object_get(result, "state_conflicts"));
	return n;
}

static void status_counts_them(void **state)
{
	print_message("# conflicts: %llu and %llu\n", (unsigned long long)conflicts(0),
		      (unsigned long long)conflicts(1));
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, come, leave)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_kill_loses_nothing),
		CASE(a_preempt_is_seen),
		CASE(both_change_at_once),
		CASE(status_counts_them),
	};

	return cmocka_run_group_tests_name("state", tests, start, stop);
}
