/* SPDX-License-Identifier: BSD-3-Clause */
/* Backends in libraries of their own (store/plugin.c): those of plugin_test.c, good and spoilt. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "target/store/plugin.h"
#include "target/store/thread.h"

enum {
	PLUGIN_BYTE = 0x5a,
	SIZE = 1 << 20,
};

static void must_refuse(const char *name, const char *says)
{
	struct error error;

	assert_null(backend_plugin_load(name, &error));
	if (!strstr(error.message, says))
		fail_msg("'%s' does not say '%s'", error.message, says);
	if (!strstr(error.message, "install the package rblk-target-"))
		fail_msg("'%s' does not name the package", error.message);
}

static unsigned n_done;

static void on_done(struct backend_io *io, int error)
{
	assert_int_equal(error, 0);
	n_done++;
}

static void run(struct backend *backend, struct backend_thread *thread, struct backend_io *io)
{
	unsigned n_before = n_done;

	io->done = on_done;
	backend_submit(backend, thread, io);
	assert_int_equal(n_done, n_before);
	while (n_done == n_before)
		loop_turn(thread->loop, UINT64_MAX);
	assert_false(io->is_out);
}

static void good_plugin_serves(void **state)
{
	const struct backend_config config = {.path = "a", .size_bytes = SIZE, .block_size = 512};
	static _Alignas(4096) uint8_t buffer[4096];
	struct backend_thread *thread;
	struct backend *backend;
	uint64_t identity[2];
	struct loop loop;
	struct error error;
	const struct backend_ops *ops = backend_plugin_load("good", &error);

	if (!ops)
		fail_msg("%s", error.message);
	assert_ptr_equal(backend_plugin_load("good", &error), ops);
	assert_int_equal(ops->check(&config, identity, &error), 0);
	assert_int_equal(loop_init(&loop, 0, NULL), 0);
	assert_int_equal(backend_thread_new(&loop, 0, 0, &thread), 0);
	assert_int_equal(ops->open(&config, &backend, &error), 0);
	run(backend, thread,
	    &(struct backend_io){.op = BACKEND_READ, .length = sizeof(buffer), .buffer = buffer});
	for (unsigned i = 0; i < sizeof(buffer); i++)
		assert_int_equal(buffer[i], PLUGIN_BYTE);
	run(backend, thread, &(struct backend_io){.op = BACKEND_FLUSH});
	backend->ops->close(backend);
	backend_thread_free(thread);
	loop_deinit(&loop);
}

static void errors_of_a_plugin_arrive(void **state)
{
	const struct backend_config config = {.path = "a/b", .block_size = 512};
	struct error error;
	const struct backend_ops *ops = backend_plugin_load("good", &error);
	uint64_t identity[2];

	assert_non_null(ops);
	assert_int_equal(ops->check(&config, identity, &error), -EINVAL);
	assert_string_equal(error.message, "a/b: no size");
}

static void missing_one_names_its_package(void **state)
{
	must_refuse("absent", "there is no " PLUGINS_INSTALLED "/rblk-absent.so");
	must_refuse("absent", "install the package rblk-target-absent");
}

static void wrong_ones_are_refused(void **state)
{
	must_refuse("release", "is of rblk 0.0.0-other, and this is " RBLK_VERSION);
	must_refuse("version", "is of another build of rblk (interface 5, here 4)");
	must_refuse("bytes", "is of another build of rblk (interface 4, here 4)");
	must_refuse("symbol", "rblk_backend_plugin");
	must_refuse("library", "cannot be loaded");
}

/* RBLK_PLUGINS replaces the folders that are searched otherwise. */
static void named_folder_is_the_only_one(void **state)
{
	assert_int_equal(setenv("RBLK_PLUGINS", "/nowhere", 1), 0);
	must_refuse("good", "there is no /nowhere/rblk-good.so");
	assert_int_equal(unsetenv("RBLK_PLUGINS"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_plugin_serves),
		cmocka_unit_test(errors_of_a_plugin_arrive),
		cmocka_unit_test(missing_one_names_its_package),
		cmocka_unit_test(wrong_ones_are_refused),
		cmocka_unit_test(named_folder_is_the_only_one),
	};

	return cmocka_run_group_tests_name("plugin", tests, NULL, NULL);
}
