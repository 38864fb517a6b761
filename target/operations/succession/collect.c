/* SPDX-License-Identifier: BSD-3-Clause */
/* See collect.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "target/engine/record/portal.h"
#include "target/export/ana.h"
#include "target/export/guard/guard_adopt.h"
#include "target/export/guard/guard_text.h"
#include "target/export/handover.h"
#include "target/operations/life.h"
#include "target/operations/succession/collect.h"
#include "target/operations/succession/message.h"

/* ---- of namespaces --------------------------------------------------------------------------- */

static int collect_memory(struct backend *backend, struct handover_namespace *into)
{
	into->memory.fd = -1;
	if (!backend->ops->share_memory)
		return 0;
	into->memory.fd = backend->ops->share_memory(backend);
	into->memory.bytes = backend->limits.size_bytes;
	return into->memory.fd < 0 ? into->memory.fd : 0;
}

static int collect_namespace(const struct namespace_at *at, struct handover_namespace *into)
{
	struct guard_kept kept = guard_valid(at->ns->guard);
	int r = collect_memory(at->ns->backend, into);

	snprintf(into->subnqn, sizeof(into->subnqn), "%s", at->subsystem->nqn);
	into->nsid = at->ns->nsid;
	uuid_copy(into->uuid, at->ns->uuid);
	return r < 0 ? r : guard_format_all(at->ns->guard, &kept, &into->guard);
}

static struct json_object *to_json(const struct handover_namespace *of)
{
	struct json_object *o = json_object_new_object();
	char uuid[UUID_STR_LEN];

	uuid_unparse_lower(of->uuid, uuid);
	json_add(o, "subsystem", json_object_new_string(of->subnqn));
	json_add(o, "nsid", json_object_new_uint64(of->nsid));
	json_add(o, "uuid", json_object_new_string(uuid));
	if (of->memory.fd >= 0)
		json_add(o, "memory_bytes", json_object_new_uint64(of->memory.bytes));
	if (of->guard)
		json_add(o, "guard", json_object_new_string(of->guard));
	return o;
}

static int collect_all(const struct snapshot *snapshot, struct handover *handover)
{
	struct json_object *list = json_object_new_array();

	json_add(handover->json, "namespaces", list);
	for (struct namespace_at at = {0}; snapshot_next(snapshot, &at);) {
		struct handover_namespace *into = &handover->namespaces[handover->n_namespaces++];
		int r = collect_namespace(&at, into);

		if (r < 0)
			return r;
		json_append(list, to_json(into));
	}
	return 0;
}

static int collect_namespaces(const struct snapshot *snapshot, struct handover *ret_handover)
{
	unsigned n = 0;
	int r = -ENOMEM;

	for (struct namespace_at at = {0}; snapshot_next(snapshot, &at);)
		n++;
	*ret_handover = (struct handover){
		.json = json_object_new_object(),
		.namespaces = calloc(n + 1, sizeof(struct handover_namespace)),
	};
	json_add(ret_handover->json, "version", json_object_new_int(HANDOVER_FORMAT));
	if (ret_handover->json && ret_handover->namespaces)
		r = collect_all(snapshot, ret_handover);
	return r;
}

/* ---- of what an administrator has set -------------------------------------------------------- */

static void add_views(struct json_object *list, const struct target *target,
		      const struct subsystem *subsystem, const struct ana_group *group)
{
	for (unsigned i = 0; i < PORTALS_MAX; i++) {
		struct json_object *o;

		if (group->owner != ANA_OWNER_ALWAYS || !portal_is_used(&target->portals[i]) ||
		    group->views[i].state == group->views[i].configured)
			continue;
		o = json_object_new_object();
		json_add(o, "subsystem", json_object_new_string(subsystem->nqn));
		json_add(o, "group", json_object_new_uint64(group->id));
		json_add(o, "portal", json_object_new_string(target->portals[i].name));
		json_add(o, "state", json_object_new_int(group->views[i].state));
		json_append(list, o);
	}
}

/* The states that an administrator has set. */
static struct json_object *list_ana(const struct target *target)
{
	const struct snapshot *snapshot = target_stores(target);
	struct json_object *list = json_object_new_array();

	for (unsigned i = 0; i < snapshot->n_subsystems; i++) {
		const struct subsystem *subsystem = &snapshot->subsystems[i];
		const struct ana *ana = atomic_load(&subsystem->ana);

		for (unsigned j = 0; ana && j < ana->n_groups; j++)
			add_views(list, target, subsystem, &ana->groups[j]);
	}
	return list;
}

static struct json_object *list_drained(const struct target *target)
{
	struct json_object *list = json_object_new_array();

	for (unsigned i = 0; i < PORTALS_MAX; i++)
		if (portal_is_used(&target->portals[i]) && portal_is_drained(&target->portals[i]))
			json_append(list, json_object_new_string(target->portals[i].name));
	return list;
}

int collect_handover(const struct target *target, struct handover *ret_handover)
{
	int r;

	json_is_whole(); /* resets its flag: earlier texts do not count */
	r = collect_namespaces(target_stores(target), ret_handover);
	if (r == 0) {
		json_add(ret_handover->json, "version_before",
			 json_object_new_string(RBLK_VERSION));
		json_add(ret_handover->json, "last_cntlid",
			 json_object_new_uint64(target->last_cntlid));
		json_add(ret_handover->json, "ana", list_ana(target));
		json_add(ret_handover->json, "drained", list_drained(target));
		r = json_is_whole() ? 0 : -ENOMEM;
	}
	if (r < 0)
		handover_free(ret_handover);
	return r;
}

/* ---- sending --------------------------------------------------------------------------------- */

static int send_text(int socket, struct json_object *json)
{
	_autoclose_ int fd = memfd_create("rblkd-handover", MFD_CLOEXEC);
	const char *text = json_object_to_json_string(json);
	size_t n = text ? strlen(text) : 0;

	if (!text || !json_is_text_of(text, json))
		return -ENOMEM;
	for (size_t at = 0; fd >= 0 && at < n;) {
		ssize_t done = write(fd, text + at, n - at);

		if (done < 0)
			return -errno;
		at += (size_t)done;
	}
	return fd < 0 ? -errno : message_send_fds(socket, MESSAGE_HANDOVER, &fd, 1);
}

static int send_memory(int socket, const struct handover *handover)
{
	int fds[MESSAGE_FDS], r = 0;
	unsigned n = 0;

	for (unsigned i = 0; i < handover->n_namespaces && r == 0; i++) {
		if (handover->namespaces[i].memory.fd >= 0)
			fds[n++] = handover->namespaces[i].memory.fd;
		if (n == MESSAGE_FDS) {
			r = message_send_fds(socket, MESSAGE_MEMORY, fds, n);
			n = 0;
		}
	}
	return n && r == 0 ? message_send_fds(socket, MESSAGE_MEMORY, fds, n) : r;
}

int collect_send(const struct handover *handover, int socket)
{
	int r = send_text(socket, handover->json);

	return r == 0 ? send_memory(socket, handover) : r;
}
