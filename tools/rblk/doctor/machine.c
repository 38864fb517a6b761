/* SPDX-License-Identifier: BSD-3-Clause */
/* This machine and this user, whatever the target is; see doctor.h. */
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/timex.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/cleanup.h"
#include "base/run_dir.h"
#include "base/units.h"
#include "initiator/control/host_identity.h"
#include "tools/rblk/doctor/doctor.h"
#include "tools/rblk/doctor/findings.h"

#define IDENTITY_DIR "/etc/nvme"
#define UUID_MARK    ":uuid:"

enum {
	FILES_GOOD = 1024,	 /* 16 NBD connections with a queue each use about 200 */
	MEMLOCK_GOOD = 16 * MIB, /* a volume of one queue at its full depth */
};

/* ---- the identity of this host ---- */

/* Targets know a host by both. Debian makes two UUIDs, nvme-cli since version 2 only one. */
static void check_hostid(struct doctor *doctor)
{
	const char *in_nqn = strstr(doctor->identity.hostnqn, UUID_MARK);
	uuid_t uuid;

	if (!in_nqn || uuid_parse(in_nqn + strlen(UUID_MARK), uuid) < 0 ||
	    !uuid_compare(uuid, doctor->identity.hostid))
		return;
	doctor_found(doctor, FINDING_NOTE, "host_id",
		     "write the UUID of " IDENTITY_DIR "/hostnqn into " IDENTITY_DIR "/hostid",
		     "not the UUID in the host NQN; some targets expect that");
}

/* An identity that is only kept in the run directory changes with the next boot, and then an allow
 * list of a target no longer knows this host. */
static void check_identity(struct doctor *doctor)
{
	struct error error;
	bool is_kept = doctor->hostnqn || !access(IDENTITY_DIR "/hostnqn", F_OK);

	if (host_identity_load(IDENTITY_DIR, doctor->hostnqn, doctor->hostid, &doctor->identity,
			       &error) < 0) {
		doctor_failed(doctor, FINDING_PROBLEM, "host_nqn", &error);
		return;
	}
	doctor->has_identity = true;
	if (is_kept)
		doctor_found(doctor, FINDING_OK, "host_nqn", NULL, "%s", doctor->identity.hostnqn);
	else
		doctor_found(doctor, FINDING_NOTE, "host_nqn",
			     "nvme gen-hostnqn > " IDENTITY_DIR "/hostnqn",
			     "%s, until the next boot: there is no " IDENTITY_DIR "/hostnqn",
			     doctor->identity.hostnqn);
	check_hostid(doctor);
}

/* ---- limits ---- */

/* The hard limit counts: each program of rblk raises its soft limit to it (base/fd_limit.h). */
static void check_open_files(struct doctor *doctor)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	if (limit.rlim_max < FILES_GOOD)
		doctor_found(doctor, FINDING_WARNING, "open_files",
			     "ulimit -n 65536, or LimitNOFILE=65536 in the unit",
			     "the limit is %llu, too few for several NBD connections",
			     (unsigned long long)limit.rlim_max);
	else
		doctor_found(doctor, FINDING_OK, "open_files", NULL, "at most %llu",
			     (unsigned long long)limit.rlim_max);
}

/* CapEff of proc(5); CAP_IPC_LOCK frees from the limit, except where softrdma is told to be
 * strict. */
static bool may_lock_all(void)
{
	unsigned long long capabilities = 0;
	_autofclose_ FILE *f = fopen("/proc/self/status", "re");
	char line[256];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "CapEff: %llx", &capabilities) == 1)
			break;
	return capabilities >> 14 & 1 && !getenv("SOFTRDMA_MEMLOCK_STRICT");
}

/* No failure by itself: a volume shrinks its buffers to what it may lock, down to a minimum. */
static void check_locked_memory(struct doctor *doctor)
{
	char text[UNITS_MAX];
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) < 0)
		return;
	if (limit.rlim_cur == RLIM_INFINITY || may_lock_all())
		doctor_found(doctor, FINDING_OK, "locked_memory", NULL, "no limit");
	else if (limit.rlim_cur < MEMLOCK_GOOD)
		doctor_found(doctor, limit.rlim_cur < MIB ? FINDING_WARNING : FINDING_NOTE,
			     "locked_memory",
			     "ulimit -l unlimited; or LimitMEMLOCK=infinity in the unit",
			     "the limit is %s; a volume on an RDMA device gets fewer buffers",
			     units_format_size(text, limit.rlim_cur));
	else
		doctor_found(doctor, FINDING_OK, "locked_memory", NULL, "at most %s",
			     units_format_size(text, limit.rlim_cur));
}

