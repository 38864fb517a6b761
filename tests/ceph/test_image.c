/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The backend for images of a cluster: the exercise that files and devices pass, and what is its
 * own. test_ceph.py starts the cluster and names an image of 8 MiB: RBLK_TEST_RBD, and
 * RBLK_TEST_RBD_CONF for the cluster's configuration.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/log.h"
#include "target/store/backends.h"
#include "target/store/rbd_config.h"
#include "target/store/record.h"
#include "tests/unit/backend_exercise.h"

/* The state is not kept beside the image. */
static struct rbd_config as_user(const char *user)
{
	return (struct rbd_config){
		.conf = getenv("RBLK_TEST_RBD_CONF"), .user = user, .state = RBD_STATE_DIRECTORY};
}

static struct backend_config the_image(const struct rbd_config *own)
{
	return (struct backend_config){
		.path = getenv("RBLK_TEST_RBD"), .own = own, .block_size = 512};
}

static int set_up_aio(void **state)
{
	set_up_thread(32);
	return 0;
}

static void rbd_does_all(void **state)
{
	const struct rbd_config own = as_user("rblk");
	const struct backend_config config = the_image(&own);
	struct backend *backend = must_open(&backend_rbd, &config);

	assert_false(backend->limits.has_volatile_cache);
	assert_int_equal(backend->limits.size_bytes, FILE_BYTES);
	assert_int_equal(backend->limits.discard_bytes, 64 * 1024);
	must_refuse(&backend_rbd, &config, -EBUSY, "is exported already");
	exercise(backend, false);
	assert_int_equal(change(backend, BACKEND_DISCARD, FILE_BYTES - BLOCK, 2 * BLOCK, false),
			 -EIO);
	backend->ops->close(backend);
}

/* librbd leaves the edges of a discard as they were, to 64 KiB; the limits tell hosts. */
static void rbd_discards_by_64_kib(struct backend *backend)
{
	write_all(backend, 0x5a);
	assert_int_equal(change(backend, BACKEND_DISCARD, BLOCK, 16 * BLOCK, false), 0);
	must_read(backend, 0, 32 * BLOCK, 0x5a);
	assert_int_equal(change(backend, BACKEND_DISCARD, 16 * BLOCK, 16 * BLOCK, false), 0);
	must_read(backend, 16 * BLOCK, 16 * BLOCK, 0);
	must_read(backend, 32 * BLOCK, BLOCK, 0x5a);
}

static void resize_image(const char *size)
{
	char command[512];

	snprintf(command, sizeof(command), "rbd -c %s resize --no-progress --allow-shrink -s %s %s",
		 getenv("RBLK_TEST_RBD_CONF"), size, getenv("RBLK_TEST_RBD"));
	assert_int_equal(system(command), 0);
}

/* By another client. I/O beyond the new end fails; librbd would cut it. */
static void rbd_shrinks(void **state)
{
	const struct rbd_config own = as_user("rblk");
	const struct backend_config config = the_image(&own);
	struct backend *backend = must_open(&backend_rbd, &config);
	uint8_t *buffer = buffer_new(2 * BLOCK);
	struct error error;

	rbd_discards_by_64_kib(backend);
	write_all(backend, 0x33);
	resize_image("4M");
	for (int op = BACKEND_READ; op <= BACKEND_WRITE; op++)
		assert_int_equal(run(backend, (struct backend_io){.op = (enum backend_op)op,
								  .offset = FILE_BYTES / 2 - BLOCK,
								  .length = 2 * BLOCK,
								  .buffer = buffer}),
				 -EIO);
	assert_int_equal(
		change(backend, BACKEND_WRITE_ZEROES, FILE_BYTES / 2 - BLOCK, 2 * BLOCK, true),
		-EIO);
	must_read(backend, 0, FILE_BYTES / 2, 0x33);
	while (!atomic_load(&backend->has_changed))
		loop_turn(&loop, 1000 * 1000);
	assert_int_equal(backend->ops->resize(backend, 0, &error), 0);
	assert_int_equal(backend->limits.size_bytes, FILE_BYTES / 2);
	resize_image("8M");
	backend->ops->close(backend);
	free(buffer);
}

/* prepare never waits, and open takes what it has begun. */
static void rbd_opens_beside(void **state)
{
	const struct rbd_config own = as_user("rblk");
	const struct backend_config config = the_image(&own);
	struct backend *backend;

	assert_int_equal(backend_rbd.prepare(&config), -EINPROGRESS);
	while (backend_rbd.prepare(&config) == -EINPROGRESS)
		loop_turn(&loop, 1000 * 1000);
	backend = must_open(&backend_rbd, &config);
	must_read(backend, 0, BLOCK, 0x33);
	backend->ops->close(backend);
}

/* ---- records beside the image ---------------------------------------------------------------- */

static bool is_done;

static void on_done(struct record_op *op)
{
	is_done = true;
}

