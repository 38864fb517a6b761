/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Block devices that their volume processes left behind; see left.h.
 *
 * A volume process owns a name, which is a file by UUID in the run directory, as long as it holds a
 * lock on that file. The kernel drops the lock with the process, however it ends. So a name without
 * a lock whose device still exists is a device without a server.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "nbd_bridge/control/kernel_device.h"
#include "nbd_bridge/control/kernel_name.h"
#include "nbd_bridge/control/kernel_nbd.h"
#include "tools/rblk/left.h"
#include "tools/rblk/report.h"
#include "tools/rblk/run_dir.h"

/* Anything else in the directory is skipped: it is not ours to judge. */
static bool is_left(const char *directory, const char *file, struct left_device *device)
{
	struct kernel_name_content content;
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%.3800s/%.255s", directory, file);
	if (uuid_parse(file, device->uuid) < 0 || kernel_name_is_owned(path, &content))
		return false;
	snprintf(device->volume, sizeof(device->volume), "%s", content.volume);
	return kernel_device_find(KERNEL_SYS_BLOCK, file, &device->index) == 0;
}

bool left_get(unsigned n, struct left_device *ret_device)
{
	struct error ignored;
	char directory[PATH_MAX];
	struct dirent *entry;
	bool is_found = false;
	DIR *dir;

	if (run_dir_names(directory, &ignored))
		return false;
	dir = opendir(directory);
	while (dir && !is_found && (entry = readdir(dir)))
		is_found = is_left(directory, entry->d_name, ret_device) && n-- == 0;
	if (dir)
		closedir(dir);
	return is_found;
}

bool left_find(const char *what, struct left_device *ret_device)
{
	char path[32];

	for (unsigned i = 0; left_get(i, ret_device); i++) {
		snprintf(path, sizeof(path), "/dev/nbd%u", ret_device->index);
		if (!strcmp(what, ret_device->volume) || !strcmp(what, path))
			return true;
	}
	return false;
}

/* Takes the name first: an attach that comes at the same time either has it, or waits for it. The
 * kernel fails the I/O that the device holds. */
int left_end(const struct left_device *device, struct error *error)
{
	struct kernel_name_content content;
	struct kernel_name name = {.fd = -1};
	struct kernel_nbd nbd = {0};
	char directory[PATH_MAX];
	int r = run_dir_names(directory, error);

	if (r)
		return r;
	r = kernel_name_take(&name, directory, device->uuid, &content);
	if (r == 0)
		r = kernel_nbd_open(&nbd);
	if (r == 0)
		r = kernel_nbd_disconnect(&nbd, device->index);
	kernel_nbd_close(&nbd);
	kernel_name_release(&name, r == 0);
	if (r == 0)
		return 0;
	error_set(error, r == -EPERM ? EXIT_PRIVILEGE : EXIT_FAILED, NULL,
		  "cannot end /dev/nbd%u: %s", device->index, strerror(-r));
	return (int)error->code;
}
