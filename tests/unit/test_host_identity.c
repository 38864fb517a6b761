/* SPDX-License-Identifier: BSD-3-Clause */
/* Host NQN and identifier: their sources, the order of these, and malformed files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "initiator/control/host_identity.h"

#define UUID_A "6d6b4ca0-8bed-4bdb-a28e-07ea8ed0acf7"
#define UUID_B "0b1e6c5e-5a55-4c0e-9b0c-2f6f4b5d1a10"
#define NQN_A  "nqn.2014-08.org.nvmexpress:uuid:" UUID_A

static char root[64], etc[80], state[96];

static void put(const char *directory, const char *name, const char *text)
{
	char path[160];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static int setup(void **unused)
{
	char command[128];

	snprintf(root, sizeof(root), "/tmp/test_host_identity.XXXXXX");
	assert_non_null(mkdtemp(root));
	snprintf(etc, sizeof(etc), "%s/nvme", root);
	snprintf(state, sizeof(state), "%s/deep/state", root);
	snprintf(command, sizeof(command), "mkdir %s", etc);
	setenv("RBLK_STATE_DIR", state, 1);
	return system(command);
}

static int teardown(void **unused)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", root);
	return system(command);
}

static void expect(const char *hostnqn, const char *hostid, const char *want_nqn,
		   const char *want_id)
{
	struct volume_config config;
	struct error error;
	char id[UUID_STR_LEN];

	volume_config_init(&config);
	if (host_identity_load(etc, hostnqn, hostid, &config, &error) < 0)
		fail_msg("%s", error.message);
	if (want_nqn)
		assert_string_equal(config.hostnqn, want_nqn);
	uuid_unparse_lower(config.hostid, id);
	if (want_id)
		assert_string_equal(id, want_id);
}

static void expect_error(const char *hostnqn, const char *hostid, const char *part)
{
	struct volume_config config;
	struct error error;

	volume_config_init(&config);
	assert_int_equal(host_identity_load(etc, hostnqn, hostid, &config, &error), -1);
	if (!strstr(error.message, part))
		fail_msg("%s", error.message);
}

static void test_files(void **unused)
{
	put(etc, "hostnqn", NQN_A "\n");
	expect(NULL, NULL, NQN_A, UUID_A); /* no hostid: the UUID in the NQN */
	put(etc, "hostid", "  " UUID_B "  \r\n");
	expect(NULL, NULL, NQN_A, UUID_B);
	expect(NQN_A, NULL, NQN_A, UUID_B);
	/* The file's identifier is not used with another NQN. */
	expect("nqn.2014-08.org.nvmexpress:uuid:" UUID_B, NULL, NULL, UUID_B);
	expect("nqn.2026-01.x:host", UUID_A, "nqn.2026-01.x:host", UUID_A);
}

static void test_derived(void **unused)
{
	struct volume_config a, b, c;
	struct error error;

	volume_config_init(&a);
	b = c = a;
	assert_int_equal(host_identity_load(etc, "nqn.2026-01.x:a", NULL, &a, &error), 0);
	assert_int_equal(host_identity_load(etc, "nqn.2026-01.x:a", NULL, &b, &error), 0);
	assert_int_equal(host_identity_load(etc, "nqn.2026-01.x:c", NULL, &c, &error), 0);
	assert_int_equal(uuid_compare(a.hostid, b.hostid), 0);
	assert_int_not_equal(uuid_compare(a.hostid, c.hostid), 0);
}

static void test_generated(void **unused)
{
	struct volume_config a, b;
	struct error error;

	volume_config_init(&a);
	volume_config_init(&b);
	assert_int_equal(host_identity_load(etc, NULL, NULL, &a, &error), 0);
	assert_int_equal(host_identity_load(etc, NULL, NULL, &b, &error), 0);
	assert_string_equal(a.hostnqn, b.hostnqn); /* saved by the first call */
	assert_int_equal(uuid_compare(a.hostid, b.hostid), 0);
	assert_int_equal(uuid_is_null(a.hostid), 0);
}

static void test_bad(void **unused)
{
	put(etc, "hostnqn", "");
	expect_error(NULL, NULL, "hostnqn: it is empty");
	put(etc, "hostnqn", "not-an-nqn\n");
	expect_error(NULL, NULL, "hostnqn: not a host NQN");
	put(etc, "hostnqn", NQN_A);
	put(etc, "hostid", "12345\n");
	expect_error(NULL, NULL, "hostid: not a UUID");
	expect_error("garbage", NULL, "not a host NQN");
	expect_error(NQN_A, "garbage", "not a host identifier");
}

static void test_no_place(void **unused)
{
	put(root, "deep", "a file where a directory should be\n");
	expect_error(NULL, NULL, "cannot keep a host NQN there");
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_files), CASE(test_derived),  CASE(test_generated),
		CASE(test_bad),	  CASE(test_no_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
