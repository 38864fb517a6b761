/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The attached volumes: one for each control socket that answers. A socket without a listener was
 * left by a process that died; it and its NBD socket are removed here. A process that listens but
 * does not answer in time is shown with the state "unresponsive", and a block device that a dead
 * process left with "left-behind".
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/check.h"
#include "base/cleanup.h"
#include "base/rpc_client.h"
#include "base/units.h"
#include "tools/rblk/left.h"
#include "tools/rblk/report.h"
#include "tools/rblk/run_dir.h"
#include "tools/rblk/target_name.h"
#include "tools/rblk/volumes.h"

enum {
	STATUS_TIMEOUT_MS = 3000,
};

/* The volume's name when the file is a control socket. */
static bool name_of(const char *file, char name[VOLUME_NAME_MAX])
{
	const char *suffix = strrchr(file, '.');

	if (!suffix || strcmp(suffix, ".sock") != 0 || suffix - file >= VOLUME_NAME_MAX)
		return false;
	snprintf(name, VOLUME_NAME_MAX, "%.*s", (int)(suffix - file), file);
	return volume_name_is_valid(name);
}

/* The socket of a process that is starting exists before it listens. So a socket without a listener
 * is checked again under the lock that such a process holds. */
static void remove_leftovers(const char *name, const char *control_path)
{
	struct error ignored;
	struct error said;
	struct json_object *status = NULL;
	char path[PATH_MAX];
	_autoclose_ int lock = -1;

	if (run_dir_lock_path(path, &ignored))
		return;
	lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (lock < 0 || flock(lock, LOCK_EX) < 0)
		return;
	if (rpc_call(control_path, "status", NULL, STATUS_TIMEOUT_MS, &status, &said) ==
	    -ECONNREFUSED) {
		unlink(control_path);
		if (run_dir_path(path, name, "nbd", &ignored) == 0)
			unlink(path);
	}
	json_object_put(status);
}

/* A status like any other, as far as it is known: callers need no special case. */
static struct json_object *unresponsive(const char *name, const char *why)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "schema", json_object_new_int(1));
	json_object_object_add(o, "name", json_object_new_string(name));
	json_object_object_add(o, "state", json_object_new_string("unresponsive"));
	json_object_object_add(o, "reason", json_object_new_string(why));
	return o;
}

/* NULL: there is no such volume, or no more. A process that ended in between is not an error. */
struct json_object *volumes_ask(const char *name)
{
	struct json_object *status = NULL;
	struct error ignored;
	struct error error = {0};
	char path[PATH_MAX];
	int r;

	if (run_dir_path(path, name, "sock", &ignored))
		return NULL;
	r = rpc_call(path, "status", NULL, STATUS_TIMEOUT_MS, &status, &error);
	if (r == 0)
		return status;
	if (r == -ECONNREFUSED)
		remove_leftovers(name, path);
	if (r == -ECONNREFUSED || r == -ENOENT)
		return NULL;
	return unresponsive(name, r == -EREMOTEIO ? error.message : strerror(-r));
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(json_text(*(struct json_object *const *)a, "name"),
		      json_text(*(struct json_object *const *)b, "name"));
}

/* readdir has no order; a list that changes its order between two calls cannot be compared. */
int volumes_read(struct volumes *volumes, struct error *error)
{
	char path[PATH_MAX], name[VOLUME_NAME_MAX];
	struct dirent *entry;
	DIR *dir;
	int r = run_dir_path(path, NULL, NULL, error);

	*volumes = (struct volumes){.array = json_object_new_array()};
	if (r)
		return r;
	dir = opendir(path);
	if (!dir && errno != ENOENT) {
		error_set(error, EXIT_PRIVILEGE, "run as the user of the attached volumes",
			  "cannot read %.150s: %s", path, strerror(errno));
		return EXIT_PRIVILEGE;
	}
	while (dir && (entry = readdir(dir))) {
		struct json_object *status = name_of(entry->d_name, name) ? volumes_ask(name)
									  : NULL;

		if (status)
			json_object_array_add(volumes->array, status);
	}
	if (dir)
		closedir(dir);
	json_object_array_sort(volumes->array, compare_names);
	volumes->n = (unsigned)json_object_array_length(volumes->array);
	return 0;
}

