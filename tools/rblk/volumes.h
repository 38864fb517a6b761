/* SPDX-License-Identifier: BSD-3-Clause */
/* The attached volumes: their status, from their control sockets. Calls block. Thread: main. */
#pragma once

#include <limits.h>
#include <json-c/json.h>

#include "initiator/control/volume.h"
#include "tools/rblk/target_name.h"

struct volumes {
	struct json_object *array; /* owned: a status object each, by name */
	unsigned n;
};

/* The status of the volume process of this name, owned by the caller; one that does not answer has
 * a status that tells so. NULL: there is none. */
struct json_object *volumes_ask(const char *name);
/* Requests the status of every volume process; removes the sockets of dead ones. 0, or an exit code
 * with *error filled. */
int volumes_read(struct volumes *volumes, struct error *error);
/* Adds the block devices that processes which ended have left behind. */
void volumes_add_left(struct volumes *volumes);
void volumes_release(struct volumes *volumes);
struct json_object *volumes_get(const struct volumes *volumes, unsigned i); /* borrowed */

/* The volume that text names: its name, device, NBD URI or socket, NQN, NQN@ADDRESS[:PORT], each
 * with "/NSID" or without; of namespace nsid, unless it is 0. Borrowed; NULL with *error filled
 * when there is none, or several. */
struct json_object *volumes_find(const struct volumes *volumes, const char *text, uint32_t nsid,
				 struct error *error);
/* Its name, and its control socket, as a path. 0, or an exit code with *error filled. */
int volumes_find_socket(const char *text, char name[VOLUME_NAME_MAX], char path[PATH_MAX],
			struct error *error);
/* The one attached to this namespace through any of these addresses; NULL. */
struct json_object *volumes_find_same(const struct volumes *volumes,
				      const struct volume_config *config);
struct json_object *volumes_find_name(const struct volumes *volumes, const char *name);

/* The device, or the URI where there is none. */
const char *volume_where(struct json_object *status);
/* It waits for its target, or for the target to serve it again. */
bool volume_holds_io(struct json_object *status);
/* "/dev/nbd0  db  100GiB  nqn...:db/1  paths 1/1" */
void volume_print_line(struct json_object *status);
