/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Snapshots: built from the configuration by the control thread, which opens every backend; read by
 * pollers under RCU without a lock; freed by the control thread after a grace period.
 *
 * A namespace is counted by the snapshots that hold it, so that a new snapshot can take over what
 * did not change. What a host identifies a namespace by (UUID, NGUID) and a subsystem (serial) is
 * the same after every restart: given in the configuration, or made from the names alone.
 *
 * Failures: every backend is tried, so that one run names all that cannot be opened, each at its
 * line; then all are closed again and there is no snapshot.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/rcu.h"
#include "target/export/ana.h"
#include "target/store/grow.h"
#include "target/config/config.h"
#include "target/export/guard/guard_state.h"
#include "target/export/health/health.h"
#include "target/export/namespace_memory.h"
#include "target/export/io_errors.h"
#include "target/export/subsystem.h"

/* Names become UUIDs (version 5) within this name space. Never change it. */
static const uuid_t name_space = {0x8d, 0x1f, 0x5c, 0x3e, 0x52, 0xb7, 0x4b, 0x0e,
				  0x9a, 0x64, 0x0f, 0x2e, 0x71, 0xc9, 0xd3, 0x58};

struct builder {
	const struct target_config *config;
	struct conf *conf;
	const struct snapshot *before; /* may be NULL */
	struct snapshot *snapshot;
	bool has_failed;
};

/* ---- freeing -------------------------------------------------------------------------------- */

void namespace_free(struct namespace *ns)
{
	if (!ns)
		return;
	for (unsigned i = 0; i < DEVICE_MAX; i++)
		namespace_memory_forget(ns, i);
	health_remove_namespace(ns);
	io_errors_free(ns);
	guard_unref(ns->guard);
	if (ns->backend)
		ns->backend->ops->close(ns->backend);
	free(ns->path);
	free(ns->stats);
	free(ns);
}

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

/*
 * A host that finds another identity under a name stops using the namespace; one that finds the same
 * goes on. A store that begins empty at each start is another namespace each time, unless the
 * configuration gives it a UUID.
 */
static void choose_uuid(const struct config_subsystem *subsystem,
			const struct config_namespace *config, bool begins_empty, uuid_t ret_uuid)
{
	char name[NVMF_NQN_MAX + 16];

	if (config->uuid && uuid_parse(config->uuid, ret_uuid) == 0)
		return;
	if (begins_empty) {
		uuid_generate_random(ret_uuid);
		return;
	}
	snprintf(name, sizeof(name), "%s:%u", subsystem->nqn, (unsigned)config->nsid);
	uuid_generate_sha1(ret_uuid, name_space, name, strlen(name));
}

/* Its digits were checked. */
static void put_hex(uint8_t *bytes, size_t n, const char *text)
{
	for (size_t i = 0; i < n; i++) {
		const char pair[] = {text[2 * i], text[2 * i + 1], '\0'};

		bytes[i] = (uint8_t)strtoul(pair, NULL, 16);
	}
}

static bool open_backend(struct builder *b, const char *subnqn,
			 const struct config_namespace *config, struct namespace *ns)
{
	struct backend_config how;
	struct conf_mark mark;
	const struct backend_ops *ops = config_backend(config, &how, &mark);
	char why[512] = "";
	int r;

	ns->kind = ops->name;
	if (how.path && !(ns->path = strdup(how.path)))
		return fail_for_memory(b);
	r = ops->open(&how, &ns->backend, why, sizeof(why));
	if (r < 0) {
		fail(b, mark, why);
		if (r == -EBUSY)
			conf_note_busy(b->conf);
		return false;
	}
	if (!io_errors_watch(ns, subnqn))
		return fail_for_memory(b);
	ns->memory = ops->memory ? ops->memory(ns->backend) : NULL;
	ns->whole = ns->memory ? ns->backend->whole : NULL;
	return true;
}

static bool make_guard(struct builder *b, const struct config_namespace *config,
		       struct namespace *ns)
{
	/* What is kept for an identity that does not come back would never be found again. */
	bool comes_back = !ns->backend->ops->begins_empty || config->uuid;
	char why[512] = "";

