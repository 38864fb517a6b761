/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Portals: listening, and the first checks of a connect request. Control thread.
 *
 * A connect request is checked in full (private data, sizes, limits) before anything is allocated
 * for it; if it passes, it becomes a connection. Refusals carry the status that hosts print, and
 * one log line, at most a few in a row for each portal.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/states.h"
#include "target/association/admission.h"
#include "target/association/association.h"
#include "target/command/admin/notice.h"
#include "target/association/portal.h"
#include "target/association/connection.h"
#include "target/engine/poller/poller_device.h"
#include "transport/fabric.h"
#include "transport/wire/strings.h"

enum {
	BACKLOG = 128,
	RETRY_S = 4,
	REFUSALS_BURST = 5,
};

#define TO(s) STATE_TO(PORTAL_##s)

static const struct state_rule states[PORTAL_STATES] = {
	[PORTAL_CLOSED] = {"closed", TO(CLOSED) | TO(LISTENING) | TO(WAITING) | TO(DRAINED)},
	[PORTAL_LISTENING] = {"listening", TO(CLOSED) | TO(WAITING) | TO(DRAINED)},
	[PORTAL_WAITING] = {"waiting", TO(CLOSED) | TO(WAITING) | TO(LISTENING) | TO(DRAINED)},
	[PORTAL_DRAINED] = {"drained", TO(CLOSED) | TO(DRAINED)},
};

static const struct state_rule slots[PORTAL_SLOTS] = {
	[PORTAL_FREE] = {"free", TO(NEW) | TO(CONFIGURED)},
	[PORTAL_NEW] = {"new", TO(FREE) | TO(CONFIGURED)},
	[PORTAL_CONFIGURED] = {"configured", TO(FREE) | TO(CONFIGURED)},
};

const char *portal_state_name(enum portal_state state)
{
	return states[state].name;
}

void portal_set_slot(struct portal *portal, enum portal_slot slot)
{
	states_move("portal's slot", slots, &portal->slot, slot);
}

unsigned portals_n_used(const struct target *target)
{
	unsigned n = 0;

	for (unsigned i = 0; i < PORTALS_MAX; i++)
		n += portal_is_used(&target->portals[i]);
	return n;
}

unsigned portals_n_listening(const struct target *target)
{
	unsigned n = 0;

	for (unsigned i = 0; i < PORTALS_MAX; i++)
		n += atomic_load(&target->portals[i].state) == PORTAL_LISTENING;
	return n;
}

/* Only control writes the state, so a copy of it can be moved. */
static void set_state(struct portal *portal, enum portal_state next)
{
	enum portal_state state = atomic_load(&portal->state);

	states_move("portal", states, &state, next);
	atomic_store(&portal->state, state);
	atomic_fetch_add(&portal->target->n_portal_changes, 1);
	notice_discovery(portal->target);
}

/* ---- connect requests --------------------------------------------------------------------- */

/* The reason and the remedy, for rblkd's log. */
static const char *advice(enum nvmf_cm_status status, const struct target *target,
			  const union addr *remote)
{
	const char *limit = admission_refuse(target, remote);

	if (status == NVMF_CM_INVALID_HSQSIZE)
		return "queue size is beyond tuning.queue_depth";
	if (status == NVMF_CM_INVALID_IRD)
		return "the host offers no RDMA READ resources";
	if (status != NVMF_CM_NO_RESOURCES)
		return "the host sent a malformed request";
	return limit ? limit : "out of memory, locked memory or device resources";
}

static enum nvmf_cm_status check_request(struct portal *portal, const struct cm_conn *conn,
					 const struct cm_request *request,
					 struct cm_queue_request *ret_wish)
{
	struct target *target = portal->target;
	enum nvmf_cm_status status = cm_req_parse(request->private_data, request->n_private,
						  (unsigned)target->config->tuning.queue_depth,
						  ret_wish);

	if (status != NVMF_CM_OK)
		return status;
	/* Hosts never READ; rblkd READs their data, which needs at least one credit. */
	if (MIN(request->initiator_depth, conn->device->limits.max_init_rd_atom) == 0)
		return NVMF_CM_INVALID_IRD;
	if (admission_refuse(target, &conn->remote))
		return NVMF_CM_NO_RESOURCES;
	if (pollers_add_device(target, conn->device) < 0)
		return NVMF_CM_NO_RESOURCES;
	return NVMF_CM_OK;
}

