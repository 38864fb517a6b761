/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * State that must survive a restart, in a folder that cannot be synced: a refused command has
 * changed nothing, neither now nor at the next start; and where the state is uncertain, the log
 * reports it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include <json-c/json.h>

#include "base/error.h"
#include "tests/raw/group.h"
#include "tests/raw/host.h"
#include "transport/wire/nvme_reservation.h"

enum {
	CPTPL_SET = (int)((unsigned)NVME_CPTPL_SET << NVME_RESV_CPTPL_SHIFT),
	KEY = 10,
};

static struct raw_host host;

static int start_bad(void **state)
{
	char preload[8192];

	snprintf(preload, sizeof(preload), "%s:%s", getenv("LIBFOLDER"), getenv("LD_PRELOAD"));
	setenv("LD_PRELOAD", preload, 1);
	return start_keeping(state);
}

static int come(void **state)
{
	raw_host_open(&host, d.port);
	return 0;
}

static int leave(void **state)
{
	raw_host_close(&host);
	daemon_wait_empty(&d);
	return 0;
}

static void crash(void)
{
	leave(NULL);
	daemon_kill_and_restart(&d);
	come(NULL);
}

static void end_in_order(void)
{
	leave(NULL);
	daemon_restart(&d);
	come(NULL);
}

/* The next n syncs of the folder fail. */
static void spoil(unsigned n)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/unsynced", d.folder);
	f = fopen(path, "w");
	assert_non_null(f);
	while (n--)
		fputc('.', f);
	assert_int_equal(fclose(f), 0);
}

/* ---- the commands --------------------------------------------------------------------------- */

static enum nvme_status reserve(uint8_t opcode, uint32_t cdw10, uint64_t first, uint64_t second)
{
	return raw_reserve(&host.io, DAEMON_FILE, opcode, cdw10, first, second);
}

static enum nvme_status regist(void)
{
	return reserve(NVME_IO_RESERVATION_REGISTER, NVME_RREGA_REGISTER | (uint32_t)CPTPL_SET, 0,
		       KEY);
}

static enum nvme_status acquire(void)
{
	return reserve(NVME_IO_RESERVATION_ACQUIRE,
		       NVME_RACQA_ACQUIRE | NVME_RTYPE_WRITE_EXCLUSIVE << NVME_RESV_RTYPE_SHIFT,
		       KEY, 0);
}

static enum nvme_status clear(void)
{
	return reserve(NVME_IO_RESERVATION_RELEASE, NVME_RRELA_CLEAR, KEY, 0);
}

static void expect_reserved(unsigned n, unsigned type)
{
	struct nvme_resv_status status = raw_report(&host.io, DAEMON_FILE);

	assert_int_equal(status.regctl[0], n);
	assert_int_equal(status.rtype, type);
}

static enum nvme_status protect(unsigned how)
{
	struct nvme_sqe sqe = raw_sqe(&host.admin, NVME_ADMIN_SET_FEATURES, DAEMON_FILE);
	struct nvme_cqe cqe;

	sqe.cdw10 = put_le32(NVME_FEAT_WRITE_PROTECT);
	sqe.cdw11 = put_le32(how);
	return nvme_status_code(raw_run(&host.admin, &sqe, NULL, 0, &cqe));
}

static enum nvme_status on_block(uint8_t opcode)
{
	struct nvme_sqe sqe = raw_blocks(&host.io, opcode, DAEMON_FILE, 7, 1);
	struct nvme_cqe cqe;

	if (opcode == NVME_IO_READ)
		raw_describe(&host.io, &sqe, 0, 4096);
	return nvme_status_code(raw_run(&host.io, &sqe, NULL, 0, &cqe));
}

static void expect_status(const char *state, int n_unkept)
{
	struct json_object *result = daemon_ask(&d, "status");

	assert_string_equal(json_object_get_string(json_object_object_get(result, "state")), state);
	assert_int_equal(json_object_get_int(json_object_object_get(result, "unkept_namespaces")),
			 n_unkept);
	json_object_put(result);
}

/* ---- refused, and put back ------------------------------------------------------------------ */

static void a_refused_reservation_is_not_there_later(void **state)
{
	spoil(1);
	assert_int_equal(regist(), NVME_INTERNAL_ERROR);
	expect_reserved(0, NVME_RTYPE_NONE);
	expect_status("ok", 0);
	crash();
	expect_reserved(0, NVME_RTYPE_NONE);
	assert_int_equal(regist(), NVME_OK);
	spoil(1);
	assert_int_equal(acquire(), NVME_INTERNAL_ERROR);
	crash();
	expect_reserved(1, NVME_RTYPE_NONE);
	assert_int_equal(acquire(), NVME_OK);
}

