/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small files that must survive any crash: written under another name, synced, renamed, and the
 * directory synced. After a crash there is the old file or the new one, never a part. Worker
 * threads write; the control thread reads at start. A lock on the directory reserves it for one
 * rblkd.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "target/export/state_file.h"
#include "base/error.h"

enum {
	NAME_BYTES = 96,
};

struct state_directory {
	int fd, lock_fd; /* owned */
	char path[];
};

/* A separate file, because another program may lock the directory itself. */
static int take_lock(int dirfd)
{
	int fd = openat(dirfd, ".lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) == 0)
		return fd;
	close(fd);
	return -EBUSY;
}

/* -1 as the lock: none is wanted. */
static int open_all(struct state_directory *directory, bool has_lock)
{
	directory->lock_fd = -1;
	directory->fd = open(directory->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (directory->fd < 0)
		return -errno;
	if (!has_lock)
		return faccessat(directory->fd, ".", W_OK, AT_EACCESS) < 0 ? -errno : 0;
	directory->lock_fd = take_lock(directory->fd);
	return directory->lock_fd < 0 ? directory->lock_fd : 0;
}

static struct state_directory *open_directory(const char *path, bool has_lock, struct error *error)
{
	struct state_directory *directory = malloc(sizeof(*directory) + strlen(path) + 1);
	int r;

	if (!directory) {
		error_refuse(error, -ENOMEM, "out of memory");
		return NULL;
	}
	strcpy(directory->path, path);
	r = open_all(directory, has_lock);
	if (r == 0)
		return directory;
	if (r == -EBUSY)
		error_refuse(error, r, "%s: another rblkd uses this directory: choose another",
			     path);
	else
		error_refuse(error, r, "%s: %s: it must be a directory that rblkd may write to",
			     path, strerror(-r));
	state_directory_close(directory);
	return NULL;
}

struct state_directory *state_directory_open(const char *path, struct error *error)
{
	return open_directory(path, true, error);
}

struct state_directory *state_directory_open_shared(const char *path, struct error *error)
{
	return open_directory(path, false, error);
}

void state_directory_close(struct state_directory *directory)
{
	if (!directory)
		return;
	if (directory->fd >= 0)
		close(directory->fd);
	if (directory->lock_fd >= 0)
		close(directory->lock_fd);
	free(directory);
}

const char *state_directory_path(const struct state_directory *directory)
{
	return directory->path;
}

/* ---- writing -------------------------------------------------------------------------------- */

static int write_all(int fd, const char *text, size_t n)
{
	while (n) {
		ssize_t r = write(fd, text, n);

		if (r < 0 && errno != EINTR)
			return -errno;
		if (r > 0) {
			text += r;
			n -= (size_t)r;
		}
	}
	return fsync(fd) < 0 ? -errno : 0;
}

static int write_aside(int dirfd, const char *aside, const char *text, size_t n)
{
	int fd = openat(dirfd, aside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	int r;

	if (fd < 0)
		return -errno;
	r = write_all(fd, text, n);
	if (close(fd) < 0 && r == 0)
		r = -errno;
	return r;
}

static int remove_file(int dirfd, const char *name)
{
	return unlinkat(dirfd, name, 0) < 0 && errno != ENOENT ? -errno : 0;
}

/* Not durable until the directory is synced. */
static int change(int dirfd, const char *name, const char *text, size_t n)
{
	char aside[NAME_BYTES];
	int r;

	check(strlen(name) + sizeof(".new") <= sizeof(aside));
	if (!text)
		return remove_file(dirfd, name);
	snprintf(aside, sizeof(aside), "%s.new", name);
	r = write_aside(dirfd, aside, text, n);
	if (r == 0 && renameat(dirfd, aside, dirfd, name) < 0)
		r = -errno;
	if (r < 0)
		unlinkat(dirfd, aside, 0);
	return r;
}

int state_file_write(const struct state_directory *directory, const char *name, const char *text,
		     size_t n, bool *ret_is_old)
{
	int r = n > STATE_FILE_MAX ? -EFBIG : change(directory->fd, name, text, n);

	if (ret_is_old)
		*ret_is_old = r < 0;
	if (r == 0 && fsync(directory->fd) < 0)
		r = -errno;
	return r;
}

void state_file_set_aside(const struct state_directory *directory, const char *name,
			  const char *lost)
{
	char aside[NAME_BYTES];
	bool is_kept;

	snprintf(aside, sizeof(aside), "%s.damaged", name);
	is_kept = renameat(directory->fd, name, directory->fd, aside) == 0;
	log_err("%s/%s is damaged: %s; %s%s", directory->path, name, lost,
		is_kept ? "it is kept as " : "it cannot be renamed: ",
		is_kept ? aside : strerror(errno));
}

/* ---- reading -------------------------------------------------------------------------------- */

static int read_all(int fd, char **ret_text)
{
	struct stat st;
	size_t n = 0;
	char *text;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size > STATE_FILE_MAX)
		return -EFBIG;
	text = malloc((size_t)st.st_size + 1);
	if (!text)
		return -ENOMEM;
	while (n < (size_t)st.st_size) {
		ssize_t r = read(fd, text + n, (size_t)st.st_size - n);

		if (r <= 0 && !(r < 0 && errno == EINTR)) {
			free(text);
			return r < 0 ? -errno : -EIO;
		}
		n += r > 0 ? (size_t)r : 0;
	}
	text[n] = '\0';
	*ret_text = text;
	return 0;
}

int state_file_read(const struct state_directory *directory, const char *name, char **ret_text)
{
	int fd = openat(directory->fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	int r;

	*ret_text = NULL;
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	r = read_all(fd, ret_text);
	close(fd);
	return r;
}

/* ---- listing -------------------------------------------------------------------------------- */

static bool ends_with(const char *name, const char *end)
{
	size_t n = strlen(name), n_end = strlen(end);

	return n >= n_end && !strcmp(name + n - n_end, end);
}

static bool is_listed(const char *name, const char *prefix)
{
	return name[0] != '.' && !strncmp(name, prefix, strlen(prefix)) &&
	       !ends_with(name, ".new") && !ends_with(name, ".damaged");
}

static int list_names(DIR *dir, const char *prefix, unsigned n_max, FILE *f)
{
	const struct dirent *entry;

	errno = 0;
	while ((entry = readdir(dir))) {
		if (!is_listed(entry->d_name, prefix))
			continue;
		if (!n_max--)
			return -E2BIG;
		fprintf(f, "%s\n", entry->d_name);
		errno = 0;
	}
	return -errno;
}

int state_file_list(const struct state_directory *directory, const char *prefix, unsigned n_max,
		    char **ret_text)
{
	int fd = openat(directory->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	size_t n_bytes;
	FILE *f;

	*ret_text = NULL;
	if (!dir) {
		r = -errno;
		if (fd >= 0)
			close(fd);
		return r;
	}
	f = open_memstream(ret_text, &n_bytes);
	r = f ? list_names(dir, prefix, n_max, f) : -ENOMEM;
	closedir(dir);
	if (f && fclose(f) < 0 && r == 0)
		r = -ENOMEM;
	if (r < 0) {
		free(*ret_text);
		*ret_text = NULL;
	}
	return r;
}