/* ---- CPUs ---- */

/* The path of this process in the hierarchy of cgroup v2: the line "0::PATH" of cgroups(7). */
static bool find_cgroup(char path[PATH_MAX])
{
	_autofclose_ FILE *f = fopen("/proc/self/cgroup", "re");

	while (f && fgets(path, PATH_MAX, f)) {
		path[strcspn(path, "\n")] = '\0';
		if (strncmp(path, "0::", 3) != 0)
			continue;
		memmove(path, path + 3, strlen(path) - 2);
		return true;
	}
	return false;
}

/* cpu.max of the cgroup: "QUOTA PERIOD" or "max PERIOD". In percent of a CPU; 0: no limit. */
static unsigned quota_percent(void)
{
	char line[64], path[PATH_MAX];
	unsigned long quota, period;

	if (!find_cgroup(path) ||
	    doctor_read_line(line, sizeof(line), "/sys/fs/cgroup%s/cpu.max", path) < 0 ||
	    sscanf(line, "%lu %lu", &quota, &period) != 2 || !period)
		return 0;
	return (unsigned)(quota * 100 / period);
}

/* A loop that polls uses up the quota soonest, and then the kernel stops it in the midst of I/O. */
static void check_cpus(struct doctor *doctor)
{
	unsigned percent = quota_percent();
	cpu_set_t set;
	int n;

	if (sched_getaffinity(0, sizeof(set), &set) < 0)
		return;
	n = CPU_COUNT(&set);
	if (percent && percent < 100)
		doctor_found(doctor, FINDING_WARNING, "cpus",
			     "raise CPUQuota= of the unit, or the container's limit",
			     "this cgroup may use %u %% of a CPU: I/O stops when that is used up",
			     percent);
	else
		doctor_found(doctor, n > 1 ? FINDING_OK : FINDING_NOTE, "cpus", NULL,
			     "%d usable of %ld", n, sysconf(_SC_NPROCESSORS_ONLN));
}

/* ---- the clock ---- */

/* The log of host and target can be compared only by time. */
static void check_clock(struct doctor *doctor)
{
	struct timex timex = {0};

	if (adjtimex(&timex) == TIME_ERROR)
		doctor_found(doctor, FINDING_NOTE, "clock", "run chrony or systemd-timesyncd",
			     "not synchronised, so the log's times are not those of the target");
	else
		doctor_found(doctor, FINDING_OK, "clock", NULL, "synchronised");
}

/* ---- the run directory ---- */

/* The directory, or the nearest one above it that exists: there the missing ones are made. */
static void existing(char path[PATH_MAX])
{
	while (access(path, F_OK) < 0 && strrchr(path, '/') > path)
		*strrchr(path, '/') = '\0';
}

/* Here the tools find the volume processes; without it attach fails before it connects. */
static void check_run_dir(struct doctor *doctor)
{
	char base[PATH_MAX], path[PATH_MAX];
	int r = run_dir_base(base);

	if (r < 0) {
		doctor_found(doctor, FINDING_PROBLEM, "run_directory",
			     "set RBLK_RUN_DIR to a directory of your own", "%s",
			     r == -ENOENT ? "there is none: neither root nor XDG_RUNTIME_DIR"
					  : "its path is not absolute, or too long");
		return;
	}
	strcpy(path, base);
	existing(path);
	if (access(path, W_OK | X_OK) < 0)
		doctor_found(doctor, FINDING_PROBLEM, "run_directory",
			     "run as root, or set RBLK_RUN_DIR to a directory of your own",
			     "%.500s: %s", path, strerror(errno));
	else
		doctor_found(doctor, FINDING_OK, "run_directory", NULL, "%.500s", base);
}

void doctor_machine(struct doctor *doctor)
{
	doctor->section = "machine";
	check_identity(doctor);
	check_open_files(doctor);
	check_locked_memory(doctor);
	check_cpus(doctor);
	check_clock(doctor);
	check_run_dir(doctor);
}
