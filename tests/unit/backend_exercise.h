/* SPDX-License-Identifier: BSD-3-Clause */
/* An exercise for backends, on a real loop: each of them passes exercise(). */
#pragma once

#include "target/store/backend.h"

enum {
	BLOCK = 4096,
	N_IOS = 128,
	FILE_BYTES = N_IOS * 16 * BLOCK,
};

struct test_io {
	struct backend_io io;
	bool is_submitting, is_done;
	int error;
};

extern struct loop loop;
extern struct backend_thread *thread;

void set_up_thread(unsigned depth);
int tear_down(void **state);

struct backend *must_open(const struct backend_ops *ops, const struct backend_config *config);
/* With this -errno and these words. */
void must_refuse(const struct backend_ops *ops, const struct backend_config *config, int error,
		 const char *says);

uint8_t *buffer_new(size_t n);
void fill(uint8_t *buffer, size_t n, unsigned seed);

void start(struct backend *backend, struct test_io *t);
void finish(struct test_io *t);
/* start and finish. Returns what done got. */
int run(struct backend *backend, struct backend_io io);
int change(struct backend *backend, enum backend_op op, uint64_t offset, uint64_t n,
	   bool may_unmap);
int flush(struct backend *backend);

/* N_IOS at once, far more than a context accepts; each byte is read back. */
void write_and_read(struct backend *backend, uint64_t n_each, bool is_fua);
void must_read(struct backend *backend, uint64_t offset, uint64_t n, int byte);
void write_all(struct backend *backend, int byte);
/* Every operation of a backend, none of which touches bytes outside its range. */
void exercise(struct backend *backend, bool discard_is_exact);