/* Looks like a status, with the few members that a name by UUID tells; list and status show it. */
void volumes_add_left(struct volumes *volumes)
{
	struct left_device left;
	char device[32], uuid[UUID_STR_LEN];

	for (unsigned i = 0; left_get(i, &left); i++) {
		struct json_object *o = json_object_new_object();

		snprintf(device, sizeof(device), "/dev/nbd%u", left.index);
		uuid_unparse_lower(left.uuid, uuid);
		json_object_object_add(o, "schema", json_object_new_int(1));
		json_object_object_add(o, "name", json_object_new_string(left.volume));
		json_object_object_add(o, "state", json_object_new_string("left-behind"));
		json_object_object_add(
			o, "reason",
			json_object_new_string("its process is gone; attach it again"));
		json_object_object_add(o, "device", json_object_new_string(device));
		json_object_object_add(o, "uuid", json_object_new_string(uuid));
		json_object_array_add(volumes->array, o);
	}
	json_object_array_sort(volumes->array, compare_names);
	volumes->n = (unsigned)json_object_array_length(volumes->array);
}

void volumes_release(struct volumes *volumes)
{
	json_object_put(volumes->array);
}

struct json_object *volumes_get(const struct volumes *volumes, unsigned i)
{
	check(i < volumes->n);
	return json_object_array_get_idx(volumes->array, i);
}

/* ---- finding ------------------------------------------------------------------------------- */

/* 192.0.2.1 means 192.0.2.1:4420. */
static bool is_same_address(const char *text, const char *address)
{
	union addr a, b;

	return addr_parse_with_port(text, TARGET_DEFAULT_PORT, &a) == 0 &&
	       addr_parse_with_port(address, TARGET_DEFAULT_PORT, &b) == 0 && addr_is_equal(&a, &b);
}

/* NQN, NQN/NSID, NQN@ADDRESS or NQN@ADDRESS/NSID, as the user typed it to attach. */
static bool is_meant_by_nqn(struct json_object *status, const char *text)
{
	char nqn[VOLUME_NQN_MAX + 128];
	char *slash, *at;

	if (strncmp(text, "nqn.", 4) != 0 || strlen(text) >= sizeof(nqn))
		return false;
	strcpy(nqn, text);
	slash = strrchr(nqn, '/');
	if (slash) {
		uint64_t nsid;

		if (units_parse_uint(slash + 1, &nsid) < 0 || nsid != json_number(status, "nsid"))
			return false;
		*slash = '\0';
	}
	at = strrchr(nqn, '@');
	if (at) {
		*at = '\0';
		if (!is_same_address(at + 1, json_text(status, "address")))
			return false;
	}
	return !strcmp(nqn, json_text(status, "subsystem"));
}

/* Whatever `rblk list` prints of a volume names it. */
static bool is_meant(struct json_object *status, const char *text)
{
	return !strcmp(text, json_text(status, "name")) ||
	       (*json_text(status, "device") && !strcmp(text, json_text(status, "device"))) ||
	       (*json_text(status, "uri") && !strcmp(text, json_text(status, "uri"))) ||
	       (*json_text(status, "socket") && !strcmp(text, json_text(status, "socket"))) ||
	       is_meant_by_nqn(status, text);
}

static bool is_of_ns(struct json_object *status, uint32_t nsid)
{
	return !nsid || nsid == json_number(status, "nsid");
}

/* An exact name wins over all other meanings; of those, two volumes make the word ambiguous. */
struct json_object *volumes_find(const struct volumes *volumes, const char *text, uint32_t nsid,
				 struct error *error)
{
	struct json_object *found = volumes_find_name(volumes, text);
	char number[32] = "";

	if (found && !is_of_ns(found, nsid))
		found = NULL;

