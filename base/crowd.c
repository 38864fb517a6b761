/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading the two signs of a crowd; see crowd.h. The owner's thread. */
#include "base/crowd.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/cpus.h"

enum {
	LINE_BYTES = 64,
	NOT_OPENED = -2, /* schedstat_fd until the owner's thread sleeps or looks */
};

void crowd_init(struct crowd *crowd)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);

	*crowd = (struct crowd){.loadavg_fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC),
				.schedstat_fd = NOT_OPENED,
				.n_online = n > 0 ? (unsigned)n : 1,
				.has_quota = cpus_have_quota()};
}

void crowd_deinit(struct crowd *crowd)
{
	if (crowd->loadavg_fd >= 0)
		close(crowd->loadavg_fd);
	if (crowd->schedstat_fd >= 0)
		close(crowd->schedstat_fd);
	crowd->loadavg_fd = crowd->schedstat_fd = -1;
}

static void open_schedstat(struct crowd *crowd)
{
	if (crowd->schedstat_fd == NOT_OPENED)
		crowd->schedstat_fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
}

void crowd_sleeps(struct crowd *crowd)
{
	open_schedstat(crowd);
	crowd->has_looked = false;
}

/* The number after n_spaces spaces in a file of one line; 0 when it cannot be read. */
static uint64_t number_in(int fd, unsigned n_spaces)
{
	char line[LINE_BYTES], *at = line;
	ssize_t n = fd < 0 ? -1 : pread(fd, line, sizeof(line) - 1, 0);

	if (n <= 0)
		return 0;
	line[n] = '\0';
	for (unsigned i = 0; at && i < n_spaces; i++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at, NULL, 10) : 0;
}

/* Rounded down at each look, so it ends up to CROWD_WEIGHT below a value that stays. */
static unsigned mean(unsigned mean, unsigned value)
{
	return (mean * (CROWD_WEIGHT - 1) + value) / CROWD_WEIGHT;
}

/* "104210933 2201871 1093": ns on a CPU, ns runnable without one. */
static void look_at_waits(struct crowd *crowd, uint64_t now_ns)
{
	uint64_t waited_ns = number_in(crowd->schedstat_fd, 1);
	uint64_t n_ns = waited_ns - crowd->waited_ns;
	uint64_t elapsed_ns = now_ns - crowd->looked_ns;

	if (crowd->has_looked && elapsed_ns)
		crowd->waits = mean(crowd->waits,
				    (unsigned)(MIN(n_ns, elapsed_ns) * 1000 / elapsed_ns));
	crowd->has_looked = true;
	crowd->looked_ns = now_ns;
	crowd->waited_ns = waited_ns;
}

/* "0.20 0.18 0.12 3/80 11206": 3 threads run or are runnable, the caller included. */
static void look_at_load(struct crowd *crowd)
{
	uint64_t n_runnable = number_in(crowd->loadavg_fd, 3);

	crowd->full = mean(crowd->full, n_runnable >= crowd->n_online ? 1000 : 0);
	crowd->excess = mean(crowd->excess, n_runnable > crowd->n_online ? 1000 : 0);
}

/* After a verdict the signs begin at three quarters of their thresholds, so that a few looks find a
 * crowd that is still there, and one look does not. */
static void begin_again(struct crowd *crowd)
{
	crowd->waits = MIN(crowd->waits, CROWD_WAITING * 3U / 4);
	crowd->excess = MIN(crowd->excess, CROWD_EXCESS * 3U / 4);
	crowd->has_looked = false;
}

enum crowd_verdict crowd_look_on(struct crowd *crowd, uint64_t now_ns, unsigned n_usable)
{
	bool has_all = n_usable >= crowd->n_online && !crowd->has_quota;

	open_schedstat(crowd);
	look_at_waits(crowd, now_ns);
	look_at_load(crowd);
	if (has_all ? crowd->excess <= CROWD_EXCESS : crowd->waits <= CROWD_WAITING)
		return has_all && crowd->full > CROWD_BUSY ? CROWD_FULL : CROWD_NONE;
	begin_again(crowd);
	return CROWD_WAITS;
}

enum crowd_verdict crowd_look(struct crowd *crowd, uint64_t now_ns)
{
	return crowd_look_on(crowd, now_ns, cpus_in_affinity());
}
