/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Snapshots. The control thread builds one from the configuration, and opens every backend. Pollers
 * read it under RCU without a lock. The control thread frees it after a grace period.
 *
 * The snapshots that hold a namespace count it, so that a new snapshot can take over what did not
 * change. A subsystem's serial number is the same after every restart: from the configuration, or
 * derived from the NQN alone.
 *
 * Failures: every backend is tried, so that one run reports all that cannot be opened, each at its
 * line. Then all are closed again, and there is no snapshot.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/conf_report.h"
#include "base/rcu.h"
#include "target/config/store.h"
#include "target/export/ana.h"
#include "target/export/health/event_log.h"
#include "target/export/health/record.h"
#include "target/export/namespace_new.h"
#include "target/store/grow.h"
#include "target/store/standby.h"
#include "target/config/config.h"
#include "target/export/handover.h"
#include "target/export/guard/guard_state.h"
#include "target/export/health/health.h"
#include "target/export/namespace_memory.h"
#include "target/export/io_errors.h"
#include "target/export/snapshot.h"

struct builder {
	const struct target_config *config;
	const struct snapshot_runtime *runtime;
	struct conf *conf;
	const struct snapshot *before; /* may be NULL */
	struct snapshot *snapshot;
	bool has_failed;
};

/* ---- freeing -------------------------------------------------------------------------------- */

void snapshot_retire(struct snapshot *snapshot, struct list *namespaces)
{
	if (!snapshot)
		return;
	for (unsigned i = 0; i < snapshot->n_subsystems; i++) {
		struct subsystem *subsystem = &snapshot->subsystems[i];

		for (unsigned j = 0; j < subsystem->n_namespaces; j++) {
			struct namespace *ns = subsystem->namespaces[j];

			check(ns->n_refs > 0);
			if (--ns->n_refs == 0)
				list_add_tail(namespaces, &ns->node);
		}
		free(subsystem->namespaces);
		free(subsystem->hosts);
		free(rcu_get(&subsystem->ana));
	}
	free(snapshot->subsystems);
	free(snapshot->referrals);
	credentials_release(&snapshot->credentials);
	free(snapshot);
}

void snapshot_settle(const struct snapshot *snapshot)
{
	for (unsigned i = 0; snapshot && i < snapshot->n_subsystems; i++)
		for (unsigned j = 0; j < snapshot->subsystems[i].n_namespaces; j++)
			guard_settle(snapshot->subsystems[i].namespaces[j]->guard);
}

void snapshot_free(struct snapshot *snapshot)
{
	struct list namespaces, *node;

	list_init(&namespaces);
	snapshot_retire(snapshot, &namespaces);
	while ((node = list_take_first(&namespaces)))
		namespace_free(list_entry(node, struct namespace, node));
}

void snapshot_keep(struct snapshot *snapshot)
{
	for (unsigned i = 0; i < snapshot->n_subsystems; i++)
		for (unsigned j = 0; j < snapshot->subsystems[i].n_namespaces; j++)
			backend_keep_grown(snapshot->subsystems[i].namespaces[j]->backend);
}

unsigned snapshot_discard(struct snapshot *snapshot)
{
	struct list namespaces, *node;
	unsigned n_left = 0;

	list_init(&namespaces);
	snapshot_retire(snapshot, &namespaces);
	while ((node = list_take_first(&namespaces))) {
		struct namespace *ns = list_entry(node, struct namespace, node);

		if (ns->backend && ns->backend->is_created && unlink(ns->path) == 0)
			log_info("%s: removed again", ns->path);
		else if (ns->backend)
			n_left += !backend_undo_grow(ns->backend);
		namespace_free(ns);
	}
	return n_left;
}

/* ---- building ------------------------------------------------------------------------------- */

static void fail(struct builder *b, struct conf_mark mark, const char *why)
{
	conf_error(b->conf, mark, "%s", why);
	b->has_failed = true;
}

static bool fail_for_memory(struct builder *b)
{
	fail(b, (struct conf_mark){0}, "out of memory");
	return false;
}

