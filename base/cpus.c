/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See cpus.h. The quota of a control group is in one file of cgroup v2 (cpu.max: "50000 100000",
 * "max 100000") and in two of v1. A group above may have a smaller one, so each counts, from the
 * process's own up to the root that this process can see.
 */
#include "base/cpus.h"

#include <limits.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/cleanup.h"
#include "base/clock.h"

enum {
	NO_QUOTA = UINT32_MAX, /* in thousandths of a CPU */
	LINE_BYTES = 512,
};

/* The first line of root/group/name; false: there is none. */
static bool read_line(char line[LINE_BYTES], const char *root, const char *group, const char *name)
{
	char path[PATH_MAX];
	_autofclose_ FILE *f = NULL;

	snprintf(path, sizeof(path), "%s%s/%s", root, group, name);
	f = fopen(path, "re");
	return f && fgets(line, LINE_BYTES, f);
}

static uint32_t thousandths(long long quota, long long period)
{
	return quota > 0 && period > 0 ? (uint32_t)MIN(quota * 1000 / period, NO_QUOTA - 1LL)
				       : NO_QUOTA;
}

static uint32_t quota_v2(const char *group)
{
	char line[LINE_BYTES], *end;
	long long quota;

	if (!read_line(line, "/sys/fs/cgroup", group, "cpu.max") || !strncmp(line, "max", 3))
		return NO_QUOTA;
	quota = strtoll(line, &end, 10);
	return thousandths(quota, strtoll(end, NULL, 10));
}

static uint32_t quota_v1(const char *group)
{
	static const char root[] = "/sys/fs/cgroup/cpu";
	char quota[LINE_BYTES], period[LINE_BYTES];

	if (!read_line(quota, root, group, "cpu.cfs_quota_us") ||
	    !read_line(period, root, group, "cpu.cfs_period_us"))
		return NO_QUOTA;
	return thousandths(strtoll(quota, NULL, 10), strtoll(period, NULL, 10));
}

/* The smallest of a group and of those above it. */
static uint32_t quota_along(char *group, uint32_t (*quota_of)(const char *group))
{
	uint32_t least = quota_of(group);
	char *slash;

	while ((slash = strrchr(group, '/'))) {
		*slash = '\0';
		least = MIN(least, quota_of(group));
	}
	return least;
}

/* Whether "cpu" is one of "cpu,cpuacct". */
static bool has_cpu(char *controllers)
{
	for (char *name; (name = strsep(&controllers, ","));)
		if (!strcmp(name, "cpu"))
			return true;
	return false;
}

/* "0::/a/b" of v2, "4:cpu,cpuacct:/a/b" of v1. */
static uint32_t quota_of_line(char *line)
{
	char *controllers, *group;

	line[strcspn(line, "\n")] = '\0';
	strsep(&line, ":");
	controllers = strsep(&line, ":");
	group = line;
	if (!controllers || !group)
		return NO_QUOTA;
	if (!strcmp(group, "/"))
		*group = '\0';
	if (!*controllers)
		return quota_along(group, quota_v2);
	return has_cpu(controllers) ? quota_along(group, quota_v1) : NO_QUOTA;
}

static uint32_t quota(void)
{
	_autofclose_ FILE *f = fopen("/proc/self/cgroup", "re");
	uint32_t least = NO_QUOTA;
	char line[LINE_BYTES];

	while (f && fgets(line, sizeof(line), f))
		least = MIN(least, quota_of_line(line));
	return least;
}

unsigned cpus_in_affinity(void)
{
	cpu_set_t set;

	/* Fails on a machine with more CPUs than the set holds: then there are enough. */
	if (sched_getaffinity(0, sizeof(set), &set) < 0)
		return CPU_SETSIZE;
	return MAX(1U, (unsigned)CPU_COUNT(&set));
}

bool cpus_have_quota(void)
{
	return quota() != NO_QUOTA;
}

unsigned cpus_usable(void)
{
	unsigned n = cpus_in_affinity();
	uint64_t limit = quota();

	return limit == NO_QUOTA ? n : MIN(n, MAX(1U, (unsigned)((limit + 999) / 1000)));
}

/* "cpu1 13692 47813 36445 11816 411 0 268 0 0 0": the fourth is idle, the fifth waits for I/O. */
static uint64_t idle_ticks_of_line(const char *line, const cpu_set_t *set)
{
	unsigned long long idle, waiting;
	unsigned cpu;

	if (sscanf(line, "cpu%u %*u %*u %*u %llu %llu", &cpu, &idle, &waiting) != 3 ||
	    cpu >= CPU_SETSIZE || !CPU_ISSET(cpu, set))
		return 0;
	return idle + waiting;
}

/* The first line is the sum of all CPUs, which the pattern does not match. */
static uint64_t idle_ticks(void)
{
	_autofclose_ FILE *f = fopen("/proc/stat", "re");
	char line[LINE_BYTES];
	uint64_t ticks = 0;
	cpu_set_t set;

	if (!f || sched_getaffinity(0, sizeof(set), &set) < 0)
		return 0;
	while (fgets(line, sizeof(line), f) && !strncmp(line, "cpu", 3))
		ticks += idle_ticks_of_line(line, &set);
	return ticks;
}

unsigned cpus_idle_look(struct cpus_idle *idle, uint64_t now_ns)
{
	uint64_t tick_ns = NSEC_PER_SEC / (uint64_t)MAX(1L, sysconf(_SC_CLK_TCK));
	uint64_t idle_ns = idle_ticks() * tick_ns, elapsed_ns = now_ns - idle->looked_ns;
	uint64_t n_ns = idle_ns > idle->idle_ns ? idle_ns - idle->idle_ns : 0;
	bool is_first = !idle->looked_ns;

	*idle = (struct cpus_idle){.looked_ns = now_ns, .idle_ns = idle_ns};
	return is_first || !elapsed_ns ? 0 : (unsigned)(n_ns * 1000 / elapsed_ns);
}