static void on_request(struct cm_listener *listener, struct cm_conn *conn,
		       const struct cm_request *request)
{
	struct portal *portal = listener->context;
	struct cm_queue_request wish;
	enum nvmf_cm_status status = check_request(portal, conn, request, &wish);
	char remote[ADDR_STRING_MAX];

	if (status == NVMF_CM_OK) {
		portal->n_accepted++;
		admission_pay(portal->target, &conn->remote);
		association_accept(
			portal, conn, &wish,
			MIN(request->initiator_depth, conn->device->limits.max_init_rd_atom));
		return;
	}
	portal->n_refused++;
	if (log_limit_pass(&portal->refusals, REFUSALS_BURST))
		log_warn_about(LOG_ABOUT(.portal = portal->name),
			       "portal %s: refused a connection from %s: %s (%s)", portal->name,
			       addr_format_host(remote, &conn->remote),
			       nvmf_cm_status_string(status),
			       advice(status, portal->target, &conn->remote));
	connection_refuse(conn, status);
}

/* ---- listening ---------------------------------------------------------------------------- */

static void on_device_removed(struct cm_listener *listener);

static void wait_for_address(struct portal *portal)
{
	set_state(portal, PORTAL_WAITING);
	loop_timer_start(&portal->target->loop, &portal->retry, RETRY_S * NSEC_PER_SEC);
}

static bool is_missing_address(int r)
{
	return r == -EADDRNOTAVAIL || r == -ENODEV;
}

static const char *advice_listen(int r)
{
	switch (-r) {
	case EADDRINUSE:
		return "is another rblkd running? stop what listens there, or change the port";
	case EACCES:
	case EPERM:
		return "ports below 1024 need CAP_NET_BIND_SERVICE";
	case EADDRNOTAVAIL:
		return "the address is not on this host yet; trying every 4 s";
	case ENODEV:
		return "no RDMA device has the address yet; trying every 4 s";
	default:
		return "";
	}
}

static void log_cannot_listen(struct portal *portal, int r)
{
	char address[ADDR_STRING_MAX];
	const char *advice = advice_listen(r);

	log_write_about(is_missing_address(r) ? LOG_WARN : LOG_ERR,
			LOG_ABOUT(.portal = portal->name), "portal %s: cannot listen on %s: %s%s%s",
			portal->name, addr_format(address, &portal->address), strerror(-r),
			*advice ? "; " : "", advice);
}

enum portal_reach portal_reach(const struct portal *portal)
{
	if (atomic_load(&portal->state) != PORTAL_LISTENING || addr_is_loopback(&portal->address))
		return PORTAL_FOR_ALL;
	if (fabric_kind() == FABRIC_SOFT)
		return PORTAL_WITHOUT_ROCE;
	return fabric_kind() == FABRIC_SOFT_ROCE && addr_is_link_local(&portal->address)
		       ? PORTAL_IS_LINK_LOCAL
		       : PORTAL_FOR_ALL;
}

/* With an address of the network it is meant for other hosts. */
static void warn_if_local(const struct portal *portal)
{
	static const char *const why[] = {
		[PORTAL_WITHOUT_ROCE] =
			"by softrdma without RoCE; fabric: soft-roce lets other hosts in",
		[PORTAL_IS_LINK_LOCAL] =
			"because softrdma's RoCE leaves out link-local addresses; a unique local or global one lets other hosts in",
	};
	enum portal_reach reach = portal_reach(portal);
	char address[ADDR_STRING_MAX];

	if (reach != PORTAL_FOR_ALL)
		log_warn_about(LOG_ABOUT(.portal = portal->name),
			       "portal %s: only programs of this machine reach %s, %s",
			       portal->name, addr_format(address, &portal->address), why[reach]);
}

/* A failure of pollers_add_device is logged already. */
static int try_listen(struct portal *portal, bool *ret_is_logged)
{
	int r;

	portal->listener = (struct cm_listener){.on_request = on_request,
						.on_device_removed = on_device_removed,
						.context = portal};
	*ret_is_logged = false;
	r = cm_listen(portal->target->cm, &portal->address, BACKLOG, &portal->listener);
	/* Registers buffers now instead of with the first host, because it may fail. */
	if (r == 0 && portal->listener.device) {
		r = pollers_add_device(portal->target, portal->listener.device);
		*ret_is_logged = r < 0;
		if (r < 0)
			cm_listener_close(&portal->listener);
	}
	portal->error = r;
	if (r < 0)
		return r;
	set_state(portal, PORTAL_LISTENING);
	warn_if_local(portal);
	return 0;
}

