/* SPDX-License-Identifier: BSD-3-Clause */
/* See backend_exercise.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "target/store/thread.h"
#include "tests/unit/backend_exercise.h"

struct loop loop;
struct backend_thread *thread;

/* ---- running -------------------------------------------------------------------------------- */

static void on_done(struct backend_io *io, int error)
{
	struct test_io *t = container_of(io, struct test_io, io);

	assert_false(t->is_submitting);
	assert_false(t->is_done);
	t->is_done = true;
	t->error = error;
}

void start(struct backend *backend, struct test_io *t)
{
	t->io.done = on_done;
	t->is_done = false;
	t->is_submitting = true;
	backend_submit(backend, thread, &t->io);
	t->is_submitting = false;
}

void finish(struct test_io *t)
{
	while (!t->is_done)
		loop_turn(&loop, UINT64_MAX);
}

int run(struct backend *backend, struct backend_io io)
{
	struct test_io t = {.io = io};

	start(backend, &t);
	finish(&t);
	return t.error;
}

void set_up_thread(unsigned depth)
{
	assert_int_equal(loop_init(&loop, 0, NULL), 0);
	assert_int_equal(backend_thread_new(&loop, 0, depth, &thread), 0);
}

int tear_down(void **state)
{
	backend_thread_free(thread);
	loop_deinit(&loop);
	return 0;
}

struct backend *must_open(const struct backend_ops *ops, const struct backend_config *config)
{
	struct backend *backend = NULL;
	struct error refused;

	if (ops->open(config, &backend, &refused) < 0)
		fail_msg("%s", refused.message);
	return backend;
}

void must_refuse(const struct backend_ops *ops, const struct backend_config *config, int error,
		 const char *says)
{
	struct backend *backend = NULL;
	struct error refused;

	assert_int_equal(ops->open(config, &backend, &refused), error);
	assert_null(backend);
	if (!strstr(refused.message, says))
		fail_msg("'%s' does not say '%s'", refused.message, says);
}

uint8_t *buffer_new(size_t n)
{
	uint8_t *buffer = aligned_alloc(4096, align_up(n, 4096));

	assert_non_null(buffer);
	memset(buffer, 0xee, n);
	return buffer;
}

void fill(uint8_t *buffer, size_t n, unsigned seed)
{
	for (size_t i = 0; i < n; i++)
		buffer[i] = (uint8_t)(seed * 31 + i / 512 + i);
}

/* N_IOS at once, far more than the context accepts; each byte is read back. */
void write_and_read(struct backend *backend, uint64_t n_each, bool is_fua)
{
	uint8_t *out = buffer_new(N_IOS * n_each), *in = buffer_new(N_IOS * n_each);
	struct test_io *ios = calloc(N_IOS, sizeof(*ios));

	fill(out, N_IOS * n_each, is_fua);
	for (int op = BACKEND_WRITE; op >= BACKEND_READ; op--) {
		for (unsigned i = 0; i < N_IOS; i++) {
			ios[i].io = (struct backend_io){
				.op = (enum backend_op)op,
				.is_fua = is_fua && op == BACKEND_WRITE,
				.offset = i * n_each,
				.length = n_each,
				.buffer = (op == BACKEND_WRITE ? out : in) + i * n_each,
			};
			start(backend, &ios[i]);
		}
		for (unsigned i = 0; i < N_IOS; i++) {
			finish(&ios[i]);
			assert_int_equal(ios[i].error, 0);
			assert_int_equal(ios[i].io.op, op);
		}
	}
	assert_memory_equal(out, in, N_IOS * n_each);
	free(out);
	free(in);
	free(ios);
}

void must_read(struct backend *backend, uint64_t offset, uint64_t n, int byte)
{
	uint8_t *buffer = buffer_new(n);

	assert_int_equal(run(backend, (struct backend_io){.op = BACKEND_READ,
							  .offset = offset,
							  .length = n,
							  .buffer = buffer}),
			 0);
	for (uint64_t i = 0; i < n; i++)
		assert_int_equal(buffer[i], byte);
	free(buffer);
}

void write_all(struct backend *backend, int byte)
{
	uint64_t n = backend->limits.size_bytes;
	uint8_t *buffer = buffer_new(n);

	memset(buffer, byte, n);
	assert_int_equal(
		run(backend,
		    (struct backend_io){.op = BACKEND_WRITE, .length = n, .buffer = buffer}),
		0);
	free(buffer);
}

int change(struct backend *backend, enum backend_op op, uint64_t offset, uint64_t n, bool may_unmap)
{
	return run(backend, (struct backend_io){.op = op,
						.offset = offset,
						.length = n,
						.may_unmap = may_unmap,
						.is_fua = may_unmap});
}

int flush(struct backend *backend)
{
	return run(backend, (struct backend_io){.op = BACKEND_FLUSH});
}

/* Every operation of a backend, none of which touches bytes outside its range. */
void exercise(struct backend *backend, bool discard_is_exact)
{
	uint64_t size = backend->limits.size_bytes;

	write_and_read(backend, size / N_IOS, false);
	write_and_read(backend, size / N_IOS, true);
	assert_int_equal(flush(backend), 0);
	for (int may_unmap = 0; may_unmap < 2; may_unmap++) {
		write_all(backend, 0x5a);
		assert_int_equal(change(backend, BACKEND_WRITE_ZEROES, 512, size / 2, may_unmap),
				 0);
		must_read(backend, 0, 512, 0x5a);
		must_read(backend, 512, size / 2, 0);
		must_read(backend, size / 2 + 512, size / 2 - 512, 0x5a);
	}
	assert_int_equal(change(backend, BACKEND_DISCARD, size / 2, size / 2, false), 0);
	if (discard_is_exact)
		must_read(backend, size / 2, size / 2, 0);
	assert_int_equal(flush(backend), 0);
}
