/* SPDX-License-Identifier: BSD-3-Clause */
/* The attached volumes, by what their processes say; see doctor.h. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/rpc_client.h"
#include "tools/rblk/doctor/doctor.h"
#include "tools/rblk/doctor/findings.h"
#include "tools/rblk/report.h"
#include "tools/rblk/run_dir.h"
#include "tools/rblk/volumes.h"

enum {
	ANSWER_MS = 3000,
};

/* "reconnecting: the target refuses the connection" */
static void check_state(struct doctor *doctor, struct json_object *status)
{
	const char *name = json_text(status, "name"), *state = json_text(status, "state");
	struct json_object *error = NULL;

	json_object_object_get_ex(status, "last_error", &error);
	if (!strcmp(state, "live"))
		doctor_found(doctor, FINDING_OK, "volume", NULL, "%s is live, %s of %s queues",
			     name, json_text(status, "queues_live"), json_text(status, "queues"));
	else if (!strcmp(state, "unresponsive"))
		doctor_found(doctor, FINDING_PROBLEM, "volume",
			     "look at its process: is it stopped, or traced?",
			     "the process of %s does not answer: %s", name,
			     json_text(status, "reason"));
	else if (!strcmp(state, "left-behind"))
		doctor_found(doctor, FINDING_PROBLEM, "volume",
			     "attach it again, or end the device with rblk detach",
			     "%s of %s has lost its process; its I/O waits",
			     json_text(status, "device"), name);
	else
		doctor_found(doctor, FINDING_PROBLEM, "volume",
			     error ? json_text(error, "hint") : NULL, "%s is %s%s%s", name, state,
			     error ? ": " : "", error ? json_text(error, "message") : "");
}

/* They stay until the volume is detached, because an application may have taken them for a loss. */
static void check_io_errors(struct doctor *doctor, struct json_object *status)
{
	struct json_object *last = NULL;

	if (!json_object_object_get_ex(status, "last_io_error", &last) || !last)
		return;
	doctor_found(doctor, FINDING_WARNING, "io_errors",
		     "look at the target: rblkctl status, rblkctl list namespaces",
		     "%s of %s have failed, the last at %s: %s: %s", json_text(status, "io_errors"),
		     json_text(status, "name"), json_text(last, "time"),
		     json_text(last, "operation"), json_text(last, "error"));
}

/* The kernel marks the name of a program whose file is gone: a package was upgraded, and the volume
 * still runs what was there before. */
static void check_program(struct doctor *doctor, struct json_object *status)
{
	char link[64], path[PATH_MAX];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/%s/exe", json_text(status, "pid"));
	n = readlink(link, path, sizeof(path) - 1);
	if (n < 0)
		return;
	path[n] = '\0';
	if (strstr(path, " (deleted)"))
		doctor_found(doctor, FINDING_WARNING, "program",
			     "systemctl restart rblk-volume@NAME, or detach and attach",
			     "%s still runs the program from before an upgrade",
			     json_text(status, "name"));
}

/* A reconnect is what a volume is made for; many of them say that the network is not well. */
static void check_volume(struct doctor *doctor, struct json_object *status)
{
	check_state(doctor, status);
	check_io_errors(doctor, status);
	if (json_number(status, "reconnects"))
		doctor_found(doctor, FINDING_NOTE, "connection", NULL,
			     "%s has reconnected %s times since it was attached",
			     json_text(status, "name"), json_text(status, "reconnects"));
	check_program(doctor, status);
}

/* ---- processes that have ended ---- */

/* The volume's name, if the file has that suffix. */
static bool is_file_of(const char *file, const char *suffix, char name[VOLUME_NAME_MAX])
{
	const char *at = strrchr(file, '.');

	if (!at || strcmp(at, suffix) != 0 || at - file >= VOLUME_NAME_MAX)
		return false;
	snprintf(name, VOLUME_NAME_MAX, "%.*s", (int)(at - file), file);
	return true;
}

/* A process takes its control socket with it, unless it is killed. */
static void check_killed(struct doctor *doctor, const struct volumes *volumes, const char *name)
{
	struct json_object *status = NULL;
	struct error said;
	char path[PATH_MAX];

	if (run_dir_path(path, name, "sock", &said) == 0 &&
	    rpc_call(path, "status", NULL, ANSWER_MS, &status, &said) == -ECONNREFUSED)
		doctor_found(doctor, FINDING_PROBLEM, "volume",
			     "attach it again; the kernel's log may say what killed it",
			     "the process of %s has not ended in order: was it killed?", name);
	json_object_put(status);
}

/* Writes that were on the wire when a process ended may still land: its successor waits for them.
 * */
static void check_unproven(struct doctor *doctor, const struct volumes *volumes, const char *name)
{
	if (!volumes_find_name(volumes, name))
		doctor_found(
			doctor, FINDING_NOTE, "volume", NULL,
			"old writes of %s may still be under way; it was detached by force, or its process was killed",
			name);
}

/* The directory has other files, too, which are none of volumes. */
static void each_file(struct doctor *doctor, const struct volumes *volumes, const char *suffix,
		      void (*look)(struct doctor *doctor, const struct volumes *volumes,
				   const char *name))
{
	char path[PATH_MAX], name[VOLUME_NAME_MAX];
	struct dirent *entry;
	struct error ignored;
	DIR *dir;

	if (run_dir_path(path, NULL, NULL, &ignored))
		return;
	dir = opendir(path);
	while (dir && (entry = readdir(dir)))
		if (is_file_of(entry->d_name, suffix, name))
			look(doctor, volumes, name);
	if (dir)
		closedir(dir);
}

void doctor_volumes(struct doctor *doctor)
{
	struct volumes volumes;
	struct error error;

	doctor->section = "volumes";
	each_file(doctor, NULL, ".sock", check_killed); /* reading them removes it */
	if (volumes_read(&volumes, &error)) {
		if (error.code != EXIT_PRIVILEGE || doctor->counts[FINDING_PROBLEM] == 0)
			doctor_failed(doctor, FINDING_PROBLEM, "volumes", &error);
		volumes_release(&volumes);
		return;
	}
	volumes_add_left(&volumes);
	for (unsigned i = 0; i < volumes.n; i++)
		check_volume(doctor, volumes_get(&volumes, i));
	each_file(doctor, &volumes, ".fence", check_unproven);
	volumes_release(&volumes);
}
