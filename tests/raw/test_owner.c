/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A group with one owner, of two rblkd on one machine (owner: lock): commands end before the group
 * is given away, a disk that hangs keeps its owner, all that hosts have set goes with the group,
 * and a reset of a controller of the other process waits for its locks.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include <json-c/json.h>

#include "base/clock.h"
#include "base/error.h"
#include "tests/raw/fencing.h"
#include "tests/raw/group.h"
#include "tests/raw/reset.h"
#include "transport/wire/nvme_reservation.h"

enum {
	KEY = 10,
	BAD_BLOCK = 7,
	GROUP = 1,
};

static struct daemon other; /* d is the first, and so the owner */
static struct raw_host host, beside;

/* ---- the two -------------------------------------------------------------------------------- */

static void write_config(const struct daemon *daemon)
{
	FILE *f = daemon_open_config(daemon);
	unsigned first = daemon == &d ? 1 : 1000;

	fprintf(f,
		"version: 1\ncontrol_socket: %s/sock\ngroup_directory: %s/group\n"
		"controller_ids: {min: %u, max: %u}\n"
		"tuning: {max_transfer: 1MiB, buffers: 8MiB}\n"
		"portals: [{name: p, address: 127.0.0.1, port: %u}, {name: q, address: 127.0.0.1, port: %u}]\n"
		"subsystems:\n"
		"  - nqn: %s\n    allow_any_host: true\n    ana_groups: [{id: %u, owner: lock}]\n"
		"    namespaces:\n"
		"      - {nsid: %u, file: %s/disk, size: 16MiB, create: true, block_size: 4096, uuid: 0b1e6c5e-5a55-4c0e-9b0c-2f6f4b5d1a12}\n",
		daemon->folder, d.folder, first, first + 998, daemon->port, daemon->second_port,
		RAW_SUBNQN, GROUP, DAEMON_FILE, d.folder);
	fclose(f);
}

static void write_first(const struct daemon *daemon)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/group", daemon->folder);
	assert_int_equal(mkdir(path, 0700), 0);
	write_config(daemon);
}

static bool is_in(const struct daemon *daemon, const char *state)
{
	struct json_object *result = daemon_ask(daemon, "group_list"), *group, *value;
	bool is_same;

	group = json_object_array_get_idx(json_object_object_get(result, "groups"), 0);
	value = json_object_object_get(group, "state");
	is_same = !strcmp(json_object_get_string(value), state);
	json_object_put(result);
	return is_same;
}

static void wait_for(const struct daemon *daemon, const char *state)
{
	uint64_t deadline = clock_ns() + FENCING_PATIENCE_MS * NSEC_PER_MSEC;

	while (!is_in(daemon, state)) {
		assert_true(clock_ns() < deadline);
		usleep(2000);
	}
}

static int start_both(void **state)
{
	char preload[8192];

	snprintf(preload, sizeof(preload), "%s:%s", getenv("LIBHUNG"), getenv("LD_PRELOAD"));
	setenv("LD_PRELOAD", preload, 1);
	daemon_start_configured(&d, write_first);
	daemon_start_configured(&other, write_config);
	return 0;
}

static int stop_both(void **state)
{
	daemon_stop(&other);
	daemon_remove(&other);
	return stop(state);
}

/* The first is the owner; a host is at both. */
static int come(void **state)
{
	int status;

	if (!is_in(&d, "owner")) {
		daemon_end(&other);
		wait_for(&d, "owner");
		assert_true(daemon_try(&other, &status));
	}
	wait_for(&other, "standing by");
	raw_host_open(&host, d.port);
	raw_host_open(&beside, other.port);
	return 0;
}

static int leave(void **state)
{
	raw_host_close(&host);
	raw_host_close(&beside);
	return 0;
}

static void give(int code)
{
	struct json_object *params = json_object_new_object();

	json_object_object_add(params, "subsystem", json_object_new_string(RAW_SUBNQN));
	json_object_object_add(params, "group", json_object_new_int(GROUP));
	assert_int_equal(call_rblkd("group_give", params, NULL), code);
}

static enum nvme_status read_block(struct raw_host *h, uint64_t slba)
{
	return raw_io(&h->io, NVME_IO_READ, DAEMON_FILE, slba, 1, FENCING_BLOCK);
}

/* ---- commands ------------------------------------------------------------------------------- */

