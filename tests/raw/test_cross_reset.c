/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cross-Controller Reset of a controller that is not in the registry. Only what rblkd knows to be
 * over is called over: what this process has made, and what an earlier process of this machine has
 * made, if this one has the lock of the store. A controller of any other rblkd may be alive there,
 * with a write on its way to the same store.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/raw/group.h"
#include "tests/raw/reset.h"

enum {
	INSTANCE = 0xffff, /* the part of CIRN that is not its maker's */
};

static struct {
	const char *ids;   /* the key controller_ids with its line end, or "" */
	const char *store; /* more keys of the file */
} config;

static void write_config(const struct daemon *daemon)
{
	FILE *f = daemon_open_config(daemon);

	fprintf(f,
		"version: 1\ncontrol_socket: %s/sock\n%s"
		"portals: [{name: p, address: 127.0.0.1, port: %u}, {name: q, address: 127.0.0.1, port: %u}]\n"
		"subsystems:\n"
		"  - nqn: %s\n    allow_any_host: true\n    serial: both\n    namespaces:\n"
		"      - {nsid: 1, file: %s/disk, size: 1MiB, create: true%s, uuid: 0b1e6c5e-5a55-4c0e-9b0c-2f6f4b5d1a11}\n",
		daemon->folder, config.ids, daemon->port, daemon->second_port, RAW_SUBNQN,
		daemon->folder, config.store);
	fclose(f);
}

static struct raw_name begin(const char *ids, const char *store, struct raw_host *ret_host)
{
	config.ids = ids;
	config.store = store;
	daemon_start_configured(&d, write_config);
	raw_host_open(ret_host, d.port);
	return raw_name_of(ret_host);
}

static void expect_over(struct raw_host *h, struct raw_name name)
{
	bool is_immediate;

	assert_int_equal(raw_reset(&h->admin, name, &is_immediate), NVME_OK);
	assert_true(is_immediate);
}

static void expect_unknown(struct raw_host *h, struct raw_name name)
{
	bool is_immediate;

	assert_int_equal(raw_reset(&h->admin, name, &is_immediate), NVME_INVALID_FIELD | NVME_DNR);
	assert_false(is_immediate);
}

static uint16_t another_id(uint16_t id)
{
	return id == 1 ? 2 : id - 1;
}

static void what_this_process_made_is_over(void **state)
{
	struct raw_host h;
	struct raw_name name = begin("", "", &h);

	name.id = another_id(name.id);
	expect_over(&h, name);
	name.cirn ^= INSTANCE;
	expect_over(&h, name);
	raw_host_close(&h);
}

static void an_id_that_it_never_gives_is_unknown(void **state)
{
	struct raw_host h;
	struct raw_name name = begin("controller_ids: {min: 100, max: 199}\n", "", &h);

	name.id = 99;
	expect_unknown(&h, name);
	name.id = 200;
	expect_unknown(&h, name);
	raw_host_close(&h);
}

static void no_instance_is_unknown(void **state)
{
	struct raw_host h;
	struct raw_name name = begin("", "", &h);

	name.cirn = 0;
	expect_unknown(&h, name);
	name.id = another_id(name.id);
	expect_unknown(&h, name);
	raw_host_close(&h);
}

/* kill -9, and another process; boot: contents of the file that names the kernel's boot. */
static void start_again(struct raw_host *h, const char *boot)
{
	char path[128];
	FILE *f;

	raw_host_close(h);
	snprintf(path, sizeof(path), "%s/boot", d.folder);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(boot, f);
	fclose(f);
	setenv("RBLKD_BOOT_ID_FILE", path, 1);
	daemon_kill_and_restart(&d);
	unsetenv("RBLKD_BOOT_ID_FILE");
	raw_host_open(h, d.port);
}

#define BOOT_1 "0b1e6c5e-5a55-4c0e-9b0c-2f6f4b5d1a01"
#define BOOT_2 "0b1e6c5e-5a55-4c0e-9b0c-2f6f4b5d1a02"

/* The answer is the same if a controller of this process has that id now, and it lives on. */
static void with_a_live_id(struct raw_host *h, struct raw_name name,
			   void (*expect)(struct raw_host *h, struct raw_name name))
{
	struct raw_host live;

	raw_host_open(&live, d.port);
	name.id = live.cntlid;
	expect(h, name);
	raw_name_of(&live);
	raw_host_close(&live);
}

/* rblkd with these keys of the store runs, is killed, and runs again, each time under a kernel of
 * that boot. What is known then of a controller that the first one made? */
static void made_before(const char *store, const char *boot, const char *next_boot,
			void (*expect)(struct raw_host *h, struct raw_name name))
{
	struct raw_host h;
	struct raw_name before;

	begin("", store, &h);
	start_again(&h, boot);
	before = raw_name_of(&h);
	start_again(&h, next_boot);
	expect(&h, before);
	with_a_live_id(&h, before, expect);
	raw_host_close(&h);
}

static void an_earlier_process_is_over_by_the_lock(void **state)
{
	made_before("", BOOT_1, BOOT_1, expect_over);
}

/* Nothing but the number tells them apart: ids and store are the same. */
static void another_machine_is_unknown(void **state)
{
	made_before("", BOOT_1, BOOT_2, expect_unknown);
}

static void a_machine_without_a_name_knows_itself_alone(void **state)
{
	struct raw_host h;
	struct raw_name before;

	begin("", "", &h);
	start_again(&h, "");
	before = raw_name_of(&h);
	before.id = another_id(before.id);
	expect_over(&h, before);
	start_again(&h, "");
	expect_unknown(&h, before);
	raw_host_close(&h);
}

static void without_the_lock_an_earlier_process_is_unknown(void **state)
{
	made_before(", shared: true", BOOT_1, BOOT_1, expect_unknown);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(what_this_process_made_is_over, stop),
		cmocka_unit_test_teardown(an_id_that_it_never_gives_is_unknown, stop),
		cmocka_unit_test_teardown(no_instance_is_unknown, stop),
		cmocka_unit_test_teardown(an_earlier_process_is_over_by_the_lock, stop),
		cmocka_unit_test_teardown(another_machine_is_unknown, stop),
		cmocka_unit_test_teardown(a_machine_without_a_name_knows_itself_alone, stop),
		cmocka_unit_test_teardown(without_the_lock_an_earlier_process_is_unknown, stop),
	};

	return cmocka_run_group_tests_name("cross_reset", tests, NULL, NULL);
}
