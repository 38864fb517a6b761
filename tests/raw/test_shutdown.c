/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shutdown of a controller that is reset meanwhile, over a disk that hangs: a flush that began
 * before a reset does not cover writes after it.
 */
#include <setjmp.h>
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
#include "tests/raw/group.h"
#include "tests/raw/host.h"

enum {
	PATIENCE_S = 60,
	SHST = NVME_CSTS_SHST_OCCURRING | NVME_CSTS_SHST_COMPLETE,
	DISABLED = NVME_CC_ENABLE_VALUE & ~NVME_CC_EN,
};

static struct raw_host host;

static int start_hanging(void **state)
{
	char preload[8192];

	snprintf(preload, sizeof(preload), "%s:%s", getenv("LIBHUNG"), getenv("LD_PRELOAD"));
	setenv("LD_PRELOAD", preload, 1);
	return start(state);
}

static void path_of(const char *name, char path[128])
{
	snprintf(path, 128, "%s/%s", d.folder, name);
}

static void make_file(const char *name)
{
	char path[128];
	FILE *f;

	path_of(name, path);
	f = fopen(path, "w");
	assert_non_null(f);
	fclose(f);
}

static void remove_file(const char *name)
{
	char path[128];

	path_of(name, path);
	unlink(path);
}

static unsigned n_syncs(void)
{
	char path[128];
	struct stat st;

	path_of("syncs", path);
	assert_int_equal(stat(path, &st), 0);
	return (unsigned)st.st_size;
}

static int come(void **state)
{
	make_file("syncs");
	raw_host_open(&host, d.port);
	return 0;
}

/* Whatever has failed, the disk works again. */
static int leave(void **state)
{
	remove_file("hung");
	remove_file("syncs");
	raw_host_close(&host);
	return next_good_host(state);
}

/* ---- registers ------------------------------------------------------------------------------ */

static void set_cc(uint32_t cc)
{
	assert_int_equal(raw_property_set(&host.admin, NVME_PROP_CC, cc), NVME_OK);
}

static uint32_t csts(void)
{
	uint64_t value = 0;

	assert_int_equal(raw_property_get(&host.admin, NVME_PROP_CSTS, false, &value), NVME_OK);
	return (uint32_t)value;
}

static void wait_csts(uint32_t mask, uint32_t wanted)
{
	uint64_t deadline = clock_ns() + PATIENCE_S * NSEC_PER_SEC;

	while ((csts() & mask) != wanted)
		if (clock_ns() > deadline)
			fail_msg("CSTS is %x, not %x", csts(), wanted);
}

static void begin_shutdown(void)
{
	set_cc(NVME_CC_ENABLE_VALUE | NVME_CC_SHN_NORMAL);
}

/* The disk hangs, so the shutdown cannot be complete. */
static void expect_shutting_down(void)
{
	assert_int_equal(csts() & SHST, NVME_CSTS_SHST_OCCURRING);
}

static void reset(void)
{
	set_cc(DISABLED);
	wait_csts(~0u, 0);
	set_cc(NVME_CC_ENABLE_VALUE);
	wait_csts(~0u, NVME_CSTS_RDY);
}

static unsigned n_in_flight(void)
{
	struct json_object *result = daemon_ask(&d, "stats"), *list;
	int n = 0;

	assert_true(json_object_object_get_ex(result, "namespaces", &list));
	for (size_t i = 0; i < json_object_array_length(list); i++)
		n += json_object_get_int(
			json_object_object_get(json_object_array_get_idx(list, i), "in_flight"));
	json_object_put(result);
	return (unsigned)n;
}

/* ---- tests ---------------------------------------------------------------------------------- */

static void the_end_of_an_old_flush_is_no_shutdown(void **state)
{
	uint64_t deadline = clock_ns() + PATIENCE_S * NSEC_PER_SEC;

	make_file("hung");
	begin_shutdown();
	expect_shutting_down();
	assert_int_equal(n_in_flight(), 1);
	reset();
	remove_file("hung");
	while (n_in_flight())
		assert_true(clock_ns() < deadline);
	assert_int_equal(csts(), NVME_CSTS_RDY);
	assert_int_equal(n_syncs(), 1);
	begin_shutdown();
	wait_csts(SHST, NVME_CSTS_SHST_COMPLETE);
	assert_int_equal(n_syncs(), 2);
}

/* Writes since the reset must not rely on a flush from before it. */
static void a_shutdown_after_a_reset_flushes_again(void **state)
{
	make_file("hung");
	begin_shutdown();
	expect_shutting_down();
	reset();
	begin_shutdown();
	expect_shutting_down();
	remove_file("hung");
	wait_csts(SHST, NVME_CSTS_SHST_COMPLETE);
	assert_int_equal(n_syncs(), 2);
}

/* One ends while the other is in progress, in either order. */
static void disabled_and_shut_down_at_once(void **state)
{
	set_cc(DISABLED | NVME_CC_SHN_NORMAL);
	wait_csts(~0u, NVME_CSTS_SHST_COMPLETE);
	set_cc(NVME_CC_ENABLE_VALUE);
	wait_csts(~0u, NVME_CSTS_RDY);
	make_file("hung");
	set_cc(DISABLED | NVME_CC_SHN_NORMAL);
	wait_csts(~0u, NVME_CSTS_SHST_OCCURRING);
	remove_file("hung");
	wait_csts(~0u, NVME_CSTS_SHST_COMPLETE);
	assert_int_equal(n_syncs(), 2);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, come, leave)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(the_end_of_an_old_flush_is_no_shutdown),
		CASE(a_shutdown_after_a_reset_flushes_again),
		CASE(disabled_and_shut_down_at_once),
	};

	return cmocka_run_group_tests_name("shutdown", tests, start_hanging, stop);
}
