/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See users.h. A removed portal has no users, because connections through it stay. Neither has a
 * change that needs a restart, because it is not applied.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "target/operations/change/users.h"
#include "target/association/controller.h"

/* "NQN/NSID" begins with the NQN of its subsystem; an NQN itself is not followed by a slash. */
static bool is_in_subsystem(const char *name, const char *subnqn)
{
	const char *slash = strrchr(name, '/');

	return slash && strlen(subnqn) == (size_t)(slash - name) &&
	       !memcmp(name, subnqn, (size_t)(slash - name));
}

static bool is_host(const struct target *target, const char *name, const char *hostnqn)
{
	const struct config_host *hosts = target->config->hosts.items;

	if (!strcmp(name, hostnqn))
		return true;
	for (unsigned i = 0; i < target->config->hosts.n; i++)
		if (hosts[i].name && !strcmp(hosts[i].name, name) && !strcmp(hosts[i].nqn, hostnqn))
			return true;
	return false;
}

static bool takes_from(const struct target *target, const struct config_change *change,
		       const struct controller *controller)
{
	if (change->kind != CHANGE_REMOVE || !change->is_live || controller->is_discovery)
		return false;
	if (!strcmp(change->what, "subsystem"))
		return !strcmp(change->name, controller->subnqn);
	if (!strcmp(change->what, "namespace"))
		return is_in_subsystem(change->name, controller->subnqn);
	return !strcmp(change->what, "allow_hosts") && !strcmp(change->name, controller->subnqn) &&
	       is_host(target, change->before, controller->hostnqn);
}

static bool is_known(const struct change_users *users, unsigned change, const char *host)
{
	for (unsigned i = users->n; i-- > 0 && users->items[i].change == change;)
		if (!strcmp(users->items[i].host, host))
			return true;
	return false;
}

static int add(struct change_users *users, unsigned change, const char *host)
{
	struct change_user *items;

	if (is_known(users, change, host))
		return 0;
	items = realloc(users->items, (users->n + 1) * sizeof(*items));
	if (!items)
		return -ENOMEM;
	users->items = items;
	items[users->n] = (struct change_user){.change = change, .host = strdup(host)};
	if (!items[users->n].host)
		return -ENOMEM;
	users->n++;
	return 0;
}

int change_users_find(const struct target *target, const struct config_changes *changes,
		      struct change_users *ret_users)
{
	int r = 0;

	*ret_users = (struct change_users){0};
	for (unsigned i = 0; r == 0 && i < changes->n; i++) {
		list_for_each (node, &target->controllers) {
			const struct controller *c = list_entry(node, struct controller, node);

			if (r == 0 && takes_from(target, &changes->items[i], c))
				r = add(ret_users, i, c->hostnqn);
		}
	}
	return r;
}

void change_users_free(struct change_users *users)
{
	for (unsigned i = 0; i < users->n; i++)
		free(users->items[i].host);
	free(users->items);
	*users = (struct change_users){0};
}
