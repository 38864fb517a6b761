/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two rblkd that export one image, each with a host in raw verbs: what one writes down of
 * reservations, the other reads; and what hosts get when that fails. test_ceph.py starts the
 * cluster, and names the image, without the feature exclusive-lock, and the process of the OSD:
 * RBLK_TEST_RBD, RBLK_TEST_RBD_CONF, RBLK_TEST_OSD.
 */
#include <signal.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/rpc.h"
#include "base/rpc_client.h"
#include "tests/raw/daemon.h"
#include "tests/raw/reset.h"
#include "transport/wire/nvme_reservation.h"

enum {
	N = 2,
	PATIENCE_MS = 60000,
	ROUNDS = 25,
	CONFLICT = NVME_RESERVATION_CONFLICT | NVME_DNR,
};

static struct daemon gateways[N];
static struct raw_host hosts[N + 1]; /* the last: of a case */

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
		"      - {nsid: 1, rbd: %s, ceph_conf: %s, shared: true}\n      - {nsid: 2, ram: 1MiB}\n",
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

static enum nvme_status try_report(unsigned i, struct report *ret_report)
{
	struct raw_queue *q = &hosts[i].io;
	struct nvme_sqe sqe = raw_sqe(q, NVME_IO_RESERVATION_REPORT, 1);
	struct nvme_cqe cqe;
	enum nvme_status status;

	raw_describe(q, &sqe, 0, sizeof(*ret_report));
	sqe.cdw10 = put_le32(sizeof(*ret_report) / 4 - 1);
	sqe.cdw11 = put_le32(NVME_RESV_EDS);
	status = raw_run(q, &sqe, NULL, 0, &cqe);
	memcpy(ret_report, q->data, sizeof(*ret_report));
	return status;
}

static struct report report(unsigned i)
{
	struct report report;

	assert_int_equal(try_report(i, &report), NVME_OK);
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

/* ---- what rblkctl gets ----------------------------------------------------------------------- */

static struct json_object *ask(unsigned i, const char *method, const char *what)
{
	struct json_object *params = json_object_new_object(), *result = NULL;
	struct error error;
	char path[128];

	snprintf(path, sizeof(path), "%s/sock", gateways[i].folder);
	json_object_object_add(params, "what", json_object_new_string(what));
	if (rpc_call(path, method, params, PATIENCE_MS, &result, &error))
		fail_msg("%s", error.message);
	json_object_put(params);
	return result;
}

/* A value of the image's namespace, or of the status; the caller frees it. */
static char *value_of(unsigned i, const char *key, bool is_of_status)
{
	struct json_object *result = ask(i, is_of_status ? "status" : "list", "namespaces");
	struct json_object *list = json_object_object_get(result, "namespaces");
	struct json_object *value = json_object_object_get(
		is_of_status ? result : json_object_array_get_idx(list, 0), key);
	char *text = strdup(value ? json_object_get_string(value) : "none");

	assert_non_null(text);
	json_object_put(result);
	return text;
}

static void must_show(unsigned i, const char *key, const char *wanted)
{
	char *is = value_of(i, key, false);

	assert_string_equal(is, wanted);
	free(is);
}

static void must_be(unsigned i, const char *wanted)
{
	char *is = value_of(i, "state", true);

	assert_string_equal(is, wanted);
	free(is);
}

static unsigned long number_of(unsigned i, const char *key)
{
	char *is = value_of(i, key, false);
	unsigned long n = strtoul(is, NULL, 10);

	free(is);
	return n;
}

/* ---- an administrator ------------------------------------------------------------------------ */

static struct json_object *call(unsigned i, struct json_object *params)
{
	struct json_object *result = NULL;
	struct error error;
	char path[128];

