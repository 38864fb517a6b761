/* SPDX-License-Identifier: BSD-3-Clause */
/* See inherit.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/log.h"
#include "target/association/portal.h"
#include "target/operations/change/ana_change.h"
#include "target/operations/succession/restore.h"
#include "transport/wire/strings.h"

/* ---- parcels --------------------------------------------------------------------------------- */

static char *read_text(int fd)
{
	struct stat st;
	char *text;

	if (fstat(fd, &st) < 0 || st.st_size > HANDOVER_BYTES_MAX)
		return NULL;
	text = calloc(1, (size_t)st.st_size + 1);
	for (off_t at = 0; text && at < st.st_size;) {
		ssize_t n = pread(fd, text + at, (size_t)(st.st_size - at), at);

		if (n <= 0)
			break;
		at += n;
	}
	return text;
}

static int add_memory(struct handover_parts *parts, struct message *message)
{
	int *more = realloc(parts->memory, (parts->n_memory + message->n_fds) * sizeof(int));

	if (!more)
		return -ENOMEM;
	parts->memory = more;
	memcpy(more + parts->n_memory, message->fds, message->n_fds * sizeof(int));
	parts->n_memory += message->n_fds;
	message->n_fds = 0;
	return 0;
}

int parts_add(struct handover_parts *parts, struct message *message)
{
	int r = 0;

	if (message->word == MESSAGE_MEMORY && message->n_fds)
		r = add_memory(parts, message);
	while (message->n_fds) {
		int fd = message->fds[--message->n_fds];

		free(parts->text);
		parts->text = read_text(fd);
		close(fd);
	}
	return r;
}

int parts_open(struct handover_parts *parts, struct handover *ret_handover)
{
	int r = -ENOENT;

	if (parts->text) {
		r = handover_read(parts->text, parts->memory, parts->n_memory, ret_handover);
		parts->n_memory = 0;
	}
	parts_free(parts);
	if (r == -ENOENT)
		log_warn("upgrade: nothing is left of the rblkd before this one but its stores");
	else if (r < 0)
		log_errno(r, "upgrade: cannot read what the rblkd before this one has left");
	return r;
}

void parts_free(struct handover_parts *parts)
{
	while (parts->n_memory)
		close(parts->memory[--parts->n_memory]);
	free(parts->memory);
	free(parts->text);
	*parts = (struct handover_parts){0};
}

/* ---- settings -------------------------------------------------------------------------------- */

/* PORTALS_MAX: there is none. */
static unsigned find_portal(const struct target *target, const char *name)
{
	unsigned i = 0;

	while (i < PORTALS_MAX &&
	       (!portal_is_used(&target->portals[i]) || strcmp(target->portals[i].name, name) != 0))
		i++;
	return i;
}

static void set_ana(struct target *target, struct json_object *o)
{
	struct json_object *nqn, *id, *portal, *state;
	const struct subsystem *subsystem;
	const struct ana *ana;
	unsigned at, group, n_told;

	if (!json_get(o, "subsystem", json_type_string, &nqn) ||
	    !json_get(o, "group", json_type_int, &id) ||
	    !json_get(o, "portal", json_type_string, &portal) ||
	    !json_get(o, "state", json_type_int, &state))
		return;
	subsystem = snapshot_find(atomic_load(&target->snapshot), json_object_get_string(nqn));
	ana = subsystem ? atomic_load(&subsystem->ana) : NULL;
	group = ana ? ana_find(ana, json_object_get_uint64(id)) : (unsigned)ANA_GROUPS_MAX;
	at = find_portal(target, json_object_get_string(portal));
	if (group < ANA_GROUPS_MAX && ana->groups[group].owner == ANA_OWNER_ALWAYS &&
	    at < PORTALS_MAX &&
	    strcmp(nvme_ana_state_string((unsigned)json_object_get_int(state)), "unknown") != 0)
		(void)ana_change(target, subsystem->nqn, group, 1U << at,
				 (enum nvme_ana_state)json_object_get_int(state), &n_told);
}

static void set_drained(struct target *target, struct json_object *name)
{
	unsigned at = json_object_is_type(name, json_type_string)
			      ? find_portal(target, json_object_get_string(name))
			      : (unsigned)PORTALS_MAX;

	if (at < PORTALS_MAX)
		portal_close_drained(&target->portals[at]);
}

/* Numbers go on: no host has two controllers of one id while both processes have some. */
static void set_last_id(struct target *target, uint64_t last)
{
	const struct config_controller_ids *ids = &target->config->controller_ids;

	if (last >= ids->min && last <= ids->max)
		target->last_cntlid = (uint16_t)last;
}

void restore_settings(struct target *target, const struct handover *handover)
{
	struct json_object *list;
	size_t n;

	set_last_id(target, handover_number(handover, "last_cntlid"));
	n = json_get(handover->json, "ana", json_type_array, &list) ? json_object_array_length(list)
								    : 0;
	for (size_t i = 0; i < n; i++)
		set_ana(target, json_object_array_get_idx(list, i));
	n = json_get(handover->json, "drained", json_type_array, &list)
		    ? json_object_array_length(list)
		    : 0;
	for (size_t i = 0; i < n; i++)
		set_drained(target, json_object_array_get_idx(list, i));
}