	ns->guard = guard_new(ns->uuid, comes_back ? b->config->state : NULL, ns->memory);
	if (!ns->guard)
		return fail_for_memory(b);
	if (guard_load(ns->guard, why, sizeof(why)) < 0) {
		fail(b, config->mark, why);
		return false;
	}
	return true;
}

static struct namespace_stats *new_stats(void)
{
	size_t n_bytes = POLLERS_MAX * sizeof(struct namespace_stats);
	struct namespace_stats *stats = aligned_alloc(_Alignof(struct namespace_stats), n_bytes);

	if (stats)
		memset(stats, 0, n_bytes);
	return stats;
}

static struct namespace *namespace_new(struct builder *b, const struct config_subsystem *subsystem,
				       const struct config_namespace *config,
				       struct health_record *health)
{
	struct namespace *ns = aligned_alloc(_Alignof(struct namespace), sizeof(*ns));

	if (!ns) {
		fail_for_memory(b);
		return NULL;
	}
	memset(ns, 0, sizeof(*ns));
	ns->stats = new_stats();
	if (!ns->stats) {
		free(ns);
		fail_for_memory(b);
		return NULL;
	}
	for (unsigned i = 0; i < POLLERS_MAX; i++)
		ns->counters[i].stats = &ns->stats[i];
	ns->n_refs = 1;
	list_init(&ns->node);
	list_init(&ns->health_node);
	ns->nsid = (uint32_t)config->nsid;
	ns->block_shift = (uint8_t)log2_floor(config->block_size);
	ns->is_read_only = config->is_read_only;
	qos_init(&ns->qos);
	qos_set(&ns->qos, &config->qos);
	if (!open_backend(b, subsystem->nqn, config, ns)) {
		namespace_free(ns);
		return NULL;
	}
	choose_uuid(subsystem, config, ns->backend->ops->begins_empty, ns->uuid);
	memcpy(ns->nguid, ns->uuid, sizeof(ns->nguid));
	if (config->nguid)
		put_hex(ns->nguid, sizeof(ns->nguid), config->nguid);
	if (config->eui64)
		put_hex(ns->eui64, sizeof(ns->eui64), config->eui64);
	ns->n_blocks = ns->backend->limits.size_bytes >> ns->block_shift;
	if (!make_guard(b, config, ns)) {
		namespace_free(ns);
		return NULL;
	}
	if (health)
		health_add_namespace(health, ns);
	return ns;
}

/* What a subsystem of that name has had so far under that nsid. */
static struct namespace *find_before(const struct builder *b,
				     const struct config_subsystem *subsystem,
				     const struct config_namespace *config)
{
	const struct subsystem *before = b->before ? snapshot_find(b->before, subsystem->nqn)
						   : NULL;

	return before ? subsystem_namespace(before, (uint32_t)config->nsid) : NULL;
}

static struct namespace *take_namespace(struct builder *b, const struct config_subsystem *subsystem,
					const struct config_namespace *config,
					struct health_record *health)
{
	struct namespace *ns = find_before(b, subsystem, config);

	if (!ns)
		return namespace_new(b, subsystem, config, health);
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
	qsort(subsystem->namespaces, subsystem->n_namespaces, sizeof(*subsystem->namespaces),
	      compare_nsid);
}

/* An allowed host is named, or its NQN is given; config_check has seen that it is there. */
static const char *find_host(const struct target_config *config, const char *name)
{
	const struct config_host *hosts = config->hosts.items;

	for (unsigned i = 0; i < config->hosts.n; i++)
		if (!strcmp(hosts[i].name, name))
			return hosts[i].nqn;
	return name;
}

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
			 find_host(b->config, names[i].name));
}

