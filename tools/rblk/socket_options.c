/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The options of a volume on its NBD clients: where they reach it, and which of them may, by the
 * owner and the mode of the unix socket. Part of volume_options.c, and with its rule: what is wrong
 * is found before a process exists.
 */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/units.h"
#include "tools/rblk/run_dir.h"
#include "tools/rblk/socket_options.h"

/* Octal, as chmod(1) takes it: a decimal 660 would open the socket to the wrong users. */
static int apply_mode(const struct volume_options *o, struct frontend_socket_config *sockets,
		      struct error *error)
{
	char *end;
	unsigned long mode = strtoul(o->socket_mode, &end, 8);

	if (*end || end == o->socket_mode || mode > 0777) {
		error_set(error, EXIT_USAGE, NULL,
			  "--socket-mode: '%.20s' is not an octal number like 0660",
			  o->socket_mode);
		return EXIT_USAGE;
	}
	sockets->mode = (mode_t)mode;
	return 0;
}

/* An option of earlier versions, in scripts and volume files: its users hear how to go on. */
static int refuse_listen(const struct volume_options *o, struct error *error)
{
	if (!o->listen)
		return 0;
	error_set(
		error, EXIT_USAGE,
		"nbdkit --tls=require --tls-certificates=DIR rblk uri=nvme+rdma://ADDRESS/NQN?ns=NSID",
		"--listen: rblk serves NBD on this machine only, nbdkit serves it over TCP");
	return EXIT_USAGE;
}

/* A name, or a number as chown(1) takes it. */
static int apply_owner(const struct volume_options *o, struct frontend_socket_config *sockets,
		       struct error *error)
{
	const struct passwd *user = o->socket_owner ? getpwnam(o->socket_owner) : NULL;
	const struct group *group = o->socket_group ? getgrnam(o->socket_group) : NULL;
	uint64_t id;

	sockets->owner = (uid_t)-1;
	sockets->group = (gid_t)-1;
	if (user) {
		sockets->owner = user->pw_uid;
	} else if (o->socket_owner) {
		if (units_parse_uint(o->socket_owner, &id) < 0 || id >= UINT32_MAX) {
			error_set(error, EXIT_USAGE, NULL,
				  "--socket-owner: there is no user '%.60s'", o->socket_owner);
			return EXIT_USAGE;
		}
		sockets->owner = (uid_t)id;
	}
	if (group) {
		sockets->group = group->gr_gid;
	} else if (o->socket_group) {
		if (units_parse_uint(o->socket_group, &id) < 0 || id >= UINT32_MAX) {
			error_set(error, EXIT_USAGE, NULL,
				  "--socket-group: there is no group '%.60s'", o->socket_group);
			return EXIT_USAGE;
		}
		sockets->group = (gid_t)id;
	}
	return 0;
}

int socket_options_apply(struct volume_options *o, struct bridge_config *config,
			 struct error *error)
{
	return apply_mode(o, &config->sockets, error) ?: apply_owner(o, &config->sockets, error)
	       ?: refuse_listen(o, error);
}

/* ---- the NBD socket ---- */

/* The process may change its directory, and removes the socket by this name at its end. */
static int make_absolute(const char *path, char absolute[PATH_MAX], struct error *error)
{
	char here[PATH_MAX] = "";
	int n;

	if (path[0] != '/' && !getcwd(here, sizeof(here)))
		here[0] = '\0';
	n = snprintf(absolute, PATH_MAX, "%s%s%s", here, *here ? "/" : "", path);
	if (n < (int)sizeof(((struct sockaddr_un *)0)->sun_path))
		return 0;
	error_set(error, EXIT_USAGE, NULL, "--socket: the path is longer than a socket's may be");
	return EXIT_USAGE;
}

/* bind() would report both as errors of the volume process, after it has connected. A socket that
 * exists is replaced only if no process listens on it: the process decides that under its lock. */
static int check_socket(const char *path, struct error *error)
{
	const char *slash = strrchr(path, '/');
	char directory[PATH_MAX];
	struct stat st;

	if (stat(path, &st) == 0 && !S_ISSOCK(st.st_mode)) {
		error_set(error, EXIT_USAGE, "remove it, or name another path",
			  "--socket: %.200s exists, and is no socket", path);
		return EXIT_USAGE;
	}
	snprintf(directory, sizeof(directory), "%.*s", (int)(slash - path) + 1, path);
	if (stat(directory, &st) == 0 && S_ISDIR(st.st_mode))
		return 0;
	error_set(error, EXIT_USAGE, "make it first, or name another path",
		  "--socket: there is no directory %.200s", directory);
	return EXIT_USAGE;
}

int volume_options_socket(struct volume_options *o, struct bridge_config *config,
			  struct error *error)
{
	int r;

	if (o->socket_path)
		r = make_absolute(o->socket_path, o->socket, error)
			    ?: check_socket(o->socket, error);
	else
		r = run_dir_path(o->socket, config->name, "nbd", error);
	config->sockets.path = o->socket;
	return r;
}