/* The namespace with that nsid in the previous subsystem of that name. */
static struct namespace *find_before(const struct snapshot *before,
				     const struct config_subsystem *subsystem,
				     const struct config_namespace *config)
{
	const struct subsystem *found = before ? snapshot_find(before, subsystem->nqn) : NULL;

	return found ? subsystem_namespace(found, (uint32_t)config->nsid) : NULL;
}

static bool prepare_store(const struct config_subsystem *subsystem,
			  const struct config_namespace *config)
{
	struct backend_config how;
	struct conf_mark mark;
	const struct backend_ops *ops = config_backend(config, &how, &mark);

	if (config_has_owner(subsystem, config))
		how.role = BACKEND_LOOKS;
	return !ops->prepare || ops->prepare(&how) != -EINPROGRESS;
}

bool snapshot_prepare(const struct target_config *config, const struct snapshot *before)
{
	const struct config_subsystem *subsystems = config->subsystems.items;
	bool is_ready = true;

	for (unsigned i = 0; i < config->subsystems.n; i++) {
		const struct config_namespace *namespaces = subsystems[i].namespaces.items;

		for (unsigned j = 0; j < subsystems[i].namespaces.n; j++)
			if (!find_before(before, &subsystems[i], &namespaces[j]))
				is_ready &= prepare_store(&subsystems[i], &namespaces[j]);
	}
	return is_ready;
}

/* Its group has an owner, which this rblkd may become: operations/ownership. */
static bool stand_by(const struct config_namespace *config, struct backend **ret_backend,
		     struct error *error, struct conf_mark *ret_mark)
{
	struct backend_config how;
	const struct backend_ops *ops = config_backend(config, &how, ret_mark);
	int r = backend_stand_by(ops, &how, ret_backend, error);

	if (r < 0)
		error->code = EXIT_CONFIG;
	return r == 0;
}

static struct namespace *open_namespace(struct builder *b, const struct config_subsystem *subsystem,
					const struct config_namespace *config,
					struct health_record *health)
{
	const struct handover_namespace *handover = handover_find(
		b->runtime->handover, subsystem->nqn, (uint32_t)config->nsid);
	struct namespace_origin from = {.subnqn = subsystem->nqn,
					.handover = handover,
					.config = config,
					.state = b->runtime->state,
					.health = health};
	struct error error;
	struct conf_mark mark;
	struct namespace *ns = NULL;

	if (!config_has_owner(subsystem, config) || stand_by(config, &from.backend, &error, &mark))
		ns = namespace_new(&from, &error, &mark);
	if (ns)
		return ns;
	conf_report(b->conf, mark, &error);
	b->has_failed = true;
	return NULL;
}

static struct namespace *take_namespace(struct builder *b, const struct config_subsystem *subsystem,
					const struct config_namespace *config,
					struct health_record *health)
{
	struct namespace *ns = find_before(b->before, subsystem, config);

	if (!ns)
		return open_namespace(b, subsystem, config, health);
	ns->n_refs++;
	return ns;
}

static int compare_nsid(const void *a, const void *b)
{
	const struct namespace *const *x = a, *const *y = b;

	return ((*x)->nsid > (*y)->nsid) - ((*x)->nsid < (*y)->nsid);
}

static void add_namespaces(struct builder *b, const struct config_subsystem *config,
			   struct subsystem *subsystem)
{
	const struct config_namespace *namespaces = config->namespaces.items;

	subsystem->namespaces = calloc(config->namespaces.n + 1, sizeof(*subsystem->namespaces));
	if (!subsystem->namespaces) {
		fail_for_memory(b);
		return;
	}
	for (unsigned i = 0; i < config->namespaces.n; i++) {
		struct namespace *ns = take_namespace(b, config, &namespaces[i], subsystem->health);

		if (ns)
			subsystem->namespaces[subsystem->n_namespaces++] = ns;
	}
	check(subsystem->n_namespaces <= config->namespaces.n);
	qsort(subsystem->namespaces, subsystem->n_namespaces, sizeof(*subsystem->namespaces),
	      compare_nsid);
}

/* config_check has checked that each name exists. */
static void add_hosts(struct builder *b, const struct config_subsystem *config,
		      struct subsystem *subsystem)
{
	const struct config_name *names = config->allow_hosts.items;