static void on_retry(struct loop_timer *timer)
{
	struct portal *portal = container_of(timer, struct portal, retry);
	char address[ADDR_STRING_MAX];
	int before = portal->error;
	bool is_logged;
	int r = try_listen(portal, &is_logged);

	if (r == 0) {
		log_info_about(LOG_ABOUT(.portal = portal->name), "portal %s: listening on %s",
			       portal->name, addr_format(address, &portal->address));
		return;
	}
	if (r != before && !is_logged)
		log_cannot_listen(portal, r);
	wait_for_address(portal);
}

static void on_device_removed(struct cm_listener *listener)
{
	struct portal *portal = listener->context;

	log_warn_about(LOG_ABOUT(.portal = portal->name),
		       "portal %s: its RDMA device went away; trying every %d s", portal->name,
		       RETRY_S);
	cm_listener_close(listener);
	portal->error = -ENODEV;
	wait_for_address(portal);
}

/* ---- all portals ---------------------------------------------------------------------------- */

void portal_stop_drain(struct portal *portal)
{
	loop_timer_stop(&portal->leave_timer);
	loop_timer_stop(&portal->drain_timer);
}

void portal_init(struct portal *portal, const struct config_portal *config, enum portal_slot slot)
{
	portal_set_slot(portal, slot);
	/* The portal is not listening, so pollers read no other field of it. */
	snprintf(portal->name, sizeof(portal->name), "%s", config->name);
	portal->address = config->addr;
	if (portal_is_drained(portal))
		set_state(portal, PORTAL_CLOSED);
	portal_stop_drain(portal); /* of the slot's previous portal: it would end connections */
	portal->error = 0;
	portal->retry = (struct loop_timer){.on_expiry = on_retry};
	portal->n_accepted = portal->n_refused = 0;
}

int portals_init(struct target *target)
{
	const struct conf_list *list = &target->config->portals;
	const struct config_portal *wanted = list->items;

	target->portals = calloc(PORTALS_MAX, sizeof(struct portal));
	if (!target->portals)
		return -ENOMEM;
	for (unsigned i = 0; i < PORTALS_MAX; i++) {
		target->portals[i].target = target;
		target->portals[i].index = i;
	}
	check(list->n <= PORTALS_MAX); /* config/schema.c */
	for (unsigned i = 0; i < list->n; i++)
		portal_init(&target->portals[target->runtime.slots[i]], &wanted[i],
			    PORTAL_CONFIGURED);
	return 0;
}

void portals_prepare(struct target *target)
{
	for (unsigned i = 0; i < PORTALS_MAX; i++) {
		struct portal *portal = &target->portals[i];
		struct device_user user = {0};

		if (!portal_is_used(portal) ||
		    cm_hold_device(target->cm, &portal->address, &user) < 0)
			continue;
		(void)pollers_add_device(target, user.device); /* listening tries again */
		device_release(&user);
	}
}

int portal_open(struct portal *portal)
{
	bool is_logged;
	int r = try_listen(portal, &is_logged);

	if (r == 0)
		return 0;
	if (!is_logged)
		log_cannot_listen(portal, r);
	if (!is_missing_address(r))
		return r;
	wait_for_address(portal);
	return 0;
}

int portals_open(struct target *target)
{
	for (unsigned i = 0; i < PORTALS_MAX; i++) {
		struct portal *portal = &target->portals[i];
		bool is_closed = atomic_load(&portal->state) == PORTAL_CLOSED;
		int r = portal_is_used(portal) && is_closed ? portal_open(portal) : 0;

		if (r < 0)
			return r;
	}
	return 0;
}

/* Stops listening, if it listens or tries to. */
static void stop_listening(struct portal *portal)
{
	loop_timer_stop(&portal->retry);
	cm_listener_close(&portal->listener);
}

void portal_close(struct portal *portal)
{
	stop_listening(portal);
	set_state(portal, portal_is_drained(portal) ? PORTAL_DRAINED : PORTAL_CLOSED);
}

void portal_close_drained(struct portal *portal)
{
	stop_listening(portal);
	set_state(portal, PORTAL_DRAINED);
}

int portal_reopen(struct portal *portal)
{
	set_state(portal, PORTAL_CLOSED);
	return portal_open(portal);
}

void portals_close(struct target *target)
{
	for (unsigned i = 0; target->portals && i < PORTALS_MAX; i++)
		if (portal_is_used(&target->portals[i]))
			portal_close(&target->portals[i]);
}

void portals_deinit(struct target *target)
{
	for (unsigned i = 0; target->portals && i < PORTALS_MAX; i++) {
		check(atomic_load(&target->portals[i].state) != PORTAL_LISTENING);
		portal_stop_drain(&target->portals[i]);
	}
	free(target->portals);
	target->portals = NULL;
}
