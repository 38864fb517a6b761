/* SPDX-License-Identifier: BSD-3-Clause */
/* The run directory; see run_dir.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/run_dir.h"
#include "tools/rblk/report.h"
#include "tools/rblk/run_dir.h"

/* Without a fallback to /tmp: another user could make the directory first, and own the sockets. */
static int find_base(char base[PATH_MAX], struct error *error)
{
	switch (run_dir_base(base)) {
	case 0:
		return 0;
	case -ENOENT:
		error_set(error, EXIT_PRIVILEGE, "set RBLK_RUN_DIR to a directory of your own",
			  "no run directory: neither root nor XDG_RUNTIME_DIR");
		return EXIT_PRIVILEGE;
	default:
		error_set(error, EXIT_USAGE, NULL, "the run directory must be an absolute path");
		return EXIT_USAGE;
	}
}

/* sun_path has 108 bytes; the name of a volume must still fit behind the directory. */
int run_dir_path(char path[PATH_MAX], const char *name, const char *suffix, struct error *error)
{
	char base[PATH_MAX];
	int r = find_base(base, error), n;

	if (r)
		return r;
	n = snprintf(path, PATH_MAX, "%s/volumes%s%s%s%s", base, name ? "/" : "", name ?: "",
		     name ? "." : "", name ? suffix : "");
	if (n < PATH_MAX && (!name || n < (int)sizeof(((struct sockaddr_un *)0)->sun_path)))
		return 0;
	error_set(error, EXIT_USAGE,
		  "set RBLK_RUN_DIR to a shorter path, or choose a shorter --name",
		  "the path of the volume's socket is longer than a socket's path may be");
	return EXIT_USAGE;
}

int run_dir_names(char path[PATH_MAX], struct error *error)
{
	char base[PATH_MAX];
	int r = find_base(base, error);

	if (r == 0)
		snprintf(path, PATH_MAX, "%.4000s/by-uuid", base);
	return r;
}

int run_dir_lock_path(char path[PATH_MAX], struct error *error)
{
	char base[PATH_MAX];
	int r = find_base(base, error);

	if (r == 0)
		snprintf(path, PATH_MAX, "%.4000s/volumes/.lock", base);
	return r;
}

/* One that exists already is as good: another rblk may have made it a moment ago. */
static int make(const char *path, mode_t mode, struct error *error)
{
	if (mkdir(path, mode) == 0 || errno == EEXIST)
		return 0;
	error_set(error, errno == EACCES || errno == EPERM ? EXIT_PRIVILEGE : EXIT_FAILED,
		  errno == EACCES ? "run as root, or set RBLK_RUN_DIR to a directory of your own"
				  : NULL,
		  "cannot make the directory %.150s: %s", path, strerror(errno));
	return (int)error->code;
}

/* Its modes: any user may see the names by UUID; only the owner and its group, the sockets. */
int run_dir_create(struct error *error)
{
	char base[PATH_MAX], path[PATH_MAX];
	int r = find_base(base, error);

	if (r == 0)
		r = run_dir_path(path, NULL, NULL, error);
	if (r == 0)
		r = make(base, 0755, error);
	return r ? r : make(path, 0750, error);
}
