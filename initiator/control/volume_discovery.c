/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The paths of a volume follow the logs of persistent discovery controllers (discovery_service.c),
 * as long as the volume is open. Control loop only.
 *
 * The first service has the address of the volume, or, if it does not answer there, those of the
 * other paths that the user names, in turn. Those to which it refers are asked too, one step far
 * and at most DISCOVERY_REFERRALS_MAX; a service never is another one's second.
 *
 * After each log: a portal that is no path becomes one (volume_paths.c). A path that discovery has
 * added and that no log has any more leaves, if the service that had listed it last says so: one
 * that is away says nothing, and its last log stays. A path that the user names stays; an address
 * that the user has removed does not come back before it was missing in the logs.
 *
 * A path that must not go now is looked at again after a while, and at the next log: the last path
 * that lives, and one whose end would leave writes without proof or Flush.
 *
 * A volume neither fails nor waits because its discovery does.
 */
#include <stdlib.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "initiator/control/declined.h"
#include "initiator/control/discovery_service.h"
#include "initiator/control/path_impl.h"
#include "initiator/control/reconnect.h"
#include "initiator/control/volume_discovery.h"
#include "initiator/control/volume_impl.h"
#include "initiator/control/volume_paths.h"
#include "initiator/io/queue_impl.h"

_Static_assert((int)VOLUME_SERVICES_MAX == 1 + (int)DISCOVERY_REFERRALS_MAX, "room for each");

#define RETRY_MIN_NS (1 * NSEC_PER_SEC)

