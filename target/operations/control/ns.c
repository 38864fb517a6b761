/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ns_resize: follows or changes the size of a namespace that hosts use. Control thread.
 *
 * A size that is in the configuration (ram, or a file with create) must be changed there and
 * applied; changed here, it would be the old one again at the next start.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/rcu.h"
#include "base/rpc_request.h"
#include "base/units.h"
#include "target/config/store.h"
#include "target/operations/control/list.h"
#include "target/operations/control/ns.h"
#include "target/command/admin/notice.h"
#include "target/export/namespace_size.h"

struct wish {
	const char *subnqn; /* borrowed from the parameters */
	uint32_t nsid;
	uint64_t size; /* 0: the size of the backing store */
	bool is_forced;
};

static struct json_object *member(struct json_object *params, const char *key, enum json_type type)
{
	struct json_object *value = NULL;

	json_object_object_get_ex(params, key, &value);
	return json_object_is_type(value, type) ? value : NULL;
}

static bool read_wish(struct json_object *params, struct wish *ret_wish)
{
	struct json_object *nqn = member(params, "subsystem", json_type_string);
	struct json_object *nsid = member(params, "nsid", json_type_int);
	struct json_object *size = member(params, "size_bytes", json_type_int);
	uint64_t n = nsid ? json_object_get_uint64(nsid) : 0;

	*ret_wish = (struct wish){
		.subnqn = nqn ? json_object_get_string(nqn) : NULL,
		.nsid = n <= NSID_MAX ? (uint32_t)n : 0,
		.size = size ? json_object_get_uint64(size) : 0,
		.is_forced = json_object_get_boolean(member(params, "force", json_type_boolean)),
	};
	return nqn && ret_wish->nsid;
}

static struct namespace *find_namespace(struct target *target, const struct wish *wish)
{
	const struct subsystem *subsystem = snapshot_find(rcu_get(&target->snapshot), wish->subnqn);

	return subsystem ? subsystem_namespace(subsystem, wish->nsid) : NULL;
}

static const struct config_namespace *find_config(const struct target *target,
						  const struct wish *wish)
{
	const struct config_subsystem *subsystems = target->config->subsystems.items;

	for (unsigned i = 0; i < target->config->subsystems.n; i++) {
		const struct config_namespace *namespaces = subsystems[i].namespaces.items;

		for (unsigned j = 0; j < subsystems[i].namespaces.n; j++)
			if (namespaces[j].nsid == wish->nsid &&
			    !strcmp(subsystems[i].nqn, wish->subnqn))
				return &namespaces[j];
	}
	return NULL;
}

static struct json_object *answer(const struct wish *wish, uint64_t old_size, uint64_t size,
				  unsigned n_told)
{
	struct json_object *o = json_object_new_object();

	control_add_number(o, "schema", CONTROL_SCHEMA);
	control_add_string(o, "subsystem", wish->subnqn);
	control_add_number(o, "nsid", wish->nsid);
	control_add_number(o, "old_size_bytes", old_size);
	control_add_number(o, "size_bytes", size);
	control_add_number(o, "controllers_told", n_told);
	return o;
}

static struct json_object *resize(struct target *target, const struct wish *wish,
				  struct namespace *ns, struct error *error)
{
	uint64_t old_size = namespace_bytes(ns), size;
	char was[UNITS_MAX], is[UNITS_MAX];
	struct error refused;
	unsigned n_told = 0;
	int r = namespace_resize(ns, wish->size, wish->is_forced, &refused);

	if (r < 0)
		return rpc_refuse(error, r == -EBUSY ? EXIT_BUSY : EXIT_FAILED,
				  r == -EBUSY ? "--force takes it away from them" : "", "%s",
				  refused.message);
	size = namespace_bytes(ns);
	if (size != old_size) {
		n_told = notice_namespace(target, wish->subnqn, wish->nsid);
		log_info_about(LOG_ABOUT(.subsystem = wish->subnqn, .nsid = wish->nsid),
			       "%s, namespace %u: resized from %s to %s", wish->subnqn, wish->nsid,
			       units_format_exact(was, old_size), units_format_exact(is, size));
	}
	return answer(wish, old_size, size, n_told);
}

struct json_object *control_ns_resize(void *context, struct json_object *params,
				      struct error *error)
{
	struct target *target = context;
	const struct config_namespace *config;
	struct namespace *ns;
	struct wish wish;

	if (!read_wish(params, &wish))
		return rpc_refuse(error, EXIT_USAGE, "rblkctl list namespaces",
				  "a resize needs a subsystem and an nsid from 1 to %d", NSID_MAX);
	ns = find_namespace(target, &wish);
	if (!ns)
		return rpc_refuse(error, EXIT_NOT_FOUND, "rblkctl list namespaces",
				  "there is no namespace %u in %s", wish.nsid, wish.subnqn);
	config = find_config(target, &wish);
	if (config && config_namespace_bytes(config))
		return rpc_refuse(error, EXIT_FAILED, "change it there, then rblkctl apply",
				  "the size of namespace %u of %s stands in the configuration",
				  wish.nsid, wish.subnqn);
	return resize(target, &wish, ns, error);
}