	for (unsigned i = 0; i < volumes->n && !(found && !strcmp(json_text(found, "name"), text));
	     i++) {
		struct json_object *status = volumes_get(volumes, i);

		if (!is_meant(status, text) || !is_of_ns(status, nsid))
			continue;
		if (found) {
			error_set(error, EXIT_USAGE, "give the name of one of them, or its --ns",
				  "'%.120s' means several volumes: %.40s, %.40s", text,
				  json_text(found, "name"), json_text(status, "name"));
			return NULL;
		}
		found = status;
	}
	if (nsid)
		snprintf(number, sizeof(number), " with namespace %u", nsid);
	if (!found)
		error_set(error, EXIT_NOT_FOUND, "`rblk list` shows what is attached",
			  "no volume '%.190s'%s is attached", text, number);
	return found;
}

int volumes_find_socket(const char *text, char name[VOLUME_NAME_MAX], char path[PATH_MAX],
			struct error *error)
{
	struct json_object *status = NULL;
	struct volumes volumes;
	int code = volumes_read(&volumes, error);

	if (code == 0) {
		status = volumes_find(&volumes, text, 0, error);
		code = status ? run_dir_path(path, json_text(status, "name"), "sock", error)
			      : (int)error->code;
	}
	if (code == 0)
		snprintf(name, VOLUME_NAME_MAX, "%s", json_text(status, "name"));
	volumes_release(&volumes);
	return code;
}

struct json_object *volumes_find_name(const struct volumes *volumes, const char *name)
{
	for (unsigned i = 0; i < volumes->n; i++)
		if (!strcmp(name, json_text(volumes_get(volumes, i), "name")))
			return volumes_get(volumes, i);
	return NULL;
}

/* The address, as a status has it, is that of one of the paths of config. */
static bool has_address(const struct volume_config *config, const char *text)
{
	union addr address;

	if (addr_parse_with_port(text, TARGET_DEFAULT_PORT, &address) < 0)
		return false;
	if (addr_is_equal(&address, &config->address))
		return true;
	for (unsigned i = 0; i < config->n_others; i++)
		if (addr_is_equal(&address, &config->others[i]))
			return true;
	return false;
}

/* By any path of the volume: two volumes of one namespace would not know of each other's writes. */
static bool has_path_of(struct json_object *status, const struct volume_config *config)
{
	struct json_object *paths = NULL;

	if (has_address(config, json_text(status, "address")))
		return true;
	/* a process of an older version reports none */
	if (!json_object_object_get_ex(status, "path_list", &paths) || !paths)
		return false;
	for (unsigned i = 0; i < json_object_array_length(paths); i++)
		if (has_address(config, json_text(json_object_array_get_idx(paths, i), "address")))
			return true;
	return false;
}

struct json_object *volumes_find_same(const struct volumes *volumes,
				      const struct volume_config *config)
{
	for (unsigned i = 0; i < volumes->n; i++) {
		struct json_object *status = volumes_get(volumes, i);

		if (!strcmp(config->subnqn, json_text(status, "subsystem")) &&
		    has_path_of(status, config) && config->nsid == json_number(status, "nsid"))
			return status;
	}
	return NULL;
}

/* ---- printing ------------------------------------------------------------------------------- */

const char *volume_where(struct json_object *status)
{
	const char *device = json_text(status, "device"), *uri = json_text(status, "uri");

	return *device ? device : *uri ? uri : "-";
}

bool volume_holds_io(struct json_object *status)
{
	const char *state = json_text(status, "state");

	return !strcmp(state, "reconnecting") || !strcmp(state, "denied") || !strcmp(state, "gone");
}

/* attach and serve print this line; scripts take its first word. */
void volume_print_line(struct json_object *status)
{
	char size[UNITS_MAX];

	printf("%s  %s  %s  %s/%u  paths %u/%u\n", volume_where(status), json_text(status, "name"),
	       units_format_size(size, json_number(status, "size_bytes")),
	       json_text(status, "subsystem"), (unsigned)json_number(status, "nsid"),
	       (unsigned)json_number(status, "paths_live"), (unsigned)json_number(status, "paths"));
}
