/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two rblkd and one image with an owner, and hosts in raw verbs: reservations move with it, hosts
 * hear nothing of what the cluster refuses, and a controller of another machine is over where the
 * image is owned. test_owner.py starts the cluster, and names the image: RBLK_TEST_RBD,
 * RBLK_TEST_RBD_CONF.
 */
#include <signal.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include <json-c/json.h>

#include "base/clock.h"
#include "tests/raw/daemon.h"
#include "tests/raw/reset.h"
#include "transport/wire/nvme_reservation.h"

enum {
	N = 2,
	PATIENCE_S = 120,
	PAUSE_US = 20 * 1000,
	OTHER_MACHINE_BIT = 50, /* engine/record/incarnation.h */
	CONFLICT = NVME_RESERVATION_CONFLICT | NVME_DNR,
};

static struct daemon gateways[N];
static struct raw_host hosts[N];

static void write_config(const struct daemon *daemon)
{
	FILE *f = daemon_open_config(daemon);
	unsigned first = daemon == &gateways[0] ? 1 : 1001;

	fprintf(f,
		"version: 1\ncontrol_socket: %s/sock\ncontroller_ids: {min: %u, max: %u}\n"
		"portals: [{name: p, address: 127.0.0.1, port: %u}, {name: q, address: 127.0.0.1, port: %u}]\n"
		"subsystems:\n  - nqn: %s\n    allow_any_host: true\n"
		"    ana_groups: [{id: 1, owner: lock, lease: 2s}]\n    namespaces:\n"
		"      - {nsid: 1, rbd: %s, ceph_conf: %s, uuid: 0b1e6c5e-5a55-4c0e-9b0c-2f6f4b5d1a12}\n",
		daemon->folder, first, first + 999, daemon->port, daemon->second_port, RAW_SUBNQN,
		getenv("RBLK_TEST_RBD"), getenv("RBLK_TEST_RBD_CONF"));
	assert_int_equal(fclose(f), 0);
}

static bool is_in(unsigned i, const char *state)
{
	struct json_object *result = daemon_ask(&gateways[i], "group_list"), *group, *value;
	bool is_same;

	group = json_object_array_get_idx(json_object_object_get(result, "groups"), 0);
	value = json_object_object_get(group, "state");
	is_same = !strcmp(json_object_get_string(value), state);
	json_object_put(result);
	return is_same;
}

static void wait_for(unsigned i, const char *state)
{
	uint64_t deadline = clock_ns() + PATIENCE_S * NSEC_PER_SEC;

	while (!is_in(i, state)) {
		assert_true(clock_ns() < deadline);
		usleep(PAUSE_US);
	}
}

/* The gateway that is the owner, or will be. */
static unsigned wait_for_owner(void)
{
	uint64_t deadline = clock_ns() + PATIENCE_S * NSEC_PER_SEC;

	for (unsigned i = 0;; i = !i) {
		if (is_in(i, "owner"))
			return i;
		assert_true(clock_ns() < deadline);
		usleep(PAUSE_US);
	}
}

static int start(void **state)
{
	daemon_start_configured(&gateways[0], write_config);
	wait_for(0, "owner");
	daemon_start_configured(&gateways[1], write_config);
	return 0;
}

static int stop(void **state)
{
	for (unsigned i = 0; i < N; i++)
		daemon_stop(&gateways[i]);
	return 0;
}

/* Both hosts at one gateway. */
static void come(unsigned gateway)
{
	for (unsigned i = 0; i < N; i++)
		raw_host_open_as(&hosts[i], gateways[gateway].port, i);
}

static void leave(void)
{
	for (unsigned i = 0; i < N; i++)
		raw_host_close(&hosts[i]);
}

/* ---- commands of host i ---------------------------------------------------------------------- */

static enum nvme_status reserve(unsigned i, uint8_t opcode, uint32_t cdw10, uint64_t first,
				uint64_t second)
{
	struct raw_queue *q = &hosts[i].io;
	struct nvme_sqe sqe = raw_sqe(q, opcode, 1);
	le64 keys[2] = {put_le64(first), put_le64(second)};
	struct nvme_cqe cqe;

	memcpy(q->data, keys, sizeof(keys));
	raw_describe(q, &sqe, 0, opcode == NVME_IO_RESERVATION_RELEASE ? 8 : 16);
	sqe.cdw10 = put_le32(cdw10);
	return raw_run(q, &sqe, NULL, 0, &cqe);
}

struct report {
	struct nvme_resv_status status;
	struct nvme_resv_registrant registrants[N];
};