/* A Clear removes the state file, so a refused Clear must restore it. */
static void a_refused_clear_leaves_the_reservation(void **state)
{
	expect_reserved(1, NVME_RTYPE_WRITE_EXCLUSIVE);
	spoil(1);
	assert_int_equal(clear(), NVME_INTERNAL_ERROR);
	expect_reserved(1, NVME_RTYPE_WRITE_EXCLUSIVE);
	crash();
	expect_reserved(1, NVME_RTYPE_WRITE_EXCLUSIVE);
	assert_int_equal(clear(), NVME_OK);
	crash();
	expect_reserved(0, NVME_RTYPE_NONE);
}

/* An administrator's drop is as durable as a command. */
static void a_refused_drop_leaves_the_registrant(void **state)
{
	static const char id[] = "72617720-686f-7374-2031-362062797465";

	assert_int_equal(regist(), NVME_OK);
	assert_int_equal(acquire(), NVME_OK);
	spoil(1);
	assert_int_equal(drop_registrant(DAEMON_FILE, id, true), EXIT_FAILED);
	expect_reserved(1, NVME_RTYPE_WRITE_EXCLUSIVE);
	crash();
	expect_reserved(1, NVME_RTYPE_WRITE_EXCLUSIVE);
	assert_int_equal(drop_registrant(DAEMON_FILE, id, true), EXIT_OK);
	crash();
	expect_reserved(0, NVME_RTYPE_NONE);
}

static void refused_protection_and_bad_blocks(void **state)
{
	spoil(1);
	assert_int_equal(protect(NVME_WP_PROTECTED), NVME_INTERNAL_ERROR);
	crash();
	assert_int_equal(on_block(NVME_IO_WRITE_ZEROES), NVME_OK);
	spoil(1);
	assert_int_equal(on_block(NVME_IO_WRITE_UNCORRECTABLE), NVME_INTERNAL_ERROR);
	assert_int_equal(on_block(NVME_IO_READ), NVME_OK);
	crash();
	assert_int_equal(on_block(NVME_IO_READ), NVME_OK);
	assert_int_equal(protect(NVME_WP_PROTECTED), NVME_OK);
	spoil(1);
	assert_int_equal(protect(NVME_WP_NONE), NVME_INTERNAL_ERROR);
	crash();
	assert_int_equal(on_block(NVME_IO_WRITE_ZEROES), NVME_NS_WRITE_PROTECTED);
	assert_int_equal(protect(NVME_WP_NONE), NVME_OK);
}

/* ---- refused, and not put back -------------------------------------------------------------- */

static void what_is_unknown_is_said_and_settled_at_the_end(void **state)
{
	spoil(2);
	assert_int_equal(regist(), NVME_INTERNAL_ERROR);
	expect_reserved(0, NVME_RTYPE_NONE);
	expect_status("degraded", 1);
	assert_true(daemon_has_logged(&d, "cannot be put back"));
	end_in_order();
	expect_status("ok", 0);
	expect_reserved(0, NVME_RTYPE_NONE);
}

static void the_next_change_settles_it(void **state)
{
	const uint32_t no = (uint32_t)NVME_CPTPL_CLEAR << NVME_RESV_CPTPL_SHIFT;

	spoil(4);
	assert_int_equal(regist(), NVME_INTERNAL_ERROR);
	assert_int_equal(regist(), NVME_INTERNAL_ERROR);
	expect_status("degraded", 1);
	/* This registration need not be saved, but the file may hold a refused state, so it is
	 * rewritten. */
	assert_int_equal(reserve(NVME_IO_RESERVATION_REGISTER, NVME_RREGA_REGISTER | no, 0, KEY),
			 NVME_OK);
	expect_status("ok", 0);
	assert_true(daemon_has_logged(&d, "it holds what is valid again"));
	crash();
	expect_reserved(0, NVME_RTYPE_NONE);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, come, leave)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_refused_reservation_is_not_there_later),
		CASE(a_refused_clear_leaves_the_reservation),
		CASE(a_refused_drop_leaves_the_registrant),
		CASE(refused_protection_and_bad_blocks),
		CASE(what_is_unknown_is_said_and_settled_at_the_end),
		CASE(the_next_change_settles_it),
	};

	return cmocka_run_group_tests_name("unkept", tests, start_bad, stop);
}
