/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded into rblkd: a folder that cannot be synced. For each byte of the file FOLDER/unsynced
 * one fsync of FOLDER fails with EIO and removes that byte; at the last one the file is removed.
 * The thread "health" saves at times of its own, so its syncs do not fail.
 */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool must_fail(int fd)
{
	char link[64], path[PATH_MAX], name[16] = "";
	struct stat st;
	ssize_t n;

	prctl(PR_GET_NAME, name);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, PATH_MAX - sizeof("/unsynced"));
	if (n <= 0 || !strcmp(name, "health"))
		return false;
	strcpy(path + n, "/unsynced");
	if (stat(path, &st) < 0)
		return false;
	return (st.st_size > 1 ? truncate(path, st.st_size - 1) : unlink(path)) == 0;
}

int fsync(int fd)
{
	if (must_fail(fd)) {
		errno = EIO;
		return -1;
	}
	return (int)syscall(SYS_fsync, fd);
}