/* Without the ids of controllers, which are the gateway's. */
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
	for (unsigned k = 0; k < N; k++)
		memset(&report.registrants[k].cntlid, 0, sizeof(report.registrants[k].cntlid));
	return report;
}

static enum nvme_status write_block(unsigned i)
{
	return raw_io(&hosts[i].io, NVME_IO_WRITE, 1, 0, 1, 512);
}

/* ---- cases ----------------------------------------------------------------------------------- */

/* Nothing of it was asked to persist. The owner stands still, and does not end. */
static void reservations_move(void **state)
{
	struct report before, after;

	come(0);
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(
			reserve(i, NVME_IO_RESERVATION_REGISTER, NVME_RREGA_REGISTER, 0, 10 + i),
			NVME_OK);
	assert_int_equal(
		reserve(0, NVME_IO_RESERVATION_ACQUIRE,
			NVME_RACQA_ACQUIRE | NVME_RTYPE_WRITE_EXCLUSIVE << NVME_RESV_RTYPE_SHIFT,
			10, 0),
		NVME_OK);
	before = report(0);
	assert_int_equal(before.status.regctl[0], N);
	kill(gateways[0].pid, SIGSTOP);
	wait_for(1, "owner");
	kill(gateways[0].pid, SIGCONT);
	wait_for(0, "standing by");
	leave();
	come(1);
	after = report(1);
	assert_memory_equal(&before, &after, sizeof(before));
	assert_int_equal(write_block(0), NVME_OK);
	assert_int_equal(write_block(1), CONFLICT);
	assert_int_equal(reserve(0, NVME_IO_RESERVATION_RELEASE, NVME_RRELA_CLEAR, 10, 0), NVME_OK);
	assert_int_equal(write_block(1), NVME_OK);
	leave();
}

/* While the caller goes on. */
static void blocklist_owner_beside(void)
{
	char script[1024];

	snprintf(script, sizeof(script),
		 "unset LD_PRELOAD; conf=%s; (rbd -c $conf status %s | "
		 "sed -n 's/.*watcher=\\([^ ]*\\).*/\\1/p' | "
		 "while read -r a; do ceph -c $conf osd blocklist add $a 1000000 || exit; done) &",
		 getenv("RBLK_TEST_RBD_CONF"), getenv("RBLK_TEST_RBD"));
	assert_int_equal(system(script), 0);
}

/* Each command is answered by success, or by the end of the connection. */
static void nothing_is_heard_of_what_is_refused(void **state)
{
	unsigned owner = wait_for_owner(), n_ok = 0;
	struct raw_queue *q = &hosts[0].io;
	struct nvme_sqe sqe;
	struct nvme_cqe cqe;

	come(owner);
	assert_int_equal(write_block(0), NVME_OK);
	blocklist_owner_beside();
	do {
		sqe = raw_sqe(q, NVME_IO_WRITE, 1);
		raw_describe(q, &sqe, 0, 512);
		raw_send(q, &sqe, sizeof(sqe));
		if (!raw_receive(q, &cqe, PATIENCE_S * 1000))
			break;
		assert_int_equal(get_nvme_status(cqe.status), NVME_OK);
	} while (++n_ok);
	assert_true(q->is_dead);
	leave();
	daemon_wait_logged(
		&gateways[owner],
		"this rblkd is not the owner any more: this client is in the cluster's blocklist");
	come(wait_for_owner());
	assert_int_equal(write_block(0), NVME_OK);
	leave();
}

/* The number of an instance names its machine. The owner has fenced whatever had the image. */
static void far_ones_are_over_where_it_is_owned(void **state)
{
	unsigned owner = wait_for_owner();
	struct raw_name name;
	bool is_immediate;

	wait_for(!owner, "standing by");
	raw_host_open_as(&hosts[0], gateways[owner].port, 0);
	raw_host_open_as(&hosts[1], gateways[!owner].port, 0);
	name = raw_name_of(&hosts[1]);
	name.cirn ^= 1ULL << OTHER_MACHINE_BIT;
	assert_int_equal(raw_reset(&hosts[0].admin, name, &is_immediate), NVME_OK);
	assert_true(is_immediate);
	name = raw_name_of(&hosts[0]);
	name.cirn ^= 1ULL << OTHER_MACHINE_BIT;
	assert_int_equal(raw_reset(&hosts[1].admin, name, &is_immediate),
			 NVME_INVALID_FIELD | NVME_DNR);
	leave();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reservations_move),
		cmocka_unit_test(nothing_is_heard_of_what_is_refused),
		cmocka_unit_test(far_ones_are_over_where_it_is_owned),
	};

	return cmocka_run_group_tests_name("owned", tests, start, stop);
}
