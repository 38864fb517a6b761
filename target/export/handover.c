/* SPDX-License-Identifier: BSD-3-Clause */
/* See handover.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "target/export/handover.h"

void handover_close_memory(struct handover *handover)
{
	for (unsigned i = 0; i < handover->n_namespaces; i++) {
		struct backend_memory *memory = &handover->namespaces[i].memory;

		if (memory->fd >= 0)
			close(memory->fd);
		memory->fd = -1;
	}
}

void handover_free(struct handover *handover)
{
	handover_close_memory(handover);
	for (unsigned i = 0; i < handover->n_namespaces; i++)
		free(handover->namespaces[i].guard);
	free(handover->namespaces);
	json_object_put(handover->json);
	*handover = (struct handover){0};
}

/* ---- reading -------------------------------------------------------------------------------- */

/* The descriptors of memory that are not taken yet. */
struct memories {
	const int *fds;
	unsigned n, n_taken;
};

static int read_namespace(struct json_object *o, struct memories *memories,
			  struct handover_namespace *into)
{
	struct json_object *subsystem, *nsid, *uuid, *bytes, *guard;

	into->memory.fd = -1;
	if (!json_object_is_type(o, json_type_object) ||
	    !json_get(o, "subsystem", json_type_string, &subsystem) ||
	    !json_get(o, "nsid", json_type_int, &nsid) ||
	    !json_get(o, "uuid", json_type_string, &uuid) ||
	    uuid_parse(json_object_get_string(uuid), into->uuid) < 0)
		return -EINVAL;
	snprintf(into->subnqn, sizeof(into->subnqn), "%s", json_object_get_string(subsystem));
	into->nsid = (uint32_t)json_object_get_uint64(nsid);
	if (json_get(o, "memory_bytes", json_type_int, &bytes)) {
		if (memories->n_taken == memories->n)
			return -EINVAL;
		into->memory.fd = memories->fds[memories->n_taken++];
		into->memory.bytes = json_object_get_uint64(bytes);
	}
	if (json_get(o, "guard", json_type_string, &guard)) {
		into->guard = strdup(json_object_get_string(guard));
		return into->guard ? 0 : -ENOMEM;
	}
	return 0;
}

static int read_all(struct memories *memories, struct handover *handover)
{
	struct json_object *version, *list;
	size_t n;

	if (!json_get(handover->json, "version", json_type_int, &version) ||
	    json_object_get_int(version) != HANDOVER_FORMAT ||
	    !json_get(handover->json, "namespaces", json_type_array, &list))
		return -EINVAL;
	n = json_object_array_length(list);
	handover->namespaces = calloc(n + 1, sizeof(struct handover_namespace));
	if (!handover->namespaces)
		return -ENOMEM;
	while (handover->n_namespaces < n) {
		struct json_object *o = json_object_array_get_idx(list, handover->n_namespaces);
		int r = read_namespace(o, memories,
				       &handover->namespaces[handover->n_namespaces++]);

		if (r < 0)
			return r;
	}
	return memories->n_taken == memories->n ? 0 : -EINVAL;
}

int handover_read(const char *text, const int *memory, unsigned n, struct handover *ret_handover)
{
	struct memories memories = {.fds = memory, .n = n};
	int r;

	*ret_handover = (struct handover){0};
	r = json_parse(text, &ret_handover->json);
	if (r == 0)
		r = read_all(&memories, ret_handover);
	while (memories.n_taken < n)
		close(memory[memories.n_taken++]);
	if (r < 0)
		handover_free(ret_handover);
	return r;
}

const struct handover_namespace *handover_find(const struct handover *handover, const char *subnqn,
					       uint32_t nsid)
{
	for (unsigned i = 0; handover && i < handover->n_namespaces; i++)
		if (handover->namespaces[i].nsid == nsid &&
		    !strcmp(handover->namespaces[i].subnqn, subnqn))
			return &handover->namespaces[i];
	return NULL;
}

uint64_t handover_number(const struct handover *handover, const char *key)
{
	struct json_object *value;

	return json_get(handover->json, key, json_type_int, &value) ? json_object_get_uint64(value)
								    : 0;
}
