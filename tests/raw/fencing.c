/* SPDX-License-Identifier: BSD-3-Clause */
/* See fencing.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "tests/raw/fencing.h"
#include "tests/raw/group.h"

/* Only rblkd's own disk can hang (hung_disk.c). */
static void preload_disk(void)
{
	const char *softrdma = getenv("LD_PRELOAD");
	char preload[8192];

	snprintf(preload, sizeof(preload), "%s:%s", getenv("LIBHUNG"), softrdma);
	setenv("LD_PRELOAD", preload, 1);
}

int fencing_start_quick(void **state)
{
	preload_disk();
	return start_limited("", "}\nfencing: {quiesce: 2s");
}

int fencing_be_patient(void **state)
{
	stop(state);
	return start(state);
}

static void touch(const char *name)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", d.folder, name);
	f = fopen(path, "w");
	assert_non_null(f);
	fclose(f);
}

void fencing_hang_disk(bool is_hung)
{
	char path[128];

	if (is_hung) {
		touch("hung");
		return;
	}
	snprintf(path, sizeof(path), "%s/hung", d.folder);
	assert_int_equal(unlink(path), 0);
	snprintf(path, sizeof(path), "%s/one", d.folder);
	unlink(path);
}

void fencing_hang_one(void)
{
	touch("one");
	touch("hung");
}

void fencing_wait_held(void)
{
	uint64_t deadline = clock_ns() + FENCING_PATIENCE_MS * NSEC_PER_MSEC;
	char path[128];

	snprintf(path, sizeof(path), "%s/held", d.folder);
	while (access(path, F_OK) != 0) {
		assert_true(clock_ns() < deadline);
		usleep(1000);
	}
}

/* Data in the capsule: the target needs nothing more of the host. */
void fencing_send_write(struct raw_queue *q, uint32_t nsid, unsigned number, char value)
{
	unsigned n_blocks = nsid == DAEMON_FILE ? 1 : 8;
	struct nvme_sqe sqe = raw_blocks(q, NVME_IO_WRITE, nsid, (uint64_t)number * n_blocks,
					 n_blocks);
	char capsule[sizeof(sqe) + FENCING_BLOCK];

	sqe.sgl = (struct nvme_sgl){0};
	sqe.sgl.block.length = put_le32(FENCING_BLOCK);
	sqe.sgl.block.type = NVME_SGL_DATA_BLOCK_OFFSET;
	memset(capsule, value, sizeof(capsule));
	memcpy(capsule, &sqe, sizeof(sqe));
	raw_send(q, capsule, sizeof(capsule));
}

void fencing_write(struct raw_queue *q, uint32_t nsid, unsigned number, char value)
{
	fencing_send_write(q, nsid, number, value);
	assert_true(raw_collect(q, 1, FENCING_PATIENCE_MS));
}

void fencing_hold_write(struct raw_queue *q, char value)
{
	fencing_hang_disk(true);
	fencing_send_write(q, DAEMON_FILE, 0, value);
	fencing_wait_held();
}

void fencing_must_read(struct raw_queue *q, uint32_t nsid, unsigned number, char value)
{
	unsigned n_blocks = nsid == DAEMON_FILE ? 1 : 8;

	memset(q->data, 0, FENCING_BLOCK);
	assert_int_equal(
		raw_io(q, NVME_IO_READ, nsid, (uint64_t)number * n_blocks, n_blocks, FENCING_BLOCK),
		NVME_OK);
	assert_int_equal(q->data[0], value);
	assert_int_equal(q->data[FENCING_BLOCK - 1], value);
}