static uint32_t find_portals(const struct target_config *config,
			     const struct config_subsystem *subsystem)
{
	const struct config_portal *portals = config->portals.items;
	const struct config_name *names = subsystem->portals.items;
	uint32_t mask = 0;

	for (unsigned i = 0; i < config->portals.n; i++) {
		bool is_listed = !subsystem->portals.n;

		for (unsigned j = 0; j < subsystem->portals.n && !is_listed; j++)
			is_listed = !strcmp(names[j].name, portals[i].name);
		if (is_listed)
			mask |= 1U << portals[i].slot;
	}
	return mask;
}

static void add_ana(struct builder *b, const struct config_subsystem *config,
		    struct subsystem *subsystem)
{
	const struct subsystem *before = b->before ? snapshot_find(b->before, config->nqn) : NULL;
	struct ana *ana;

	if (ana_new(b->config, config, before ? rcu_get(&before->ana) : NULL, &ana) < 0)
		fail_for_memory(b);
	else
		atomic_init(&subsystem->ana, ana);
}

static void choose_serial(const char *nqn, char ret_serial[21])
{
	uuid_t hash;

	uuid_generate_sha1(hash, name_space, nqn, strlen(nqn));
	for (unsigned i = 0; i < 10; i++)
		snprintf(ret_serial + 2 * i, 3, "%02x", hash[i]);
}

static void add_health(struct builder *b, const struct config_subsystem *config,
		       struct subsystem *subsystem)
{
	char why[512] = "";

	if (!b->config->health)
		return;
	subsystem->health = health_find(b->config->health, config->nqn);
	if (!subsystem->health)
		fail_for_memory(b);
	else if (event_log_open(subsystem->health, why, sizeof(why)) < 0)
		fail(b, config->mark, why);
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
	subsystem->portal_mask = find_portals(b->config, config);
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

struct snapshot *snapshot_build(const struct target_config *config, struct conf *conf)
{
	return snapshot_rebuild(config, conf, NULL);
}

struct snapshot *snapshot_rebuild(const struct target_config *config, struct conf *conf,
				  const struct snapshot *before)
{
	const struct config_subsystem *subsystems = config->subsystems.items;
	struct builder b = {.config = config, .conf = conf, .before = before};

	b.snapshot = calloc(1, sizeof(*b.snapshot));
	if (!b.snapshot) {
		fail_for_memory(&b);
		return NULL;
	}
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

bool subsystem_allows(const struct subsystem *subsystem, const char *hostnqn)
{
	if (subsystem->allows_any_host)
		return true;
	for (unsigned i = 0; i < subsystem->n_hosts; i++)
		if (!strcmp(subsystem->hosts[i], hostnqn))
			return true;
	return false;
}

bool subsystem_is_on_portal(const struct subsystem *subsystem, unsigned portal_index)
{
	return portal_index < 32 && subsystem->portal_mask >> portal_index & 1;
}

/* The index of the first namespace with an nsid above this one. */
static unsigned index_above(const struct subsystem *subsystem, uint32_t nsid)
{
	unsigned low = 0, high = subsystem->n_namespaces;

	while (low < high) {
		unsigned middle = (low + high) / 2;

		if (subsystem->namespaces[middle]->nsid > nsid)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

struct namespace *subsystem_namespace(const struct subsystem *subsystem, uint32_t nsid)
{
	unsigned above;

	/* Mostly they are numbered from 1 on. */
	if (nsid - 1 < subsystem->n_namespaces && subsystem->namespaces[nsid - 1]->nsid == nsid)
		return subsystem->namespaces[nsid - 1];
	above = index_above(subsystem, nsid);
	if (!above || subsystem->namespaces[above - 1]->nsid != nsid)
		return NULL;
	return subsystem->namespaces[above - 1];
}

struct namespace *subsystem_next_namespace(const struct subsystem *subsystem, uint32_t above)
{
	unsigned i = index_above(subsystem, above);

	return i < subsystem->n_namespaces ? subsystem->namespaces[i] : NULL;
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
	for (unsigned i = 0; i < snapshot->n_subsystems; i++) {
		const struct subsystem *subsystem = &snapshot->subsystems[i];

		for (unsigned j = 0; j < subsystem->n_namespaces; j++)
			namespace_memory_forget(subsystem->namespaces[j], device_index);
	}
}