static struct record_op call(struct record_store *store,
			     void (*start_op)(struct record_store *, struct record_op *),
			     const char *name, const char *text, uint64_t version)
{
	struct record_op op = {
		.loop = &loop, .name = name, .text = text, .version = version, .done = on_done};

	is_done = false;
	start_op(store, &op);
	while (!is_done)
		loop_turn(&loop, 1000 * 1000);
	return op;
}

/* Takes what a load has found. */
static void must_have_found(const struct record_op *op, const char *text, uint64_t version)
{
	assert_int_equal(op->error, 0);
	assert_int_equal(op->version, version);
	if (text)
		assert_string_equal(op->found, text);
	else
		assert_null(op->found);
	free(op->found);
}

static void must_hold(struct record_store *store, const char *name, const char *text,
		      uint64_t version)
{
	struct record_op op = call(store, store->ops->load, name, NULL, 0);

	must_have_found(&op, text, version);
}

/* Reads what open has read, without a loop: once. */
static void must_have_read(struct record_store *store, const char *text, uint64_t version)
{
	struct record_op op = {.name = store->own};

	store->ops->load(store, &op);
	must_have_found(&op, text, version);
	store->ops->load(store, &op);
	assert_int_equal(op.error, -EWOULDBLOCK);
}

static void compare_and_set(struct record_store *store)
{
	uint64_t first = call(store, store->ops->store, "one", "1", RECORD_NONE).version, second;
	struct record_op op;

	assert_int_not_equal(first, RECORD_NONE);
	assert_int_equal(call(store, store->ops->store, "one", "no", RECORD_NONE).error,
			 -ECANCELED);
	must_hold(store, "one", "1", first);
	second = call(store, store->ops->store, "one", "2", first).version;
	assert_int_equal(call(store, store->ops->store, "one", "no", first).error, -ECANCELED);
	assert_int_equal(call(store, store->ops->remove, "one", NULL, first).error, -ECANCELED);
	must_hold(store, "one", "2", second);
	assert_int_equal(call(store, store->ops->store, "two", "", RECORD_NONE).error, 0);
	op = call(store, store->ops->list, "", NULL, 0);
	assert_int_equal(op.error, 0);
	assert_string_equal(op.found, "guard\none\ntwo\n");
	free(op.found);
	op = call(store, store->ops->list, "tw", NULL, 0);
	assert_string_equal(op.found, "two\n");
	free(op.found);
	assert_int_equal(call(store, store->ops->remove, "one", NULL, second).error, 0);
	must_hold(store, "one", NULL, RECORD_NONE);
	assert_int_equal(call(store, store->ops->store, "one", "no", second).error, -ECANCELED);
	assert_int_equal(call(store, store->ops->remove, "one", NULL, RECORD_NONE).error, 0);
}

static void rbd_keeps_records(void **state)
{
	struct rbd_config own = {.conf = getenv("RBLK_TEST_RBD_CONF"), .user = "rblk"};
	const struct backend_config config = the_image(&own);
	struct backend *backend = must_open(&backend_rbd, &config);
	struct record_store *store = backend->ops->records(backend);
	uint64_t version;

	assert_true(store->is_shared);
	must_have_read(store, NULL, RECORD_NONE);
	assert_int_equal(call(store, store->ops->remove, "one", NULL, RECORD_NONE).error, 0);
	must_hold(store, store->own, NULL, RECORD_NONE);
	assert_int_equal(call(store, store->ops->store, store->own, "no", 77).error, -ECANCELED);
	version = call(store, store->ops->store, store->own, "{}", RECORD_NONE).version;
	compare_and_set(store);
	backend->ops->close(backend);
	backend = must_open(&backend_rbd, &config);
	store = backend->ops->records(backend);
	must_have_read(store, "{}", version);
	assert_int_equal(call(store, store->ops->remove, store->own, NULL, version).error, 0);
	backend->ops->close(backend);
	own.state = RBD_STATE_DIRECTORY;
	backend = must_open(&backend_rbd, &config);
	assert_null(backend->ops->records(backend));
	backend->ops->close(backend);
}

static void rbd_is_refused(void **state)
{
	struct rbd_config own = as_user("rblk");
	struct backend_config config = the_image(&own);

	config.path = "rbd/no-such-image";

	must_refuse(&backend_rbd, &config, -ENOENT, "there is no such image");
	config.path = "no-such-pool/image";
	must_refuse(&backend_rbd, &config, -ENOENT, "there is no pool 'no-such-pool'");
	own = as_user("stranger");
	must_refuse(&backend_rbd, &config, -EIO, "client.stranger");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		{"rbd_does_all", rbd_does_all, set_up_aio, tear_down},
		{"rbd_shrinks", rbd_shrinks, set_up_aio, tear_down},
		{"rbd_opens_beside", rbd_opens_beside, set_up_aio, tear_down},
		{"rbd_keeps_records", rbd_keeps_records, set_up_aio, tear_down},
		{"rbd_is_refused", rbd_is_refused}};

	log_init("test_image", LOG_ERR);
	return cmocka_run_group_tests_name("rbd", tests, NULL, NULL);
}
