/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See users.h. Each association is compared with the outcome (outlook.c); then the change is looked
 * for that explains the loss, so that its line names the host. A host that uses a namespace through
 * two portals loses a path with one of them, and is not named.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/cleanup.h"
#include "base/rcu.h"
#include "target/engine/record/host.h"
#include "target/export/ana.h"
#include "target/export/guard/guard_new.h"
#include "target/operations/change/portal_change.h"
#include "target/operations/change/users.h"

struct search {
	const struct outlook *outlook;
	struct config_changes *changes;
	struct change_users *users;
	int error; /* 0 or -ENOMEM */
};

enum {
	NAME_BYTES = NVMF_NQN_MAX + PORTAL_NAME_MAX + 32,
};

static const char *const reasons[LOSSES] = {
	[LOSS_NOTHING] = "",
	[LOSS_SUBSYSTEM] = "",
	[LOSS_NAMESPACE] = "",
	[LOSS_PERMISSION] = "no longer allowed",
	[LOSS_PROOF] = "it must prove its identity",
	[LOSS_SECRET] = "it has proven another secret",
	[LOSS_OUR_SECRET] = "it wants another secret of rblkd",
	[LOSS_HOST_ID] = "its host identifier is another host's",
	[LOSS_PORTAL] = "",
	[LOSS_PATH] = "no path is left",
};

const char *change_user_reason(const struct change_user *user)
{
	return reasons[user->loss];
}

/* ---- the change that explains it ------------------------------------------------------------ */

/* key: "" for what is added or removed; NULL: any. NULL: no such change. */
static const struct config_change *find(const struct search *s, const char *what, const char *name,
					const char *key)
{
	for (unsigned i = 0; i < s->changes->n; i++) {
		const struct config_change *change = &s->changes->items[i];

		if (!strcmp(change->what, what) && !strcmp(change->name, name) &&
		    (!key || !strcmp(change->key, key)))
			return change;
	}
	return NULL;
}

/* The host is off the list: by its name, or the name means another host. */
static const struct config_change *find_unlisted(const struct search *s,
						 const struct controller *controller)
{
	const struct target_config *before = s->outlook->target->config;

	for (unsigned i = 0; i < s->changes->n; i++) {
		const struct config_change *change = &s->changes->items[i];

		if ((!strcmp(change->what, "allow_hosts") && change->kind == CHANGE_REMOVE &&
		     !strcmp(change->name, controller->subnqn) &&
		     !strcmp(config_host_nqn(before, change->before), controller->hostnqn)) ||
		    (!strcmp(change->what, "host") && !strcmp(change->key, "nqn") &&
		     !strcmp(change->before, controller->hostnqn)))
			return change;
	}
	return NULL;
}

/* The change of an entry of hosts: of its key, or of the whole entry. */
static const struct config_change *find_key(const struct search *s, const struct config_host *host,
					    const char *key)
{
	if (!host)
		return NULL;
	return find(s, "host", host->name, key)
		       ?: find(s, "host", host->name, "")
		       ?: find(s, "host", host->name, "nqn");
}

/* The change of the host's secrets: of its entry in the new configuration, or of the contents of
 * its files. */
static const struct config_change *find_secret(const struct search *s,
					       const struct controller *controller, const char *key)
{
	const struct config_host *host = config_find_host(s->outlook->after, controller->hostnqn);

	return host ? find(s, "host", host->name, "secrets") ?: find_key(s, host, key) : NULL;
}

/* The identifier is bound to another host now, or the host to another identifier, or no longer. */
static const struct config_change *find_binding(const struct search *s,
						const struct controller *controller)
{
	const struct target_config *after = s->outlook->after, *before = s->outlook->target->config;

	return find_key(s, config_find_bound(after, controller->hostid), "hostid")
		       ?: find_key(s, config_find_host(after, controller->hostnqn), "hostid")
		       ?: find_key(s, config_find_host(before, controller->hostnqn), "hostid");
}

static const struct config_change *find_portal(const struct search *s,
					       const struct controller *controller)
{
	return find(s, "portal", controller->portal->name, NULL)
		       ?: find(s, "portals", controller->subnqn, NULL);
}

/* The group's state, or the group of the namespace. */
static const struct config_change *find_path(const struct search *s,
					     const struct controller *controller, uint32_t nsid,
					     const struct ana *ana)
{
	const struct ana_group *group = ana_group_of(ana, nsid);
	char ns[NAME_BYTES], id[NAME_BYTES], portal[NAME_BYTES];
	unsigned group_id = group ? group->id : 0;

	snprintf(ns, sizeof(ns), "%s/%u", controller->subnqn, nsid);
	snprintf(id, sizeof(id), "%s/%u", controller->subnqn, group_id);
	snprintf(portal, sizeof(portal), "%s/%u/%s", controller->subnqn, group_id,
		 controller->portal->name);
	return find(s, "namespace", ns, "ana_group")
		       ?: find(s, "portal of an ANA group", portal, NULL)
		       ?: find(s, "ANA group", id, NULL);
}