#define for_each_service(it, volume)                                                               \
	for (struct discovery_service *it = NULL, *const *it##_at = (volume)->discovery.services;  \
	     it##_at < (volume)->discovery.services + VOLUME_SERVICES_MAX; it##_at++)              \
		if ((it = *it##_at) && it->phase != DISCOVERY_ENDING)

/* ---- what the logs have ---- */

static struct discovery_service *find_lister(const struct volume *volume, const union addr *portal)
{
	for_each_service(s, volume) if (discovery_service_lists(s, portal)) return s;
	return NULL;
}

/* The service that listed the path last has a log. */
static bool has_vanished(const struct volume *volume, const struct path *path)
{
	for_each_service(s, volume) if (s->has_log && addr_is_equal(&s->config.address,
								    &path->found_at)) return true;
	return false;
}

static void forget_declined(struct volume *volume)
{
	struct declined *declined = &volume->discovery.declined;

	for_each_service(s, volume) if (!s->has_log) return;
	for (unsigned i = declined->n; i-- > 0;)
		if (!find_lister(volume, &declined->addresses[i]))
			declined_remove(declined, &declined->addresses[i]);
}

/* ---- paths come ---- */

static bool is_any_leaving(const struct volume *volume)
{
	for_each_path(path, volume) if (path->wish != PATH_WISH_KEEP) return true;
	return false;
}

static void warn(struct volume *volume, const struct error *error)
{
	if (!volume->discovery.has_warned)
		log_warn(VOLUME_FMT ": a portal is left out: %s", VOLUME_ARG(volume),
			 error->message);
	volume->discovery.has_warned = true;
}

/* False: it is to be tried again. */
static bool add_path(struct volume *volume, const struct discovery_service *s,
		     const union addr *address)
{
	char portal[ADDR_STRING_MAX], service[ADDR_STRING_MAX];
	struct error error;

	if (volume_path_add_found(volume, address, &s->config.address, &error) == 0) {
		volume->discovery.has_warned = false;
		log_info(VOLUME_FMT ": %s is a path now: the discovery at %s lists it",
			 VOLUME_ARG(volume), addr_format(portal, address),
			 addr_format(service, &s->config.address));
		return true;
	}
	if (is_any_leaving(volume))
		return false;
	warn(volume, &error);
	return true;
}

static bool add_paths(struct volume *volume, const struct discovery_service *s)
{
	bool is_done = true;

	for (unsigned i = 0; i < s->n_portals; i++) {
		const union addr *address = &s->portals[i];

		if (!volume_path_find(volume, address) &&
		    !declined_has(&volume->discovery.declined, address))
			is_done &= add_path(volume, s, address);
	}
	return is_done;
}

/* ---- paths go ---- */

/* If it may go now. */
static void let_go(struct volume *volume, struct path *path)
{
	char address[ADDR_STRING_MAX];

	if (path->wish != PATH_WISH_KEEP || volume_path_leave_found(path) < 0)
		return;
	log_info(VOLUME_FMT ": %s leaves: it is in no discovery log any more", VOLUME_ARG(volume),
		 addr_format(address, &path->config.address));
}

/* True: none is left that is to go. Until then it is looked at again: it may not be able to go, or
 * be in a log again when it is gone. */
static bool remove_paths(struct volume *volume)
{
	const struct discovery_service *lister;
	bool is_done = true;

	for_each_path(path, volume)
	{
		if (!path_is_found(path))
			continue;
		lister = find_lister(volume, &path->config.address);
		if (lister)
			path->found_at = lister->config.address;
		if (lister || !has_vanished(volume, path))
			continue;
		let_go(volume, path);
		is_done = false;
	}
	return is_done;
}

static void look(struct volume *volume)
{
	bool is_done;

	forget_declined(volume);
	is_done = remove_paths(volume);
	for_each_service(s, volume) is_done &= add_paths(volume, s);
	if (is_done)
		loop_timer_stop(&volume->discovery.retry);
	else
		loop_timer_start(volume->control, &volume->discovery.retry,
				 MAX(volume->config.reconnect_delay_ns, RETRY_MIN_NS));
}

static void on_retry(struct loop_timer *timer)
{
	look(container_of(timer, struct volume, discovery.retry));
}

/* ---- services ---- */

static const struct discovery_service_ops service_ops;

static struct discovery_service *first_service(const struct volume *volume)
{
	return volume->discovery.services[0];
}

/* At this place, which is free. -ENOMEM: without it, then. */
static void start_service(struct volume *volume, unsigned place, const union addr *address,
			  const union addr *referred_by)
{
	struct discovery_service *s = calloc(1, sizeof(*s));

	if (!s)
		return;
	discovery_service_init(s, volume, volume->control, volume->cm, &volume->config, address,
			       &service_ops);
	if (referred_by)
		s->referred_by = *referred_by;
	volume->discovery.services[place] = s;
	discovery_service_wait(s);
}

static bool is_referred_to(const struct discovery_service *first, const union addr *address)
{
	for (unsigned i = 0; i < first->n_referrals; i++)
		if (addr_is_equal(&first->referrals[i], address))
			return true;
	return false;
}

static struct discovery_service *find_service(const struct volume *volume,
					      const union addr *address)
{
	for_each_service(s, volume) if (addr_is_equal(&s->config.address, address)) return s;
	return NULL;
}

static void start_referral(struct volume *volume, const union addr *address,
			   const union addr *referred_by)
{
	struct discovery_service *const *services = volume->discovery.services;

	for (unsigned i = 1; i < VOLUME_SERVICES_MAX; i++) {
		if (services[i])
			continue;
		start_service(volume, i, address, referred_by);
		return;
	}
}

/* It is not referred to any more. If the service that did says so, it speaks for its paths, too. */
static void end_referral(struct volume *volume, struct discovery_service *s)
{
	const union addr *first = &first_service(volume)->config.address;

	if (addr_is_equal(&s->referred_by, first))
		for_each_path(path, volume) if (path_is_found(path) &&
						addr_is_equal(&path->found_at, &s->config.address))
			path->found_at = *first;
	discovery_service_end(s);
}

static void follow_referrals(struct volume *volume)
{
	const struct discovery_service *first = first_service(volume);

	for_each_service(s, volume)
	{
		if (s == first)
			continue;
		if (is_referred_to(first, &s->config.address))
			s->referred_by = first->config.address;
		else
			end_referral(volume, s);
	}
	for (unsigned i = 0; i < first->n_referrals; i++)
		if (!find_service(volume, &first->referrals[i]))
			start_referral(volume, &first->referrals[i], &first->config.address);
}

static void say_left_out(const struct discovery_service *s)
{
	char address[ADDR_STRING_MAX];

	if (s->n_left_out)
		log_debug(VOLUME_FMT ": %u entries of the discovery at %s are left out",
			  VOLUME_ARG(s->volume), s->n_left_out,
			  addr_format(address, &s->config.address));
}

static void say_back(const struct discovery_service *s)
{
	char address[ADDR_STRING_MAX];

	if (s->n_logs == 1 && *s->last_error.message)
		log_info(VOLUME_FMT ": discovery at %s answers again", VOLUME_ARG(s->volume),
			 addr_format(address, &s->config.address));
}

static void on_log(struct discovery_service *s)
{
	say_back(s);
	say_left_out(s);
	if (s == first_service(s->volume))
		follow_referrals(s->volume);
	look(s->volume);
}

/* Not for each attempt. */
static void on_down(struct discovery_service *s)
{
	char address[ADDR_STRING_MAX];

	log_write(s->n_attempts <= 1 ? LOG_WARN : LOG_DEBUG,
		  VOLUME_FMT ": discovery at %s: %s; tried again", VOLUME_ARG(s->volume),
		  addr_format(address, &s->config.address), s->last_error.message);
}

/* The path that the user names after that with this address, in a circle. NULL: there is none. */
static const struct path *named_after(const struct volume *volume, const union addr *address)
{
	const struct path *first = NULL;
	bool is_after = false;

	for_each_path(path, volume)
	{
		if (path_is_found(path) || path->wish != PATH_WISH_KEEP)
			continue;
		if (is_after)
			return path;
		first = first ?: path;
		is_after = addr_is_equal(&path->config.address, address);
	}
	return first;
}

static void on_idle(struct discovery_service *s)
{
	const struct path *next = named_after(s->volume, &s->config.address);

	if (s == first_service(s->volume) && s->n_attempts && next &&
	    !addr_is_equal(&next->config.address, &s->config.address))
		discovery_service_move_to(s, &next->config.address);
	discovery_service_wait(s);
}

static void on_ended(struct discovery_service *s)
{
	struct volume *volume = s->volume;
	const struct discovery_service *first = first_service(volume);

	for (unsigned i = 0; i < VOLUME_SERVICES_MAX; i++)
		if (volume->discovery.services[i] == s)
			volume->discovery.services[i] = NULL;
	if (s != first && first && first->phase != DISCOVERY_ENDING && first->has_log)
		follow_referrals(volume); /* one may have waited for the place */
	free(s);
	reconnect_look_whether_over(volume);
}

static const struct discovery_service_ops service_ops = {
	.on_log = on_log,
	.on_down = on_down,
	.on_idle = on_idle,
	.on_ended = on_ended,
};

/* ---- first and last ---- */

/* Starts the services of the paths with which it begins (find_paths.c). The referral may be gone
 * before it is read again, and then its service has to be there to end. */
static void start_first_referrals(struct volume *volume)
{
	const union addr *by = &volume->config.found_by;

	for_each_path(path, volume) if (path_is_found(path) &&
					!addr_is_equal(&path->found_at, by) &&
					!find_service(volume, &path->found_at))
		start_referral(volume, &path->found_at, by);
}

void volume_discovery_begin(struct volume *volume)
{
	if (!volume->config.finds_paths)
		return;
	volume->discovery.retry.on_expiry = on_retry;
	start_service(volume, 0, &volume->config.address, NULL);
	start_first_referrals(volume);
}

void volume_discovery_end(struct volume *volume)
{
	loop_timer_stop(&volume->discovery.retry);
	for_each_service(s, volume) discovery_service_end(s);
}

/* ---- status ---- */

static const char *state_of(const struct discovery_service *s)
{
	if (s->phase == DISCOVERY_LIVE)
		return "live";
	if (s->n_refusals)
		return "refused";
	return s->live_since_ns ? "lost" : "connecting";
}

unsigned volume_discovery_get(const struct volume *volume, struct volume_service_status *ret)
{
	unsigned n = 0;

	for_each_service(s, volume) ret[n++] = (struct volume_service_status){
		.address = s->config.address,
		.state = state_of(s),
		.state_since_ns = s->phase_since_ns,
		.is_referral = s->referred_by.sa.sa_family != 0,
		.has_log = s->has_log,
		.generation = s->genctr,
		.changed_ns = s->changed_ns,
		.n_portals = s->n_portals,
		.last_error = s->last_error,
	};
	return n;
}
