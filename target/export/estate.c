/* SPDX-License-Identifier: BSD-3-Clause */
/* See estate.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "target/export/estate.h"

void estate_free(struct estate *estate)
{
	for (unsigned i = 0; i < estate->n_namespaces; i++) {
		if (estate->namespaces[i].memory.fd >= 0)
			close(estate->namespaces[i].memory.fd);
		free(estate->namespaces[i].guard);
	}
	free(estate->namespaces);
	json_object_put(estate->json);
	*estate = (struct estate){0};
}

/* ---- reading -------------------------------------------------------------------------------- */

/* The descriptors of memory that are not taken yet. */
struct memories {
	const int *fds;
	unsigned n, n_taken;
};

static int read_namespace(struct json_object *o, struct memories *memories,
			  struct inheritance *into)
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

static int read_all(struct memories *memories, struct estate *estate)
{
	struct json_object *version, *list;
	size_t n;

	if (!json_get(estate->json, "version", json_type_int, &version) ||
	    json_object_get_int(version) != ESTATE_FORMAT ||
	    !json_get(estate->json, "namespaces", json_type_array, &list))
		return -EINVAL;
	n = json_object_array_length(list);
	estate->namespaces = calloc(n + 1, sizeof(struct inheritance));
	if (!estate->namespaces)
		return -ENOMEM;
	while (estate->n_namespaces < n) {
		struct json_object *o = json_object_array_get_idx(list, estate->n_namespaces);
		int r = read_namespace(o, memories, &estate->namespaces[estate->n_namespaces++]);

		if (r < 0)
			return r;
	}
	return memories->n_taken == memories->n ? 0 : -EINVAL;
}

int estate_read(const char *text, const int *memory, unsigned n, struct estate *ret_estate)
{
	struct memories memories = {.fds = memory, .n = n};
	int r;

	*ret_estate = (struct estate){0};
	r = json_parse(text, &ret_estate->json);
	if (r == 0)
		r = read_all(&memories, ret_estate);
	while (memories.n_taken < n)
		close(memory[memories.n_taken++]);
	if (r < 0)
		estate_free(ret_estate);
	return r;
}

const struct inheritance *estate_find(const struct estate *estate, const char *subnqn,
				      uint32_t nsid)
{
	for (unsigned i = 0; estate && i < estate->n_namespaces; i++)
		if (estate->namespaces[i].nsid == nsid &&
		    !strcmp(estate->namespaces[i].subnqn, subnqn))
			return &estate->namespaces[i];
	return NULL;
}

uint64_t estate_number(const struct estate *estate, const char *key)
{
	struct json_object *value;

	return json_get(estate->json, key, json_type_int, &value) ? json_object_get_uint64(value)
								  : 0;
}
