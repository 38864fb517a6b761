/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replaces the running portals by those of a new configuration.
 *
 * A portal whose name and address stay keeps its slot and its listener. A removed one stops
 * listening; its connections stay, and hold the slot until the last of them is gone. Old listeners
 * close before new ones open, because a new address may contain an old one.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/rcu.h"
#include "target/association/connection.h"
#include "target/association/controller.h"
#include "target/operations/change/portal_change.h"

static bool is_same(const struct portal *portal, const struct config_portal *config)
{
	return portal_is_used(portal) && !strcmp(portal->name, config->name) &&
	       addr_is_equal(&portal->address, &config->addr);
}

static bool is_free(const struct target *target, const struct portal *portal)
{
	if (portal_is_used(portal))
		return false;
	list_for_each (node, &target->connections)
		if (list_entry(node, struct connection, node)->portal == portal)
			return false;
	list_for_each (node, &target->controllers)
		if (list_entry(node, struct controller, node)->portal == portal)
			return false;
	return true;
}

/* The portal of the plan for that slot, or NULL. */
static const struct config_portal *find_planned(const struct portals_plan *plan, unsigned slot)
{
	const struct config_portal *portals = plan->config->portals.items;

	for (unsigned i = 0; i < plan->config->portals.n; i++)
		if (plan->slots[i] == slot)
			return &portals[i];
	return NULL;
}

/* The slot of the running portal of that name and address; PORTALS_MAX: none. */
static uint8_t running_slot(const struct target *target, const struct config_portal *config)
{
	uint8_t slot = 0;

	while (slot < PORTALS_MAX && !is_same(&target->portals[slot], config))
		slot++;
	return slot;
}

static uint8_t free_slot(const struct target *target, const struct portals_plan *plan)
{
	uint8_t slot = 0;

	while (slot < PORTALS_MAX &&
	       (!is_free(target, &target->portals[slot]) || find_planned(plan, slot)))
		slot++;
	return slot;
}

int portals_plan(const struct target *target, const struct target_config *config,
		 uint8_t ret_slots[PORTALS_MAX])
{
	const struct config_portal *portals = config->portals.items;
	const struct portals_plan plan = {config, ret_slots};

	for (unsigned i = 0; i < config->portals.n; i++)
		ret_slots[i] = running_slot(target, &portals[i]);
	for (unsigned i = 0; i < config->portals.n; i++) {
		if (ret_slots[i] == PORTALS_MAX)
			ret_slots[i] = free_slot(target, &plan);
		if (ret_slots[i] == PORTALS_MAX)
			return -EBUSY;
	}
	return 0;
}

static bool is_kept(const struct target *target, const struct portals_plan *plan, unsigned slot)
{
	const struct config_portal *planned = find_planned(plan, slot);

	return planned && is_same(&target->portals[slot], planned);
}

static void close_old(struct target *target, const struct portals_plan *plan)
{
	for (unsigned slot = 0; slot < PORTALS_MAX; slot++)
		if (portal_is_used(&target->portals[slot]) && !is_kept(target, plan, slot))
			portal_close(&target->portals[slot]);
}

static int open_new(struct portal *portal, const struct config_portal *config, struct error *error)
{
	char address[ADDR_STRING_MAX];
	int r;

	portal_init(portal, config, PORTAL_NEW);
	r = portal_open(portal);
	if (r < 0)
		error_refuse(error, r, "portal %s: cannot listen on %s: %s", portal->name,
			     addr_format(address, &portal->address), strerror(-r));
	return r;
}

int portals_switch(struct target *target, const struct portals_plan *plan, struct error *error)
{
	for (unsigned slot = 0; slot < PORTALS_MAX; slot++)
		check(target->portals[slot].slot != PORTAL_NEW); /* no change is under way */
	close_old(target, plan);
	for (unsigned slot = 0; slot < PORTALS_MAX; slot++) {
		const struct config_portal *planned = find_planned(plan, slot);

		if (!planned || portal_is_used(&target->portals[slot]))
			continue;
		if (open_new(&target->portals[slot], planned, error) < 0) {
			portals_switch_back(target, plan);
			return -EADDRNOTAVAIL;
		}
	}
	return 0;
}

/* All new listeners close first, because an old address may be within a new one. */
void portals_switch_back(struct target *target, const struct portals_plan *plan)
{
	for (unsigned slot = 0; slot < PORTALS_MAX; slot++) {
		struct portal *portal = &target->portals[slot];

		if (portal->slot != PORTAL_NEW)
			continue;
		portal_close(portal);
		portal_set_slot(portal, PORTAL_FREE);
	}
	for (unsigned slot = 0; slot < PORTALS_MAX; slot++)
		if (portal_is_used(&target->portals[slot]) && !is_kept(target, plan, slot) &&
		    !portal_is_drained(&target->portals[slot]))
			portal_open(&target->portals[slot]);
	rcu_wait(); /* a poller may still read an address that the next change replaces */
}

void portals_switch_done(struct target *target, const struct portals_plan *plan)
{
	for (unsigned slot = 0; slot < PORTALS_MAX; slot++) {
		struct portal *portal = &target->portals[slot];

		if (portal_is_used(portal))
			portal_set_slot(portal,
					find_planned(plan, slot) ? PORTAL_CONFIGURED : PORTAL_FREE);
	}
}
