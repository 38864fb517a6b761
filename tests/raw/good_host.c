/* SPDX-License-Identifier: BSD-3-Clause */
/* See good_host.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/bits.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "tests/raw/good_host.h"
#include "tests/raw/host.h"
#include "softrdma/fabric/seg.h"

enum {
	PATIENCE_S = 60,
	LOOK_AGAIN_US = 5000,
	LOOKS = 10,
};

enum held {
	HELD_FDS,
	HELD_REGIONS,
	HELD_QUEUE_PAIRS,
	HELD_COMPLETION_QUEUES,
	HELD_SHARED_RECEIVES,
	HELD_KINDS
};

static const char *const names[HELD_KINDS] = {
	[HELD_FDS] = "descriptors",
	[HELD_REGIONS] = "memory regions",
	[HELD_QUEUE_PAIRS] = "queue pairs",
	[HELD_COMPLETION_QUEUES] = "completion queues",
	[HELD_SHARED_RECEIVES] = "shared receive queues",
};

/* ---- what it holds --------------------------------------------------------------------------- */

/* NULL when the file is not this process' own segment; it may be a peer's. */
static const struct seg *map_segment(const char *path, pid_t pid)
{
	_autoclose_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct seg *seg = fd < 0 ? MAP_FAILED
				 : mmap(NULL, sizeof(*seg), PROT_READ, MAP_SHARED, fd, 0);

	if (seg == MAP_FAILED)
		return NULL;
	if (seg->magic == SEG_MAGIC && seg->pid == pid)
		return seg;
	munmap(seg, sizeof(*seg));
	return NULL;
}

/* Counts the descriptors meanwhile. */
static const struct seg *find_segment(const struct daemon *d, unsigned *ret_n_fds)
{
	const struct seg *seg = NULL;
	struct dirent *entry;
	char folder[64];
	DIR *dir;

	*ret_n_fds = 0;
	snprintf(folder, sizeof(folder), "/proc/%d/fd", (int)d->pid);
	dir = opendir(folder);
	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		char path[400], target[64] = "";

		if (*entry->d_name == '.')
			continue;
		++*ret_n_fds;
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		if (!seg && readlink(path, target, sizeof(target) - 1) > 0 &&
		    !strncmp(target, "/memfd:softrdma", 15))
			seg = map_segment(path, d->pid);
	}
	closedir(dir);
	return seg;
}

const struct seg *good_host_map(const struct daemon *d)
{
	unsigned n_fds;

	return find_segment(d, &n_fds);
}

void good_host_unmap(const struct seg *seg)
{
	if (seg)
		munmap((void *)(uintptr_t)seg, sizeof(*seg));
}

static void count(const struct daemon *d, unsigned held[HELD_KINDS])
{
	const struct seg *seg;

	memset(held, 0, HELD_KINDS * sizeof(*held));
	seg = find_segment(d, &held[HELD_FDS]);
	if (!seg)
		return;
	for (unsigned i = 0; i < SEG_MAX_MR; i++)
		held[HELD_REGIONS] += atomic_load(&seg->mr[i].lkey) != 0;
	for (unsigned i = 0; i < SEG_MAX_QP; i++)
		held[HELD_QUEUE_PAIRS] += atomic_load(&seg->qp[i].qpn) != 0;
	for (unsigned i = 0; i < SEG_MAX_CQ; i++)
		held[HELD_COMPLETION_QUEUES] += atomic_load(&seg->cq[i].live) != 0;
	for (unsigned i = 0; i < SEG_MAX_SRQ; i++)
		held[HELD_SHARED_RECEIVES] += atomic_load(&seg->srq[i].live) != 0;
	good_host_unmap(seg);
}

/* rblkd closes files of a dead peer a moment after its connections. */
void good_host_check(const struct good_host *g)
{
	uint64_t deadline = clock_ns() + PATIENCE_S * NSEC_PER_SEC;
	unsigned now[HELD_KINDS];

	for (;;) {
		unsigned more = HELD_KINDS;

		count(g->d, now);
		for (unsigned i = 0; i < HELD_KINDS; i++)
			if (now[i] > g->held[i])
				more = i;
		if (more == HELD_KINDS)
			return;
		if (clock_ns() > deadline)
			fail_msg("rblkd holds %u %s, at first it held %u", now[more], names[more],
				 g->held[more]);
		usleep(LOOK_AGAIN_US);
	}
}

/* ---- the host -------------------------------------------------------------------------------- */

static uint64_t visit(const struct daemon *d)
{
	uint64_t before = clock_ns(), took;
	struct raw_host h;

	raw_host_open(&h, d->port);
	took = clock_ns() - before;
	assert_int_equal(raw_io(&h.io, NVME_IO_READ, DAEMON_RAM, 0, 8, 4096), NVME_OK);
	raw_host_close(&h);
	daemon_wait_empty(d);
	return took;
}

void good_host_remember(struct good_host *g, const struct daemon *d)
{
	unsigned now[HELD_KINDS];

	g->d = d;
	daemon_wait_registered(d);
	count(d, g->held);
	/* The descriptor of the last client of its control socket may still be open. */
	for (unsigned i = 0; i < LOOKS; i++) {
		usleep(LOOK_AGAIN_US);
		count(d, now);
		for (unsigned j = 0; j < HELD_KINDS; j++)
			g->held[j] = MIN(g->held[j], now[j]);
	}
}

void good_host_first(struct good_host *g, const struct daemon *d)
{
	visit(d);
	good_host_remember(g, d);
}

void good_host_next(const struct good_host *g)
{
	daemon_wait_empty(g->d);
	print_message("# the next good host: connected in %u us\n",
		      (unsigned)(visit(g->d) / NSEC_PER_USEC));
	good_host_check(g);
}
