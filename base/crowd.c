/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/crowd.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"

enum {
	SWITCHES_PER_S = 400, /* who has a CPU to itself is switched 5 to 100 times */
	EXCESS = 200,	      /* of 1000 looks; 20 where nobody is in the way */
	WEIGHT = 8,	      /* of the mean, 1 of them the last look's */
	LOADAVG_BYTES = 64,
};

void crowd_init(struct crowd *crowd)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);

	*crowd = (struct crowd){.loadavg_fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC),
				.n_cpus = n > 0 ? (unsigned)n : 1};
}

void crowd_deinit(struct crowd *crowd)
{
	if (crowd->loadavg_fd >= 0)
		close(crowd->loadavg_fd);
	crowd->loadavg_fd = -1;
}

/* "0.20 0.18 0.12 3/80 11206": 3 threads run or want to, we among them. 0: not known. */
static unsigned long n_running(const struct crowd *crowd)
{
	char line[LOADAVG_BYTES], *at = line;
	ssize_t n = crowd->loadavg_fd < 0
			    ? -1
			    : pread(crowd->loadavg_fd, line, sizeof(line) - 1, 0);

	if (n <= 0)
		return 0;
	line[n] = '\0';
	for (unsigned i = 0; at && i < 3; i++)
		at = strchr(at + 1, ' ');
	return at ? strtoul(at, NULL, 10) : 0;
}

static bool is_switched_often(struct crowd *crowd, uint64_t now_ns)
{
	struct rusage usage = {0};
	uint64_t n, n_switches, elapsed_ns = now_ns - crowd->looked_ns;

	getrusage(RUSAGE_THREAD, &usage);
	n_switches = (uint64_t)usage.ru_nivcsw;
	n = n_switches - crowd->n_switches;
	crowd->n_switches = n_switches;
	return crowd->looked_ns && n * NSEC_PER_SEC >= elapsed_ns * SWITCHES_PER_S;
}

static bool is_full(struct crowd *crowd)
{
	unsigned is_over = n_running(crowd) > crowd->n_cpus ? 1000 : 0;

	crowd->excess = (crowd->excess * (WEIGHT - 1) + is_over) / WEIGHT;
	return crowd->excess >= EXCESS;
}

bool crowd_is_here(struct crowd *crowd, uint64_t now_ns)
{
	bool is_switched = is_switched_often(crowd, now_ns), is_over = is_full(crowd);

	crowd->looked_ns = now_ns;
	return is_switched || is_over;
}