	snprintf(path, sizeof(path), "%s/sock", gateways[i].folder);
	if (rpc_call(path, "registrant_drop", params, PATIENCE_MS, &result, &error))
		fail_msg("%s", error.message);
	json_object_put(params);
	return result;
}

/* Drops the registrant with the identifier of host 1 (raw_host_open_as) at gateway i, whether or
 * not it is connected there: "dropped", or "none". */
static void drop(unsigned i, const char *wanted)
{
	struct json_object *params = json_object_new_object(), *result, *id;

	json_object_object_add(params, "subsystem", json_object_new_string(RAW_SUBNQN));
	json_object_object_add(params, "nsid", json_object_new_int(1));
	json_object_object_add(params, "hostid",
			       json_object_new_string("72617720-686f-7374-2031-362062797466"));
	json_object_object_add(params, "force", json_object_new_boolean(true));
	result = call(i, params);
	while (!strcmp(json_object_get_string(json_object_object_get(result, "state")),
		       "running")) {
		id = json_object_get(json_object_object_get(result, "id"));
		json_object_put(result);
		params = json_object_new_object();
		json_object_object_add(params, "id", id);
		result = call(i, params);
	}
	assert_string_equal(json_object_get_string(json_object_object_get(result, "state")),
			    wanted);
	json_object_put(result);
}

/* The other gateway may know of no registrant, and finds it in the cluster. */
static void a_drop_reaches_the_other(void **state)
{
	uint32_t before = generation(0);

	assert_int_equal(regist(1, 11), NVME_OK);
	assert_int_equal(acquire(1, NVME_RACQA_ACQUIRE, 11, 0), NVME_OK);
	drop(0, "dropped");
	drop(0, "none");
	assert_int_equal(report(1).status.regctl[0], 0);
	assert_int_equal(write_block(0), NVME_OK);
	assert_int_equal(generation(0), before + 2);
	expect_alike();
}

/* Neither overwrites the other, whichever gateway is faster. */
static void a_drop_beside_a_change(void **state)
{
	uint32_t before = generation(0);
	const uint32_t replace = NVME_RREGA_REPLACE | (uint32_t)NVME_RESV_IEKEY;

	for (unsigned round = 1; round <= ROUNDS; round++) {
		struct nvme_sqe sqe = describe(0, NVME_IO_RESERVATION_REGISTER, replace, 0, round);

		assert_int_equal(regist(1, 11), NVME_OK);
		raw_send(&hosts[0].io, &sqe, sizeof(sqe));
		drop(1, "dropped");
		assert_true(raw_collect(&hosts[0].io, 1, PATIENCE_MS));
	}
	assert_int_equal(generation(1), before + 3 * ROUNDS);
	assert_int_equal(report(0).status.regctl[0], 1);
	expect_alike();
	assert_int_equal(clear(0, ROUNDS), NVME_OK);
}

static void status_counts_them(void **state)
{
	char *place = value_of(0, "state_store", false);

	assert_non_null(strstr(place, "/rblk.state."));
	free(place);
	for (unsigned i = 0; i < N; i++) {
		must_show(i, "state_errors", "0");
		must_show(i, "state_error", "none");
		must_show(i, "state_shared", "true");
		must_be(i, "ok");
	}
	print_message("# conflicts: %lu and %lu\n", number_of(0, "state_conflicts"),
		      number_of(1, "state_conflicts"));
}

/* ---- a cluster that does not answer, or refuses ---------------------------------------------- */

static void tell_osd(int number)
{
	assert_int_equal(kill((pid_t)strtol(getenv("RBLK_TEST_OSD"), NULL, 10), number), 0);
}

/* No thread of the OSD runs any more. kill does not wait for that: its answer could still come. */
static void stop_osd(void)
{
	char command[128];

	tell_osd(SIGSTOP);
	snprintf(
		command, sizeof(command),
		"unset LD_PRELOAD; while grep -q '^State:.[^T]' /proc/%s/task/*/status; do sleep 0.01; done",
		getenv("RBLK_TEST_OSD"));
	assert_int_equal(system(command), 0);
}

/* Commands of the shell, with $conf and $image, and $object in the pool rbd. */
static void tell_cluster(const char *commands)
{
	char *place = value_of(0, "state_store", false), script[1024];

	snprintf(script, sizeof(script), "unset LD_PRELOAD; conf=%s image=%s object=%s; %s",
		 getenv("RBLK_TEST_RBD_CONF"), getenv("RBLK_TEST_RBD"), strchr(place, '/') + 1,
		 commands);
	free(place);
	assert_int_equal(system(script), 0);
}

/* No answer comes before the cluster has kept the change; all else goes on. */
static void a_hung_osd_is_waited_for(void **state)
{
	struct nvme_sqe sqe = describe(0, NVME_IO_RESERVATION_REGISTER, NVME_RREGA_REGISTER, 0, 10);
	struct raw_queue *q = &hosts[0].io;

	stop_osd();
	raw_send(q, &sqe, sizeof(sqe));
	for (unsigned round = 0; round < ROUNDS; round++) {
		assert_int_equal(raw_io(q, NVME_IO_READ, 2, 0, 1, 512), NVME_OK);
		must_show(0, "state_error", "none");
	}
	assert_int_equal(q->n_arrived, 0);
	tell_osd(SIGCONT);
	assert_true(raw_collect(q, 1, PATIENCE_MS));
	assert_int_equal(report(1).status.regctl[0], 1);
	assert_int_equal(clear(0, 10), NVME_OK);
}

static bool has_live_connection(unsigned i)
{
	struct json_object *result = ask(i, "list", "connections");
	bool has = strstr(json_object_to_json_string(json_object_object_get(result, "connections")),
			  "\"live\"");

	json_object_put(result);
	return has;
}

/* The host has given up; a change that it made elsewhere meanwhile must not be undone. */
static void a_late_answer_changes_nothing(void **state)
{
	struct nvme_sqe sqe = describe(0, NVME_IO_RESERVATION_REGISTER, NVME_RREGA_REGISTER, 0, 10);

	stop_osd();
	raw_send(&hosts[0].io, &sqe, sizeof(sqe));
	assert_int_equal(raw_io(&hosts[0].io, NVME_IO_READ, 2, 0, 1, 512), NVME_OK);
	raw_host_close(&hosts[0]);
	while (has_live_connection(0))
		;
	tell_osd(SIGCONT);
	daemon_wait_empty(&gateways[0]);
	raw_host_open_as(&hosts[0], gateways[0].port, 0);
	assert_int_equal(report(1).status.regctl[0], 0);
}

static void expect_refused(unsigned i, const char *why)
{
	struct report nothing;

	assert_int_equal(try_report(i, &nothing), NVME_INTERNAL_ERROR);
	assert_int_equal(regist(i, 10), NVME_INTERNAL_ERROR);
	must_show(i, "state_error", why);
	must_be(i, "degraded");
	assert_int_equal(daemon_n_logged(&gateways[i], why), 2);
}

/* Whatever the object holds: the state from before stays valid until it is legible again. */
static void a_damaged_object_is_refused(void **state)
{
	assert_int_equal(regist(0, 10), NVME_OK);
	assert_int_equal(acquire(0, NVME_RACQA_ACQUIRE, 10, 0), NVME_OK);
	expect_alike();
	tell_cluster("rados -c $conf -p rbd setomapval $object guard# 12");
	expect_refused(0, "it is damaged");
	assert_int_equal(write_block(1), CONFLICT);
	tell_cluster("rados -c $conf -p rbd setomapval $object guard# 00000000000000ff; "
		     "rados -c $conf -p rbd setomapval $object guard '{\"version\": 1, \"reserv'");
	expect_refused(1, "it is damaged");
	assert_int_equal(write_block(1), CONFLICT);
	tell_cluster("rados -c $conf -p rbd rm $object");
	assert_int_equal(generation(0), 0);
	assert_int_equal(generation(1), 0);
	assert_int_equal(write_block(1), NVME_OK);
	must_be(1, "ok");
}

/* After a restart it is another client, and finds what was kept. */
static void a_client_that_is_cut_off(void **state)
{
	struct report before;

	assert_int_equal(regist(1, 11), NVME_OK);
	before = report(0);
	tell_cluster("rbd -c $conf status $image | sed -n 's/.*watcher=\\([^ ]*\\).*/\\1/p' | "
		     "while read -r a; do ceph -c $conf osd blocklist add $a || exit; done");
	for (unsigned i = 0; i < N; i++)
		expect_refused(i, "this rblkd is in the blocklist of the cluster: restart it");
	leave(NULL);
	for (unsigned i = 0; i < N; i++)
		daemon_kill_and_restart(&gateways[i]);
	come(NULL);
	expect_alike();
	assert_int_equal(report(0).status.regctl[0], 1);
	assert_int_equal(generation(0), get_le32(before.status.gen));
	assert_int_equal(clear(1, 11), NVME_OK);
}

/* They share the image, so neither knows what the other still has. */
static void the_other_is_not_called_over(void **state)
{
	bool is_immediate;

	assert_int_equal(get_le16(raw_identify(&hosts[0].admin).cqt), 0);
	raw_host_open_as(&hosts[N], gateways[1].port, 0);
	assert_int_equal(raw_reset(&hosts[N].admin, raw_name_of(&hosts[0]), &is_immediate),
			 NVME_INVALID_FIELD | NVME_DNR);
	raw_host_close(&hosts[N]);
	assert_int_equal(write_block(0), NVME_OK); /* it lives */
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, come, leave)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_kill_loses_nothing),	    CASE(a_preempt_is_seen),
		CASE(both_change_at_once),	    CASE(a_drop_reaches_the_other),
		CASE(a_drop_beside_a_change),	    CASE(status_counts_them),
		CASE(a_hung_osd_is_waited_for),	    CASE(a_late_answer_changes_nothing),
		CASE(a_damaged_object_is_refused),  CASE(a_client_that_is_cut_off),
		CASE(the_other_is_not_called_over),
	};

	return cmocka_run_group_tests_name("state", tests, start, stop);
}