	subsystem->allows_any_host = config->allows_any_host;
	subsystem->hosts = calloc(config->allow_hosts.n + 1, sizeof(*subsystem->hosts));
	if (!subsystem->hosts) {
		fail_for_memory(b);
		return;
	}
	for (unsigned i = 0; i < config->allow_hosts.n; i++)
		snprintf(subsystem->hosts[subsystem->n_hosts++], sizeof(*subsystem->hosts), "%s",
			 config_host_nqn(b->config, names[i].name));
}

static_assert((unsigned)PORTALS_MAX <= 32, "struct subsystem, portal_mask");

static uint32_t find_portals(const struct builder *b, const struct config_subsystem *subsystem)
{
	const struct config_portal *portals = b->config->portals.items;
	const struct config_name *names = subsystem->portals.items;
	uint32_t mask = 0;

	for (unsigned i = 0; i < b->config->portals.n; i++) {
		bool is_listed = !subsystem->portals.n;

		for (unsigned j = 0; j < subsystem->portals.n && !is_listed; j++)
			is_listed = !strcmp(names[j].name, portals[i].name);
		if (is_listed) {
			check(b->runtime->slots[i] < PORTALS_MAX);
			mask |= 1U << b->runtime->slots[i];
		}
	}
	return mask;
}

static void add_ana(struct builder *b, const struct config_subsystem *config,
		    struct subsystem *subsystem)
{
	const struct subsystem *before = b->before ? snapshot_find(b->before, config->nqn) : NULL;
	struct ana *ana;

	if (ana_new(b->config, b->runtime->slots, config, before ? rcu_get(&before->ana) : NULL,
		    &ana) < 0)
		fail_for_memory(b);
	else
		atomic_init(&subsystem->ana, ana);
}

static void choose_serial(const char *nqn, char ret_serial[21])
{
	uuid_t hash;

	namespace_uuid_of_name(nqn, hash);
	for (unsigned i = 0; i < 10; i++)
		snprintf(ret_serial + 2 * i, 3, "%02x", hash[i]);
}

static void add_health(struct builder *b, const struct config_subsystem *config,
		       struct subsystem *subsystem)
{
	struct error error;

	if (!b->runtime->health)
		return;
	subsystem->health = health_find(b->runtime->health, config->nqn);
	if (!subsystem->health)
		fail_for_memory(b);
	else if (event_log_open(subsystem->health, &error) < 0)
		fail(b, config->mark, error.message);
}

static void subsystem_init(struct builder *b, const struct config_subsystem *config,
			   struct subsystem *subsystem)
{
	snprintf(subsystem->nqn, sizeof(subsystem->nqn), "%s", config->nqn);
	snprintf(subsystem->model, sizeof(subsystem->model), "%s",
		 config->model ? config->model : "rblk");
	if (config->serial)
		snprintf(subsystem->serial, sizeof(subsystem->serial), "%s", config->serial);
	else
		choose_serial(config->nqn, subsystem->serial);
	subsystem->portal_mask = find_portals(b, config);
	add_health(b, config, subsystem);
	add_hosts(b, config, subsystem);
	add_namespaces(b, config, subsystem);
	add_ana(b, config, subsystem);
}

static void add_discovery(struct builder *b)
{
	const struct config_discovery *config = &b->config->discovery;
	const struct config_referral *referrals = config->referrals.items;
	struct snapshot *snapshot = b->snapshot;

	snprintf(snapshot->discovery_nqn, sizeof(snapshot->discovery_nqn), "%s",
		 config->nqn ? config->nqn : "");
	snapshot->referrals = calloc(config->referrals.n + 1, sizeof(*snapshot->referrals));
	if (!snapshot->referrals) {
		fail_for_memory(b);
		return;
	}
	for (unsigned i = 0; i < config->referrals.n; i++) {
		struct referral *r = &snapshot->referrals[snapshot->n_referrals++];

		r->adrfam = strchr(referrals[i].address, ':') ? NVMF_ADRFAM_IPV6 : NVMF_ADRFAM_IPV4;
		snprintf(r->traddr, sizeof(r->traddr), "%s", referrals[i].address);
		snprintf(r->trsvcid, sizeof(r->trsvcid), "%u", (unsigned)referrals[i].port);
		snprintf(r->nqn, sizeof(r->nqn), "%s", referrals[i].nqn);
	}
}