static void one_that_stands_by_serves_no_command(void **state)
{
	assert_int_equal(read_block(&host, 0), NVME_OK);
	assert_int_equal(read_block(&beside, 0), NVME_ANA_INACCESSIBLE);
	assert_int_equal(
		raw_reserve(&beside.io, DAEMON_FILE, NVME_IO_RESERVATION_REGISTER, 0, 0, KEY),
		NVME_ANA_INACCESSIBLE);
}

/* The write of the first owner is over before the second has the store. */
static void commands_end_before_it_is_given(void **state)
{
	fencing_hold_write(&host.io, 'A');
	give(EXIT_OK);
	assert_int_equal(read_block(&beside, 0), NVME_ANA_INACCESSIBLE);
	assert_true(is_in(&d, "draining"));
	assert_true(is_in(&other, "standing by"));
	fencing_hang_disk(false);
	assert_true(raw_collect(&host.io, 1, FENCING_PATIENCE_MS));
	wait_for(&other, "owner");
	fencing_must_read(&beside.io, DAEMON_FILE, 0, 'A');
	fencing_write(&beside.io, DAEMON_FILE, 0, 'B');
	assert_int_equal(read_block(&host, 0), NVME_ANA_INACCESSIBLE);
}

static void a_disk_that_hangs_keeps_its_owner(void **state)
{
	uint64_t begin_ns = clock_ns();

	fencing_hold_write(&host.io, 'C');
	give(EXIT_OK);
	give(EXIT_FAILED); /* it is under way */
	wait_for(&d, "owner");
	assert_true(clock_ns() - begin_ns >= 5 * NSEC_PER_SEC);
	assert_true(is_in(&other, "standing by"));
	fencing_hang_disk(false);
	assert_true(raw_collect(&host.io, 1, FENCING_PATIENCE_MS));
	fencing_must_read(&host.io, DAEMON_FILE, 0, 'C');
}

/* ---- state ---------------------------------------------------------------------------------- */

static void must_have_all(struct raw_host *h, const struct nvme_resv_status *before)
{
	struct nvme_resv_status report = raw_report(&h->io, DAEMON_FILE);

	assert_memory_equal(&report, before, sizeof(report));
	assert_int_equal(report.rtype, NVME_RTYPE_WRITE_EXCLUSIVE);
	assert_int_equal(read_block(h, BAD_BLOCK), NVME_UNRECOVERED_READ | NVME_DNR);
	assert_int_equal(read_block(h, 0), NVME_OK);
}

/* A reservation that need not persist, with its generation, and a block without data. */
static void what_hosts_have_set_goes_with_it(void **state)
{
	const uint32_t acquire = NVME_RTYPE_WRITE_EXCLUSIVE << NVME_RESV_RTYPE_SHIFT;
	struct nvme_resv_status report;
	int status;

	assert_int_equal(raw_reserve(&host.io, DAEMON_FILE, NVME_IO_RESERVATION_REGISTER, 0, 0, 1),
			 NVME_OK);
	assert_int_equal(raw_reserve(&host.io, DAEMON_FILE, NVME_IO_RESERVATION_REGISTER,
				     NVME_RREGA_REPLACE, 1, KEY),
			 NVME_OK);
	assert_int_equal(
		raw_reserve(&host.io, DAEMON_FILE, NVME_IO_RESERVATION_ACQUIRE, acquire, KEY, 0),
		NVME_OK);
	assert_int_equal(
		raw_io(&host.io, NVME_IO_WRITE_UNCORRECTABLE, DAEMON_FILE, BAD_BLOCK, 1, 0),
		NVME_OK);
	report = raw_report(&host.io, DAEMON_FILE);
	must_have_all(&host, &report);
	give(EXIT_OK);
	wait_for(&other, "owner");
	must_have_all(&beside, &report);
	raw_host_close(&beside);
	kill(other.pid, SIGKILL);
	daemon_end(&other);
	wait_for(&d, "owner");
	must_have_all(&host, &report);
	assert_int_equal(raw_reserve(&host.io, DAEMON_FILE, NVME_IO_RESERVATION_REGISTER,
				     NVME_RREGA_UNREGISTER, KEY, 0),
			 NVME_OK);
	assert_true(daemon_try(&other, &status));
	raw_host_open(&beside, other.port);
}

