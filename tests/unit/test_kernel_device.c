/* SPDX-License-Identifier: BSD-3-Clause */
/* Finding a predecessor's block device in sysfs (here a folder of files), and the file that
 * holds its name. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "nbd_bridge/control/kernel_device.h"
#include "nbd_bridge/control/kernel_name.h"

static const char backend[] = "0b1e6c5e-5a55-4c0e-9b0c-2f6f4b5d1a10";

static int make_folder(void **state)
{
	char template[] = "/tmp/rblk-test.XXXXXX";

	*state = strdup(mkdtemp(template));
	return *state ? 0 : -1;
}

static int remove_folder(void **state)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", (char *)*state);
	free(*state);
	return system(command);
}

static void put(const char *folder, const char *device, const char *file, const char *text)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", folder, device);
	mkdir(path, 0755);
	snprintf(path, sizeof(path), "%s/%s/%s", folder, device, file);
	f = fopen(path, "we");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void finds_the_device_of_the_backend(void **state)
{
	const char *sys = *state;
	uint32_t index = 99;

	assert_int_equal(kernel_device_find(sys, backend, &index), -ENOENT);
	put(sys, "sda", "backend", "0b1e6c5e-5a55-4c0e-9b0c-2f6f4b5d1a10\n");
	put(sys, "nbd1", "backend", "f7f2d4c0-0000-4c0e-9b0c-2f6f4b5d1a10\n");
	put(sys, "nbd1", "pid", "1\n");
	put(sys, "nbd2", "backend", "(null)\n");
	put(sys, "nbd2", "pid", "1\n");
	put(sys, "nbd3", "pid", "1\n"); /* a kernel without the attribute backend */
	put(sys, "nbd4x", "backend", "0b1e6c5e-5a55-4c0e-9b0c-2f6f4b5d1a10\n");
	put(sys, "nbd4x", "pid", "1\n");
	assert_int_equal(kernel_device_find(sys, backend, &index), -ENOENT);
	put(sys, "nbd12", "backend", "0b1e6c5e-5a55-4c0e-9b0c-2f6f4b5d1a10\n");
	assert_int_equal(kernel_device_find(sys, backend, &index), -ENOENT);
	put(sys, "nbd12", "pid", "1\n"); /* connected only now */
	assert_int_equal(kernel_device_find(sys, backend, &index), 0);
	assert_int_equal(index, 12);
}

static void finds_the_first_of_several(void **state)
{
	const char *sys = *state;
	uint32_t index;

	for (unsigned i = 11; i >= 9; i--) {
		char name[16];

		snprintf(name, sizeof(name), "nbd%u", i);
		put(sys, name, "backend", "0b1e6c5e-5a55-4c0e-9b0c-2f6f4b5d1a10\n");
		put(sys, name, "pid", "1\n");
	}
	assert_int_equal(kernel_device_find(sys, backend, &index), 0);
	assert_int_equal(index, 9);
}

static void there_may_be_no_sysfs(void **state)
{
	uint32_t index;

	assert_int_equal(kernel_device_find("/nonexistent", backend, &index), -ENOENT);
}

static void a_name_belongs_to_one_process_at_a_time(void **state)
{
	const struct kernel_name_content ours = {"db", 3, 4096};
	struct kernel_name_content seen;
	struct kernel_name first, second;
	uuid_t uuid;

	uuid_parse(backend, uuid);
	assert_int_equal(kernel_name_take(&first, *state, uuid, &seen), 0);
	assert_string_equal(seen.volume, "");
	assert_int_equal(kernel_name_write(&first, &ours), 0);
	assert_int_equal(kernel_name_take(&second, *state, uuid, &seen), -EBUSY);
	assert_string_equal(seen.volume, "db");
	assert_true(kernel_name_is_owned(first.path, &seen));
	assert_string_equal(seen.volume, "db");
	/* as the kernel does when a process dies */
	kernel_name_release(&first, false);
	assert_false(kernel_name_is_owned(first.path, &seen));
	assert_string_equal(seen.volume, "db");
	assert_int_equal(kernel_name_take(&second, *state, uuid, &seen), 0);
	assert_string_equal(seen.volume, "db");
	assert_int_equal(seen.n_sockets, 3);
	assert_int_equal(seen.block_size, 4096);
	kernel_name_release(&second, true);
	assert_int_equal(access(second.path, F_OK), -1);
}

static void a_name_may_be_rubbish(void **state)
{
	static const char *const texts[] = {"", "\n", "only-a-name\n", "a b c\n", "a -1\n"};
	struct kernel_name_content seen;
	struct kernel_name name;
	uuid_t uuid;

	uuid_parse(backend, uuid);
	for (unsigned i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		assert_int_equal(kernel_name_take(&name, *state, uuid, &seen), 0);
		assert_int_equal(ftruncate(name.fd, 0), 0);
		assert_int_equal(pwrite(name.fd, texts[i], strlen(texts[i]), 0), strlen(texts[i]));
		kernel_name_release(&name, false);
		assert_int_equal(kernel_name_take(&name, *state, uuid, &seen), 0);
		assert_int_equal(seen.n_sockets, 0);
		assert_int_equal(seen.block_size, 0);
		kernel_name_release(&name, false);
	}
}

static void a_shorter_name_replaces_a_longer_one(void **state)
{
	const struct kernel_name_content long_one = {"a-rather-long-name", 16, 4096};
	const struct kernel_name_content short_one = {"b", 1, 512};
	struct kernel_name_content seen;
	struct kernel_name name;
	char text[64] = "";
	uuid_t uuid;

	uuid_parse(backend, uuid);
	assert_int_equal(kernel_name_take(&name, *state, uuid, &seen), 0);
	assert_int_equal(kernel_name_write(&name, &long_one), 0);
	assert_int_equal(kernel_name_write(&name, &short_one), 0);
	assert_true(pread(name.fd, text, sizeof(text) - 1, 0) > 0);
	assert_string_equal(text, "b 1 512\n"); /* what the udev rule reads */
	kernel_name_release(&name, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(finds_the_device_of_the_backend, make_folder,
						remove_folder),
		cmocka_unit_test_setup_teardown(finds_the_first_of_several, make_folder,
						remove_folder),
		cmocka_unit_test(there_may_be_no_sysfs),
		cmocka_unit_test_setup_teardown(a_name_belongs_to_one_process_at_a_time,
						make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(a_name_may_be_rubbish, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(a_shorter_name_replaces_a_longer_one, make_folder,
						remove_folder),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
