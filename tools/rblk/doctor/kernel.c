/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel of this machine, as far as volumes need it; see doctor.h. Nothing is loaded here. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tools/rblk/doctor/doctor.h"
#include "tools/rblk/doctor/findings.h"
#include "tools/rblk/report.h"
#include "tools/rblk/volumes.h"

/* ---- the nbd driver ---- */

/* Whether modprobe would find the module: its lists have a line "kernel/drivers/block/nbd.ko...". */
static bool is_listed(const char *list)
{
	_autofclose_ FILE *f = NULL;
	char path[sizeof(struct utsname) + 64], line[4096];
	struct utsname uts;

	if (uname(&uts) < 0)
		return false;
	snprintf(path, sizeof(path), "/lib/modules/%s/%s", uts.release, list);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		line[strcspn(line, ":\n")] = '\0';
		if (strstr(line, "/nbd.ko"))
			return true;
	}
	return false;
}

/* A volume works without the driver, so its lack is a note. Only root may command the driver, by
 * netlink. */
static void check_nbd(struct doctor *doctor)
{
	bool is_loaded = !access("/sys/module/nbd", F_OK);

	if (!is_loaded && !is_listed("modules.dep") && !is_listed("modules.builtin"))
		doctor_found(doctor, FINDING_NOTE, "nbd_driver",
			     "install the kernel's extra modules, if a block device is wanted",
			     "this kernel has none: volumes are NBD sockets, without /dev/nbdN");
	else if (geteuid() != 0)
		doctor_found(doctor, FINDING_NOTE, "nbd_driver",
			     "attach as root, if a block device is wanted",
			     "only root may use it: your volumes are NBD sockets");
	else
		doctor_found(doctor, FINDING_OK, "nbd_driver", NULL, "%s",
			     is_loaded ? "loaded" : "there; the first attach loads it");
}

/* ---- the kernel's own NVMe host ---- */

/* The subsystem of "NQN@ADDRESS" or of an attached volume. */
static bool is_used_by_rblk(struct doctor *doctor, const struct volumes *volumes, const char *nqn)
{
	size_t n = strlen(nqn);

	if (doctor->target && !strncmp(doctor->target, nqn, n) && doctor->target[n] == '@')
		return true;
	for (unsigned i = 0; i < volumes->n; i++)
		if (!strcmp(json_text(volumes_get(volumes, i), "subsystem"), nqn))
			return true;
	return false;
}

/* Two block devices for one disk: two page caches, each of which believes that it is alone. */
static void check_nvme_host(struct doctor *doctor)
{
	char nqn[VOLUME_NQN_MAX + 2];
	struct volumes volumes = {0};
	struct dirent *entry;
	struct error ignored;
	DIR *dir = opendir("/sys/class/nvme-subsystem");
	bool has_volumes = dir && volumes_read(&volumes, &ignored) == 0;

	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.' ||
		    doctor_read_line(nqn, sizeof(nqn), "/sys/class/nvme-subsystem/%s/subsysnqn",
				     entry->d_name) < 0 ||
		    !is_used_by_rblk(doctor, &volumes, nqn))
			continue;
		doctor_found(doctor, FINDING_WARNING, "nvme_host",
			     "nvme disconnect -n NQN; or use another subsystem here",
			     "the kernel is connected to %s, too: never mount it twice", nqn);
	}
	if (has_volumes)
		volumes_release(&volumes);
	if (dir)
		closedir(dir);
}

void doctor_kernel(struct doctor *doctor)
{
	doctor->section = "kernel";
	check_nbd(doctor);
	check_nvme_host(doctor);
}
