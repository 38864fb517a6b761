/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any number of processes write one file: each opens it with O_APPEND and writes whole blocks,
 * those of one work request with one write() unless they are very many. The process that finds the
 * file empty writes the section's beginning, under flock(). An existing trace is continued, never
 * truncated, since a peer may be writing to it.
 *
 * The process that executes a work request writes the packets of both directions, because it knows
 * them all. Packets of one connection are in the order of their effects.
 *
 * When a write fails, or the file has reached its limit, tracing ends and the program continues.
 * The file holds all data that crosses the queue pairs, so it is its user's alone.
 */

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "softrdma/process/part.h"
#include "softrdma/trace/trace_file.h"

enum {
	BLOCK_SECTION = 0x0a0d0d0a,
	BLOCK_INTERFACE = 1,
	BLOCK_PACKET = 6,
	BLOCK_MAX = 32 + sizeof(struct trace_packet) + 4,
	LINK_ETHERNET = 1,
	OPT_IF_NAME = 2,
	OPT_IF_TSRESOL = 9,
};

#define MIB		1048576ULL
#define USUAL_LIMIT_MIB 1024

_Atomic bool trace_is_on;

/* Guards everything below. Leaf. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int fd = -1;
static uint32_t snap = UINT32_MAX; /* bytes kept of each packet */
static uint64_t limit;		   /* bytes of the file */
static uint64_t last_ns;
static size_t used;
static uint8_t blocks[256 << 10];

static void add(const void *data, size_t n)
{
	memcpy(blocks + used, data, n);
	used += n;
}

static void add32(uint32_t v)
{
	add(&v, sizeof(v));
}

/* For all processes that write the file. */
static bool has_room(void)
{
	struct stat st;

	return fstat(fd, &st) || !S_ISREG(st.st_mode) || (uint64_t)st.st_size + used <= limit;
}

static void flush(void)
{
	const char *problem = NULL;

	if (!used || fd < 0)
		return;
	if (!has_room())
		problem = "the file has reached its limit (SOFTRDMA_TRACE_LIMIT)";
	else if (write(fd, blocks, used) != (ssize_t)used)
		problem = "the file cannot be written";
	if (problem && atomic_exchange(&trace_is_on, false))
		fprintf(stderr, "softrdma: tracing ends, %s\n", problem);
	used = 0;
}

void trace_begin(void)
{
	pthread_mutex_lock(&lock);
}

void trace_end(void)
{
	flush();
	pthread_mutex_unlock(&lock);
}

/* No two packets of a process have the same time, so that sorting keeps their order. */
static uint64_t stamp(void)
{
	struct timespec t;
	uint64_t ns;

	clock_gettime(CLOCK_REALTIME, &t);
	ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
	last_ns = ns > last_ns ? ns : last_ns + 1;
	return last_ns;
}

void trace_put(const struct trace_packet *p)
{
	uint32_t kept = p->len < snap ? p->len : snap;
	uint32_t padded = (kept + 3) & ~3u;
	uint64_t ns = stamp();

	if (sizeof(blocks) - used < BLOCK_MAX)
		flush();
	add32(BLOCK_PACKET);
	add32(32 + padded);
	add32(0); /* interface */
	add32((uint32_t)(ns >> 32));
	add32((uint32_t)ns);
	add32(kept);
	add32(p->len);
	add(p->data, kept);
	add("\0\0\0", padded - kept);
	add32(32 + padded);
}

/* ---- the file ---------------------------------------------------------------------- */

static void add_section(void)
{
	add32(BLOCK_SECTION);
	add32(28);
	add32(0x1a2b3c4d); /* byte order of this file */
	add32(1);	   /* version 1.0 */
	add32(UINT32_MAX); /* the section's length is not known */
	add32(UINT32_MAX);
	add32(28);
}

static void add_interface(void)
{
	add32(BLOCK_INTERFACE);
	add32(48);
	add32(LINK_ETHERNET);
	add32(0); /* no limit on a packet's length */
	add32(OPT_IF_NAME | 9 << 16);
	add("softrdma0\0\0", 12);
	add32(OPT_IF_TSRESOL | 1 << 16);
	add32(9); /* 10^-9 s */
	add32(0); /* end of options */
	add32(48);
}

static int open_file(const char *path)
{
	struct stat st;

	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (fd < 0 || flock(fd, LOCK_EX) || fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode) || !st.st_size) {
		add_section();
		add_interface();
		flush();
	}
	flock(fd, LOCK_UN);
	return 0;
}

/* 0: none. */
static unsigned long number(const char *variable)
{
	const char *value = getenv(variable);

	return value ? strtoul(value, NULL, 10) : 0;
}

static void start(void)
{
	const char *path = getenv("SOFTRDMA_TRACE");
	unsigned long n = number("SOFTRDMA_TRACE_SNAP"), mib = number("SOFTRDMA_TRACE_LIMIT");
	int r;

	if (!path || !*path)
		return;
	pthread_mutex_lock(&lock);
	if (n && n < UINT32_MAX)
		snap = (uint32_t)n;
	limit = (mib && mib < UINT32_MAX ? mib : USUAL_LIMIT_MIB) * MIB;
	atomic_store(&trace_is_on, true);
	r = open_file(path);
	if (r) {
		atomic_store(&trace_is_on, false);
		fprintf(stderr, "softrdma: cannot trace to %s: %s\n", path, strerror(-r));
	}
	pthread_mutex_unlock(&lock);
}

static void forget(void)
{
	pthread_mutex_init(&lock, NULL);
	atomic_store(&trace_is_on, false);
	if (fd >= 0)
		close(fd);
	fd = -1;
	used = 0;
}

static const struct sr_part part = {.start = start, .forget = forget};
SR_PART(part);