static const struct config_change *explain(const struct search *s, enum loss loss,
					   const struct controller *controller, const char *ns)
{
	switch (loss) {
	case LOSS_SUBSYSTEM:
		return find(s, "subsystem", controller->subnqn, "");
	case LOSS_NAMESPACE:
		return find(s, "namespace", ns, "");
	case LOSS_PERMISSION:
		return find(s, "subsystem", controller->subnqn, "allow_any_host")
			       ?: find_unlisted(s, controller);
	case LOSS_PROOF:
	case LOSS_SECRET:
		return find_secret(s, controller, "dhchap_key_file");
	case LOSS_OUR_SECRET:
		return find_secret(s, controller, "dhchap_ctrl_key_file");
	case LOSS_HOST_ID:
		return find_binding(s, controller);
	case LOSS_PORTAL:
		return find_portal(s, controller);
	case LOSS_PATH:
	case LOSS_NOTHING:
	case LOSSES:
		break;
	}
	return NULL;
}

/* ---- collecting ----------------------------------------------------------------------------- */

static bool is_known(const struct change_users *users, unsigned change, const char *host,
		     const char *object)
{
	for (unsigned i = 0; i < users->n; i++)
		if (users->items[i].change == change && !strcmp(users->items[i].host, host) &&
		    !strcmp(users->items[i].object, object))
			return true;
	return false;
}

static void append(struct search *s, unsigned change, enum loss loss, const char *host,
		   const char *object)
{
	struct change_user *items, *item;

	if (is_known(s->users, change, host, object))
		return;
	items = realloc(s->users->items, (s->users->n + 1) * sizeof(*items));
	if (!items) {
		s->error = -ENOMEM;
		return;
	}
	s->users->items = items;
	item = &items[s->users->n++];
	*item = (struct change_user){change, loss, strdup(host), strdup(object)};
	if (!item->host || !item->object)
		s->error = -ENOMEM;
}

/* A loss that no change of the file explains is a change itself. */
static const struct config_change *add_change(struct search *s, enum loss loss, const char *host,
					      const char *object)
{
	config_changes_add(s->changes, &(struct config_change){.kind = CHANGE_VALUE,
							       .what = "host",
							       .name = host,
							       .key = "access",
							       .before = object,
							       .after = reasons[loss],
							       .is_live = true});
	if (!s->changes->has_failed)
		return &s->changes->items[s->changes->n - 1];
	s->error = -ENOMEM;
	return NULL;
}

/* change NULL: none explains it. */
static void add(struct search *s, enum loss loss, const struct controller *controller,
		const char *object, const struct config_change *change)
{
	if (!change)
		change = add_change(s, loss, controller->hostnqn, object);
	if (change)
		append(s, (unsigned)(change - s->changes->items), loss, controller->hostnqn,
		       object);
}

/* ---- what an association loses -------------------------------------------------------------- */

static bool has_namespace(const struct config_subsystem *subsystem, uint32_t nsid)
{
	const struct config_namespace *namespaces = subsystem ? subsystem->namespaces.items : NULL;

	for (unsigned i = 0; subsystem && i < subsystem->namespaces.n; i++)
		if (namespaces[i].nsid == nsid)
			return true;
	return false;
}

static void find_namespaces(struct search *s, const struct controller *controller)
{
	const struct config_subsystem *after = config_find_subsystem(s->outlook->after,
								     controller->subnqn);
	const struct config_subsystem *before = config_find_subsystem(s->outlook->target->config,
								      controller->subnqn);
	char object[NAME_BYTES];

	for (uint32_t nsid = 1; nsid <= NSID_MAX; nsid++) {
		if (!uses_has(&controller->uses, nsid) || !has_namespace(before, nsid) ||
		    has_namespace(after, nsid))
			continue;
		snprintf(object, sizeof(object), "namespace %s/%u", controller->subnqn, nsid);
		add(s, LOSS_NAMESPACE, controller, object,
		    explain(s, LOSS_NAMESPACE, controller, strchr(object, ' ') + 1));
	}
}

/* Whether other associations of the host have all that this one uses. */
static bool is_replaced(const struct search *s, const struct controller *controller)
{
	for (uint32_t nsid = 1; nsid <= NSID_MAX; nsid++)
		if (uses_has(&controller->uses, nsid) &&
		    !outlook_has_other_way(s->outlook, controller, nsid, NULL))
			return false;
	return outlook_has_other_way(s->outlook, controller, 0, NULL);
}

static void find_access(struct search *s, const struct controller *controller)
{
	enum loss loss = outlook_of(s->outlook, controller);
	char object[NAME_BYTES];

	if (loss == LOSS_NOTHING || (loss == LOSS_PORTAL && is_replaced(s, controller)))
		return;
	if (loss == LOSS_PORTAL)
		snprintf(object, sizeof(object), "portal %s", controller->portal->name);
	else
		snprintf(object, sizeof(object), "subsystem %s", controller->subnqn);
	add(s, loss, controller, object, explain(s, loss, controller, NULL));
}