void snapshot_runtime_init(struct snapshot_runtime *runtime)
{
	*runtime = (struct snapshot_runtime){0};
	for (unsigned i = 0; i < PORTALS_MAX; i++)
		runtime->slots[i] = (uint8_t)i;
}

struct snapshot *snapshot_build(const struct target_config *config,
				const struct snapshot_runtime *runtime, struct conf *conf,
				const struct snapshot *before)
{
	const struct config_subsystem *subsystems = config->subsystems.items;
	struct builder b = {.config = config, .runtime = runtime, .conf = conf, .before = before};

	b.snapshot = calloc(1, sizeof(*b.snapshot));
	if (!b.snapshot) {
		fail_for_memory(&b);
		return NULL;
	}
	snapshot_prepare(config, before); /* they open side by side, and each open takes its own */
	b.snapshot->generation = before ? before->generation + 1 : 1;
	b.snapshot->subsystems = calloc(config->subsystems.n + 1, sizeof(*b.snapshot->subsystems));
	if (!b.snapshot->subsystems)
		fail_for_memory(&b);
	for (unsigned i = 0; b.snapshot->subsystems && i < config->subsystems.n; i++) {
		b.snapshot->n_subsystems++;
		subsystem_init(&b, &subsystems[i], &b.snapshot->subsystems[i]);
	}
	add_discovery(&b);
	if (credentials_load(config, conf, &b.snapshot->credentials) < 0)
		b.has_failed = true;
	if (b.has_failed) {
		if (snapshot_discard(b.snapshot))
			conf_error(conf, (struct conf_mark){0},
				   "files that were made larger for it stay so: see the log");
		return NULL;
	}
	return b.snapshot;
}

/* ---- looking up ----------------------------------------------------------------------------- */

bool snapshot_next(const struct snapshot *snapshot, struct namespace_at *at)
{
	for (; at->i < snapshot->n_subsystems; at->i++, at->j = 0) {
		at->subsystem = &snapshot->subsystems[at->i];
		if (at->j == at->subsystem->n_namespaces)
			continue;
		at->ns = at->subsystem->namespaces[at->j++];
		return true;
	}
	return false;
}

const struct subsystem *snapshot_find(const struct snapshot *snapshot, const char *subnqn)
{
	for (unsigned i = 0; i < snapshot->n_subsystems; i++)
		if (!strcmp(snapshot->subsystems[i].nqn, subnqn))
			return &snapshot->subsystems[i];
	return NULL;
}

bool snapshot_is_discovery(const struct snapshot *snapshot, const char *subnqn)
{
	return !strcmp(subnqn, NVMF_DISCOVERY_NQN) ||
	       (*snapshot->discovery_nqn && !strcmp(subnqn, snapshot->discovery_nqn));
}

/* ---- memory --------------------------------------------------------------------------------- */

void snapshot_register_memory(struct snapshot *snapshot, const struct domain *domain)
{
	char what[NVMF_NQN_MAX + 32];

	for (unsigned i = 0; i < snapshot->n_subsystems; i++) {
		const struct subsystem *subsystem = &snapshot->subsystems[i];

		for (unsigned j = 0; j < subsystem->n_namespaces; j++) {
			struct namespace *ns = subsystem->namespaces[j];

			snprintf(what, sizeof(what), "%s, namespace %u", subsystem->nqn, ns->nsid);
			namespace_memory_register(ns, domain, what);
		}
	}
}

void snapshot_forget_memory(struct snapshot *snapshot, unsigned device_index)
{
	for (unsigned i = 0; snapshot && i < snapshot->n_subsystems; i++) {
		const struct subsystem *subsystem = &snapshot->subsystems[i];

		for (unsigned j = 0; j < subsystem->n_namespaces; j++)
			namespace_memory_forget(subsystem->namespaces[j], device_index);
	}
}
