/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See admission.h. The state of a rate is the time until which it is used up: each connection moves
 * it forward by an interval. If it is less than a burst ahead of the clock, a host reconnects with
 * all of its queues after a restart of rblkd; if it is more, the connections are a storm. One
 * address can use up half of the burst for all.
 *
 * Recent addresses are in a table of fixed size. When all of its entries are ahead of the clock,
 * further addresses are not tracked individually; only the global limits apply. Known addresses
 * have a table of their own, which always has an entry for each of them; the oldest one is
 * forgotten first. An IPv6 host can use any address in its prefix, so prefixes are counted
 * (addr_is_same_party).
 *
 * A connection is pending until its host is known: named by Connect, and authenticated if it has a
 * key.
 */
#include <stdlib.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "target/association/admission.h"
#include "target/association/connection_impl.h"
#include "target/association/host.h"
#include "target/engine/queue/queue.h"

enum {
	ADDRESSES = 256,
};

struct origin {
	union addr address;
	uint64_t paid_ns; /* in the past: the entry is free */
};

struct admission {
	/* Thread: control */
	uint64_t paid_ns[2]; /* for all known addresses together, for all strangers */
	struct origin origins[ADDRESSES];
	struct origin known[ADDRESSES];
	unsigned n_remembered; /* ever: the next one replaces the oldest */
};

struct admission *admission_new(void)
{
	return calloc(1, sizeof(struct admission));
}

void admission_free(struct admission *admission)
{
	free(admission);
}

/* ---- rates ---------------------------------------------------------------------------------- */

static struct origin *find_in(struct origin origins[static ADDRESSES], const union addr *address)
{
	for (unsigned i = 0; i < ADDRESSES; i++)
		if (addr_is_same_party(&origins[i].address, address))
			return &origins[i];
	return NULL;
}

static struct origin *find_origin(struct admission *admission, const union addr *address)
{
	struct origin *known = find_in(admission->known, address);

	return known ? known : find_in(admission->origins, address);
}

static struct origin *take_origin(struct admission *admission, const union addr *address,
				  uint64_t now_ns)
{
	struct origin *origin = find_origin(admission, address);

	for (unsigned i = 0; i < ADDRESSES && !origin; i++)
		if (admission->origins[i].paid_ns < now_ns)
			origin = &admission->origins[i];
	if (origin)
		origin->address = *address;
	return origin;
}

static bool is_used_up(uint64_t paid_ns, uint64_t rate, uint64_t burst)
{
	check(rate > 0);
	return paid_ns > clock_ns() + burst * (NSEC_PER_SEC / rate);
}

static uint64_t pay(uint64_t paid_ns, uint64_t rate, uint64_t now_ns)
{
	check(rate > 0);
	return MAX(paid_ns, now_ns) + NSEC_PER_SEC / rate;
}

void admission_pay(struct target *target, const union addr *remote)
{
	const struct config_limits *limits = &target->config->limits;
	uint64_t now_ns = clock_ns();
	struct origin *origin = take_origin(target->admission, remote, now_ns);
	uint64_t *paid_ns = &target->admission->paid_ns[admission_is_stranger(target, remote)];

	*paid_ns = pay(*paid_ns, limits->connect_rate, now_ns);
	if (origin)
		origin->paid_ns = pay(origin->paid_ns, limits->connect_rate_per_host, now_ns);
}

/* ---- known addresses ------------------------------------------------------------------------ */

bool admission_is_stranger(const struct target *target, const union addr *remote)
{
	return !find_in(target->admission->known, remote);
}

void admission_remember(struct target *target, const union addr *remote)
{
	struct admission *admission = target->admission;
	const struct origin *origin = find_origin(admission, remote);

	if (admission_is_stranger(target, remote))
		admission->known[admission->n_remembered++ % ADDRESSES] = (struct origin){
			*remote, origin ? origin->paid_ns : 0};
}

/* ---- all limits ----------------------------------------------------------------------------- */

static uint64_t count_from(const struct target *target, const union addr *remote, bool is_pending)
{
	uint64_t n = 0;

	list_for_each (node, &target->connections) {
		const struct connection *c = list_entry(node, struct connection, node);

		n += (!connection_is_admitted(c) || !is_pending) &&
		     addr_is_same_party(&c->cm->remote, remote);
	}
	return n;
}

const char *admission_refuse(const struct target *target, const union addr *remote)
{
	const struct config_limits *limits = &target->config->limits;
	bool is_stranger = admission_is_stranger(target, remote);
	unsigned n_alike = is_stranger ? target->n_strangers
				       : target->n_pending - target->n_strangers;
	const struct origin *origin;

	if (target->life == TARGET_STOPPING)
		return "rblkd is stopping";
	if (target->n_connections >= limits->connections)
		return "too many connections: raise limits.connections";
	if (limits->connections_per_address &&
	    target->n_connections >= limits->connections_per_address &&
	    count_from(target, remote, false) >= limits->connections_per_address)
		return "too many connections from there: raise limits.connections_per_address";
	if (n_alike >= limits->pending)
		return "too many connections without Connect or proof: raise limits.pending";
	if (target->n_pending >= limits->pending_per_host &&
	    count_from(target, remote, true) >= limits->pending_per_host)
		return "too many connections from there without Connect or proof: raise limits.pending_per_host";
	if (is_used_up(target->admission->paid_ns[is_stranger], limits->connect_rate,
		       limits->connections))
		return "too many connections in a short time: raise limits.connect_rate";
	origin = find_origin(target->admission, remote);
	if (origin &&
	    is_used_up(origin->paid_ns, limits->connect_rate_per_host, limits->connections / 2))
		return "too many connections from there in a short time: raise limits.connect_rate_per_host";
	return NULL;
}

const char *admission_refuse_discovery(const struct target *target, const union addr *remote)
{
	const struct config_limits *limits = &target->config->limits;
	const struct host *guest = host_find_guest(target, remote);

	if (target->n_discovery >= limits->discovery)
		return "too many discovery associations: raise limits.discovery";
	if (target->n_discovery >= MAX(limits->connections / 2, 1))
		return "discovery associations have half of limits.connections: raise it";
	if (guest && guest->n_controllers >= limits->discovery_per_address)
		return "too many discovery associations from there: raise limits.discovery_per_address";
	return NULL;
}
