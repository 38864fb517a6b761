/* SPDX-License-Identifier: BSD-3-Clause */
/* sysfs and device nodes of the kernel's nbd devices; see kernel_device.h. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "nbd_bridge/control/kernel_device.h"

#define QUIET_DEADLINE_NS (5 * NSEC_PER_SEC)
#define QUIET_RETRY_NS	  (20 * NSEC_PER_MSEC)

/* "nbd12" is 12; "nbd0p1", which is not listed there, and anything else is not a device. */
static bool parse_index(const char *name, uint32_t *ret_index)
{
	char *end;
	unsigned long index;

	if (strncmp(name, "nbd", 3) != 0 || !isdigit((unsigned char)name[3]))
		return false;
	errno = 0;
	index = strtoul(name + 3, &end, 10);
	*ret_index = (uint32_t)index;
	return !*end && !errno && index < UINT32_MAX;
}

static bool has_backend(const char *sys_block, uint32_t index, const char *backend)
{
	char path[512], text[64] = "";
	_autofclose_ FILE *f = NULL;

	snprintf(path, sizeof(path), "%s/nbd%u/backend", sys_block, index);
	f = fopen(path, "re");
	if (!f || !fgets(text, sizeof(text), f))
		return false;
	text[strcspn(text, "\n")] = '\0';
	return !strcmp(text, backend);
}

/* The file pid is there from CONNECT until the last connection of a detached device is gone. */
static bool is_connected(const char *sys_block, uint32_t index)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/nbd%u/pid", sys_block, index);
	return access(path, F_OK) == 0;
}

int kernel_device_find(const char *sys_block, const char *backend, uint32_t *ret_index)
{
	uint32_t index, best = UINT32_MAX;
	struct dirent *entry;
	DIR *dir = opendir(sys_block);

	while (dir && (entry = readdir(dir)))
		if (parse_index(entry->d_name, &index) && has_backend(sys_block, index, backend) &&
		    is_connected(sys_block, index))
			best = MIN(best, index);
	if (dir)
		closedir(dir);
	if (best == UINT32_MAX)
		return -ENOENT;
	*ret_index = best;
	return 0;
}

void kernel_device_set(uint32_t index, const char *setting, const char *value)
{
	char path[96];
	_autoclose_ int fd = -1;

	snprintf(path, sizeof(path), KERNEL_SYS_BLOCK "/nbd%u/queue/%s", index, setting);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, value, strlen(value)) < 0)
		log_debug("%s: cannot write '%s': %s", path, value, strerror(errno));
}

/* udev holds a shared lock on a disk while it probes it, and does not probe a locked one. The
 * device is opened read-only: udev probes again after each close of a writer. */
int kernel_device_quiet(uint32_t index)
{
	uint64_t deadline = clock_ns() + QUIET_DEADLINE_NS;
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/dev/nbd%u", index);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK &&
	       clock_ns() < deadline)
		clock_sleep_ns(QUIET_RETRY_NS);
	return fd;
}