/* ---- paths (ANA) ---------------------------------------------------------------------------- */

static void find_paths_of(struct search *s, const struct controller *controller,
			  const struct ana *before, const struct ana *after)
{
	unsigned portal = controller->portal->index;
	char object[NAME_BYTES];

	for (uint32_t nsid = 1; nsid <= NSID_MAX; nsid++) {
		if (!uses_has(&controller->uses, nsid) ||
		    ana_check(before, nsid, portal) != NVME_OK ||
		    ana_check(after, nsid, portal) == NVME_OK ||
		    outlook_has_other_way(s->outlook, controller, nsid, after))
			continue;
		snprintf(object, sizeof(object), "namespace %s/%u", controller->subnqn, nsid);
		add(s, LOSS_PATH, controller, object, find_path(s, controller, nsid, after));
	}
}

static void find_paths(struct search *s, const uint8_t *slots,
		       const struct config_subsystem *config)
{
	const struct outlook *o = s->outlook;
	const struct subsystem *running = snapshot_find(atomic_load(&o->target->snapshot),
							config->nqn);
	const struct ana *before = running ? rcu_get(&running->ana) : NULL;
	_autofree_ struct ana *after = NULL;

	if (!running || !config->ana_groups.n)
		return;
	if (ana_new(o->after, slots, config, before, &after) < 0) {
		s->error = -ENOMEM;
		return;
	}
	list_for_each (node, &o->target->controllers) {
		const struct controller *c = list_entry(node, struct controller, node);

		if (outlook_counts(c) && !strcmp(c->subnqn, config->nqn) &&
		    outlook_of(o, c) == LOSS_NOTHING)
			find_paths_of(s, c, before, after);
	}
}

/* Without slots for all portals the file cannot be applied. */
static void find_all_paths(struct search *s)
{
	const struct target_config *after = s->outlook->after;
	const struct config_subsystem *subsystems = after->subsystems.items;
	uint8_t slots[PORTALS_MAX];

	if (portals_plan(s->outlook->target, after, slots) < 0)
		return;
	for (unsigned i = 0; i < after->subsystems.n; i++)
		find_paths(s, slots, &subsystems[i]);
}

/* ---- all ------------------------------------------------------------------------------------ */

int change_users_find(const struct outlook *outlook, struct config_changes *changes,
		      struct change_users *ret_users)
{
	struct search s = {.outlook = outlook, .changes = changes, .users = ret_users};

	*ret_users = (struct change_users){0};
	list_for_each (node, &outlook->target->controllers) {
		const struct controller *c = list_entry(node, struct controller, node);

		if (!outlook_counts(c))
			continue;
		find_access(&s, c);
		find_namespaces(&s, c);
	}
	find_all_paths(&s);
	return s.error;
}

/* ---- once namespaces are open --------------------------------------------------------------- */

static bool is_registered_by_other(const struct outlook *o, const struct controller *controller,
				   const struct namespace *ns)
{
	const struct config_host *bound = config_find_bound(o->after, controller->hostid);
	char owner[NVMF_NQN_MAX + 1];

	return !bound && !host_id_is_none(controller->hostid) &&
	       guard_is_of_other(ns->guard, controller->hostid, controller->hostnqn, owner);
}

static void find_registered(struct search *s, const struct controller *controller,
			    const struct snapshot *after)
{
	const struct snapshot *before = atomic_load(&s->outlook->target->snapshot);
	const struct subsystem *was = snapshot_find(before, controller->subnqn);
	const struct subsystem *is = snapshot_find(after, controller->subnqn);
	char object[NAME_BYTES], ns[NAME_BYTES];

	for (unsigned i = 0; was && is && i < is->n_namespaces; i++) {
		uint32_t nsid = is->namespaces[i]->nsid;

		if (subsystem_namespace(was, nsid) == is->namespaces[i] ||
		    !is_registered_by_other(s->outlook, controller, is->namespaces[i]))
			continue;
		snprintf(object, sizeof(object), "subsystem %s", controller->subnqn);
		snprintf(ns, sizeof(ns), "%s/%u", controller->subnqn, nsid);
		add(s, LOSS_HOST_ID, controller, object, find(s, "namespace", ns, ""));
	}
}

int change_users_add_registered(const struct outlook *outlook, const struct snapshot *after,
				struct config_changes *changes, struct change_users *users)
{
	struct search s = {.outlook = outlook, .changes = changes, .users = users};

	list_for_each (node, &outlook->target->controllers) {
		const struct controller *c = list_entry(node, struct controller, node);

		if (outlook_counts(c) && outlook_of(outlook, c) == LOSS_NOTHING)
			find_registered(&s, c, after);
	}
	return s.error;
}

void change_users_free(struct change_users *users)
{
	for (unsigned i = 0; i < users->n; i++) {
		free(users->items[i].host);
		free(users->items[i].object);
	}
	free(users->items);
	*users = (struct change_users){0};
}
