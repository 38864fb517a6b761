/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the programs of this suite, which use librblk as its users do. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "library/rblk.h"

enum {
	BLOCK = 4096,
};

#define expect(condition)                                                                          \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* tests/runner/verdict.py knows the words: such a failure is red at once. */
static inline void expect_same(const void *a, const void *b, size_t n)
{
	if (memcmp(a, b, n) != 0) {
		fprintf(stderr, "wrong data: %zu bytes differ from what was written\n", n);
		exit(1);
	}
}

static inline struct rblk_volume *must_open(const char *uri, const char *name, const char *value)
{
	struct rblk_option options[] = {{name, value}, {NULL, NULL}};
	struct rblk_volume *volume;
	struct rblk_error error;

	if (rblk_open(uri, name ? options : NULL, &volume, &error) < 0) {
		fprintf(stderr, "rblk_open: %s (%s)\n", error.message, error.hint);
		exit(1);
	}
	return volume;
}

static inline struct rblk_queue *must_open_queue(struct rblk_volume *volume)
{
	struct rblk_queue *queue;
	struct rblk_error error;

	if (rblk_queue_open(volume, &queue, &error) < 0) {
		fprintf(stderr, "rblk_queue_open: %s\n", error.message);
		exit(1);
	}
	return queue;
}

static inline void *new_buffer(size_t n)
{
	void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	expect(p != MAP_FAILED);
	return p;
}

static inline int run(struct rblk_queue *queue, uint32_t op, void *buffer, uint64_t offset,
		      uint64_t length, struct rblk_memory *memory)
{
	struct rblk_io io = {
		.op = op, .offset = offset, .length = length, .buffer = buffer, .memory = memory};

	return rblk_run(queue, &io);
}
