/* SPDX-License-Identifier: BSD-3-Clause */
/* See service.h. systemctl prints the effective values, drop-ins included. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "target/operations/service.h"

enum {
	GROUPS_MAX = 64,
	VALUE_MAX = 1024,
};

/* ---- asking ---- */

static void read_all(int fd, char text[SERVICE_TEXT_MAX])
{
	size_t n = 0;
	ssize_t got;

	while (n < SERVICE_TEXT_MAX - 1) {
		got = read(fd, text + n, SERVICE_TEXT_MAX - 1 - n);
		if (got == 0 || (got < 0 && errno != EINTR))
			break;
		n += got > 0 ? (size_t)got : 0;
	}
	text[n] = '\0';
}

/* Without systemd it fails, and its words do not matter. */
static bool ask_systemctl(char text[SERVICE_TEXT_MAX])
{
	static const char *const argv[] = {
		"systemctl", "show",
		"--property=LoadState,ExecStart,User,Group,SupplementaryGroups,ReadWritePaths,"
		"StateDirectory,ProtectSystem,DevicePolicy,DeviceAllow",
		"rblkd.service", NULL};
	posix_spawn_file_actions_t actions;
	int fds[2], status = -1, r;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return false;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, fds[1], STDOUT_FILENO);
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	r = posix_spawnp(&pid, argv[0], &actions, NULL, (char **)(uintptr_t)argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(fds[1]);
	if (r == 0) {
		read_all(fds[0], text);
		waitpid(pid, &status, 0);
	}
	close(fds[0]);
	return r == 0 && WIFEXITED(status) && !WEXITSTATUS(status);
}

/* The value of the n-th line of a property; false: there are not that many. */
static bool value_of(const struct service *service, const char *name, unsigned n,
		     char ret_value[VALUE_MAX])
{
	const char *line = service->text;
	size_t length = strlen(name);

	for (; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
		if (strncmp(line, name, length) != 0 || line[length] != '=' || n--)
			continue;
		snprintf(ret_value, VALUE_MAX, "%.*s", (int)strcspn(line + length + 1, "\n"),
			 line + length + 1);
		return true;
	}
	ret_value[0] = '\0';
	return false;
}

static bool is_value(const struct service *service, const char *name, const char *wanted)
{
	char value[VALUE_MAX];

	return value_of(service, name, 0, value) && !strcmp(value, wanted);
}

/* ExecStart={ path=/usr/sbin/rblkd ; argv[]=... }: another rblkd than this says nothing of us. */
static bool runs_this_program(const struct service *service)
{
	char value[VALUE_MAX], program[PATH_MAX], self[PATH_MAX], *path;

	if (!value_of(service, "ExecStart", 0, value))
		return false;
	path = strstr(value, "path=");
	if (!path)
		return false;
	path += strlen("path=");
	path[strcspn(path, " ;")] = '\0';
	return realpath(path, program) && realpath("/proc/self/exe", self) &&
	       !strcmp(program, self);
}

bool service_find(struct service *ret_service)
{
	char user[VALUE_MAX];

	*ret_service = (struct service){0};
	if (!ask_systemctl(ret_service->text) || !is_value(ret_service, "LoadState", "loaded") ||
	    !runs_this_program(ret_service))
		return false;
	value_of(ret_service, "User", 0, user);
	snprintf(ret_service->user, sizeof(ret_service->user), "%.63s", *user ? user : "root");
	return true;
}

/* ---- becoming it ---- */

static int fail(struct error *error, enum exit_code code, const char *user, const char *why)
{
	error_set(error, code, NULL, "cannot check as user %.60s: %s", user, why);
	return (int)code;
}

static gid_t group_of(const char *name, gid_t otherwise)
{
	const struct group *group = *name ? getgrnam(name) : NULL;

	return group ? group->gr_gid : otherwise;
}

/* Those of the user, and those that the unit adds: blanks between their names. */
static unsigned list_groups(const struct service *service, const struct passwd *passwd, gid_t main,
			    gid_t groups[GROUPS_MAX])
{
	char value[VALUE_MAX], *next = value, *name;
	int n = GROUPS_MAX / 2;

	if (getgrouplist(passwd->pw_name, main, groups, &n) < 0)
		n = GROUPS_MAX / 2;
	if (!service || !value_of(service, "SupplementaryGroups", 0, value))
		return (unsigned)n;
	while (n < GROUPS_MAX && (name = strsep(&next, " ")))
		groups[n++] = group_of(name, main);
	return (unsigned)n;
}

int service_become(const struct service *service, const char *user, struct error *error)
{
	const struct passwd *passwd = getpwnam(user);
	gid_t groups[GROUPS_MAX], main;
	char value[VALUE_MAX] = "";
	unsigned n;

	if (!passwd)
		return fail(error, EXIT_NOT_FOUND, user, "there is no such user");
	if (geteuid() == passwd->pw_uid)
		return 0;
	if (service && strcmp(service->user, user) != 0)
		service = NULL;
	if (service)
		value_of(service, "Group", 0, value);
	main = group_of(value, passwd->pw_gid);
	n = list_groups(service, passwd, main, groups);
	if (setgroups(n, groups) < 0 || setresgid(main, main, main) < 0 ||
	    setresuid(passwd->pw_uid, passwd->pw_uid, passwd->pw_uid) < 0)
		return fail(error, EXIT_PRIVILEGE, user, strerror(errno));
	return 0;
}

/* ---- its sandbox ---- */

static bool is_below(const char *path, const char *directory)
{
	size_t n = strlen(directory);

	return n && !strncmp(path, directory, n) && (path[n] == '/' || directory[n - 1] == '/');
}

/* Words may begin with the marks of systemd: "-", "+". */
static bool has_directory_of(char *words, const char *prefix, const char *path)
{
	char *word, directory[PATH_MAX];

	while ((word = strsep(&words, " "))) {
		snprintf(directory, sizeof(directory), "%s%s", prefix, word + strspn(word, "-+"));
		if (*word && is_below(path, directory))
			return true;
	}
	return false;
}

bool service_may_write(const struct service *service, const char *path)
{
	char value[VALUE_MAX];

	if (!is_value(service, "ProtectSystem", "strict"))
		return true;
	if (value_of(service, "ReadWritePaths", 0, value) && has_directory_of(value, "", path))
		return true;
	return value_of(service, "StateDirectory", 0, value) &&
	       has_directory_of(value, "/var/lib/", path);
}

/* Any of them: a device has several names, and a rule for some of them is an administrator's. */
bool service_may_have_disks(const struct service *service)
{
	char value[VALUE_MAX];

	if (!is_value(service, "DevicePolicy", "closed") &&
	    !is_value(service, "DevicePolicy", "strict"))
		return true;
	for (unsigned i = 0; value_of(service, "DeviceAllow", i, value); i++)
		if (!strncmp(value, "block-", 6) ||
		    (!strncmp(value, "/dev/", 5) && strncmp(value, "/dev/infiniband/", 16) != 0))
			return true;
	return false;
}