/* ---- resets --------------------------------------------------------------------------------- */

/* The process that has made the controller has the locks, and then it is dead. */
static void a_reset_waits_for_the_locks(void **state)
{
	struct raw_name name = raw_name_of(&host);
	bool is_immediate;
	int status;

	raw_enable_events(&beside.admin, NVME_OAES_CROSS_RESET);
	fencing_write(&host.io, DAEMON_FILE, 0, 'D');
	assert_int_equal(raw_reset(&beside.admin, name, &is_immediate), NVME_OK);
	assert_false(is_immediate);
	assert_int_equal(raw_reset_log(&beside.admin, NVME_LOG_CROSS_RESET, 0), 1);
	assert_int_equal(raw_first_reset(&beside.admin)->ccrs, NVME_CROSS_RESET_IN_PROGRESS);
	fencing_must_read(&host.io, DAEMON_FILE, 0, 'D'); /* it lives */
	kill(d.pid, SIGKILL);
	daemon_end(&d);
	raw_expect_event(&beside.admin, NVME_AER_CROSS_RESET);
	assert_int_equal(raw_reset_log(&beside.admin, NVME_LOG_CROSS_RESET, NVME_CROSS_RESET_RMC),
			 1);
	assert_int_equal(raw_first_reset(&beside.admin)->ccrs, NVME_CROSS_RESET_SUCCESS);
	assert_true(is_in(&other, "owner"));
	fencing_must_read(&beside.io, DAEMON_FILE, 0, 'D');
	raw_host_close(&host);
	assert_true(daemon_try(&d, &status));
	raw_host_open(&host, d.port);
}

/* It had drained before it let go. Its controller lives there, and does not matter any more. */
static void a_new_owner_knows_at_once(void **state)
{
	struct raw_name name = raw_name_of(&host);
	bool is_immediate;

	fencing_write(&host.io, DAEMON_FILE, 0, 'E');
	give(EXIT_OK);
	wait_for(&other, "owner");
	assert_int_equal(raw_reset(&beside.admin, name, &is_immediate), NVME_OK);
	assert_true(is_immediate);
	fencing_write(&beside.io, DAEMON_FILE, 0, 'F');
	assert_int_equal(read_block(&host, 0), NVME_ANA_INACCESSIBLE);
	assert_int_equal(raw_io(&host.io, NVME_IO_WRITE, DAEMON_FILE, 0, 1, FENCING_BLOCK),
			 NVME_ANA_INACCESSIBLE);
	fencing_must_read(&beside.io, DAEMON_FILE, 0, 'F');
}

/* Neither says anything of another machine's controllers, or of those without a number: locks end
 * at the machine. */
static void strangers_are_unknown(void **state)
{
	struct raw_name stranger = raw_name_of(&host);
	bool is_immediate;

	stranger.id = 5000; /* of neither */
	for (unsigned i = 0; i < 2; i++) {
		stranger.cirn = i ? 0 : stranger.cirn ^ UINT64_MAX;
		assert_int_equal(raw_reset(&host.admin, stranger, &is_immediate),
				 NVME_INVALID_FIELD | NVME_DNR);
		assert_int_equal(raw_reset(&beside.admin, stranger, &is_immediate),
				 NVME_INVALID_FIELD | NVME_DNR);
	}
}

/* A host that waits may leave. */
static void a_source_may_leave_while_it_waits(void **state)
{
	struct raw_name name = raw_name_of(&host);
	bool is_immediate;

	assert_int_equal(raw_reset(&beside.admin, name, &is_immediate), NVME_OK);
	assert_false(is_immediate);
	raw_host_close(&beside);
	daemon_wait_empty(&other);
	give(EXIT_OK);
	wait_for(&other, "owner");
	raw_host_open(&beside, other.port);
	assert_int_equal(read_block(&beside, 0), NVME_OK);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, come, leave)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(one_that_stands_by_serves_no_command),
		CASE(commands_end_before_it_is_given),
		CASE(a_disk_that_hangs_keeps_its_owner),
		CASE(what_hosts_have_set_goes_with_it),
		CASE(a_reset_waits_for_the_locks),
		CASE(a_new_owner_knows_at_once),
		CASE(strangers_are_unknown),
		CASE(a_source_may_leave_while_it_waits),
	};

	return cmocka_run_group_tests(tests, start_both, stop_both);
}
