/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernel detaches an nbd device even while it is mounted, and loses unwritten data. So rblk
 * detach first opens the device exclusively, which fails when the disk or a partition of it is
 * mounted, part of a device-mapper or RAID device, or swap (open(2), O_EXCL without O_CREAT: the
 * kernel keeps one exclusive owner for a block device). The message then names the user of the
 * device, from /proc/self/mounts, /proc/swaps, and the holders in /sys.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <mntent.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tools/rblk/busy.h"
#include "tools/rblk/report.h"

struct text {
	char s[200];
	size_t n;
};

/* Cuts what does not fit: the first users are enough to act on. */
__attribute__((format(printf, 2, 3))) static void add(struct text *text, const char *fmt, ...)
{
	size_t room = sizeof(text->s) - text->n;
	va_list ap;
	int n;

	if (text->n && room > 2) {
		memcpy(text->s + text->n, "; ", 3);
		text->n += 2;
		room -= 2;
	}
	va_start(ap, fmt);
	n = vsnprintf(text->s + text->n, room, fmt, ap);
	va_end(ap);
	text->n += (size_t)n < room ? (size_t)n : room - 1;
}

/* The disk or a partition of it: /dev/nbd0, /dev/nbd0p1, not /dev/nbd01. */
static bool is_part_of(const char *path, const char *device)
{
	size_t n = strlen(device);

	return !strncmp(path, device, n) && (path[n] == '\0' || path[n] == 'p');
}

/* The mounts that this process sees; those of another mount namespace only make it busy. */
static void add_mounts(struct text *text, const char *device)
{
	FILE *f = setmntent("/proc/self/mounts", "re");
	struct mntent *entry;

	while (f && (entry = getmntent(f)))
		if (is_part_of(entry->mnt_fsname, device))
			add(text, "mounted on %s (%s)", entry->mnt_dir, entry->mnt_type);
	if (f)
		endmntent(f);
}

static void add_swaps(struct text *text, const char *device)
{
	_autofclose_ FILE *f = fopen("/proc/swaps", "re");
	char line[256];

	while (f && fgets(line, sizeof(line), f)) {
		line[strcspn(line, " \t")] = '\0';
		if (is_part_of(line, device))
			add(text, "used as swap");
	}
}

/* A holder is a device on top, such as dm-0 or md127. */
static void add_holders_in(struct text *text, const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			add(text, "held by %s", entry->d_name);
	if (dir)
		closedir(dir);
}

/* Adds the holders of the disk, and of its partitions, which are directories in the disk's. */
static void add_holders(struct text *text, const char *disk)
{
	char path[512];
	struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "/sys/block/%s/holders", disk);
	add_holders_in(text, path);
	snprintf(path, sizeof(path), "/sys/block/%s", disk);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		if (strncmp(entry->d_name, disk, strlen(disk)) != 0)
			continue;
		snprintf(path, sizeof(path), "/sys/block/%s/%.200s/holders", disk, entry->d_name);
		add_holders_in(text, path);
	}
	if (dir)
		closedir(dir);
}

int busy_check_and_sync(const char *device, struct error *error)
{
	/* Read-only, although it is flushed: udev probes a device after each close of a writer. */
	_autoclose_ int fd = open(device, O_RDONLY | O_EXCL | O_CLOEXEC);
	struct text text = {0};

	if (fd >= 0 && fsync(fd) == 0)
		return 0;
	if (errno == EROFS || errno == ENOENT || errno == ENXIO) /* nothing of ours to write */
		return 0;
	if (errno != EBUSY) {
		error_set(error, errno == EACCES ? EXIT_PRIVILEGE : EXIT_FAILED,
			  "--force detaches it without", "cannot flush %s: %s", device,
			  strerror(errno));
		return (int)error->code;
	}
	add_mounts(&text, device);
	add_swaps(&text, device);
	add_holders(&text, device + strlen("/dev/"));
	error_set(error, EXIT_BUSY, "unmount it first; --force would lose data", "%s is busy: %s",
		  device, text.n ? text.s : "another program has it for itself");
	return EXIT_BUSY;
}
