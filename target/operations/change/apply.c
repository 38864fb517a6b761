/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rblkctl apply; apply_log.c has SIGHUP. Control thread.
 *
 *   read --> compare --> prepare --------------------------------> commit
 *   (as      (config_    slots, snapshot with new backends,        sizes, snapshot pointer,
 *   --check) diff.c)     portals, larger stores: all can fail,     configuration, portals; hosts
 *                        and is undone                             are notified
 *
 * The pollers see one pointer change. Namespaces that stay are the same objects in both snapshots.
 * Stores grow last, when all else is prepared, and each is made small again if another cannot grow.
 * Commands that use a removed namespace finish first (retire.c); the next ones find no such
 * namespace. The associations of a host that is no longer allowed end at once; those through a
 * removed portal stay. users.c finds the hosts that lose something, for the report.
 *
 * A new snapshot is made even if the file is unchanged, because what it refers to may have changed
 * (a file has grown, a key was replaced).
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/check.h"
#include "base/cleanup.h"
#include "base/conf_read.h"
#include "base/conf_report.h"
#include "base/rcu.h"
#include "base/units.h"
#include "target/association/connection.h"
#include "target/config/store.h"
#include "target/export/ana.h"
#include "target/operations/change/apply.h"
#include "target/engine/request/slow.h"
#include "target/association/controller.h"
#include "target/command/admin/notice.h"
#include "target/export/durability.h"
#include "target/export/health/health.h"
#include "target/association/host.h"
#include "target/association/host_id.h"
#include "target/operations/change/portal_change.h"
#include "target/operations/change/store_sizes.h"
#include "target/export/namespace_size.h"

struct apply {
	struct target *target;
	struct target_config config;	 /* the new one; after the commit the old one */
	struct snapshot_runtime runtime; /* for it */
	struct conf *conf;
	struct credentials_list credentials; /* of the new configuration, until it is compared */
	FILE *out;			     /* writes report->messages */
	const struct snapshot *before;
	struct snapshot *after;
	struct apply_report *report;
};

__attribute__((format(printf, 3, 4))) static bool refuse(struct apply *a, enum exit_code code,
							 const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	error_set_list(&a->report->error, code, NULL, fmt, args);
	va_end(args);
	return false;
}

/* ---- namespaces that stay ------------------------------------------------------------------- */

struct kept {
	const struct config_subsystem *subsystem;
	const struct config_namespace *config; /* the new one */
	struct namespace *ns;
};

/* Ends with false at the first false from visit. */
static bool for_each_kept(struct apply *a, bool (*visit)(struct apply *a, const struct kept *kept))
{
	const struct config_subsystem *subsystems = a->config.subsystems.items;

	for (unsigned i = 0; i < a->config.subsystems.n; i++) {
		const struct config_namespace *namespaces = subsystems[i].namespaces.items;
		const struct subsystem *before = snapshot_find(a->before, subsystems[i].nqn);

		for (unsigned j = 0; before && j < subsystems[i].namespaces.n; j++) {
			struct kept kept = {.subsystem = &subsystems[i], .config = &namespaces[j]};

			kept.ns = subsystem_namespace(before, (uint32_t)namespaces[j].nsid);
			if (kept.ns && !visit(a, &kept))
				return false;
		}
	}
	return true;
}

/* A change that is not in the configuration: the backing store has grown. */
static bool look_at_size(struct apply *a, const struct kept *kept)
{
	char name[NVMF_NQN_MAX + 16], was[UNITS_MAX], is[UNITS_MAX];
	struct backend *backend = kept->ns->backend;
	struct error error;

	if (config_namespace_bytes(kept->config))
		return true;
	snprintf(name, sizeof(name), "%s/%u", kept->subsystem->nqn, kept->ns->nsid);
	if (namespace_prepare_size(kept->ns, 0, false, &error) < 0)
		fprintf(a->out, "warning: namespace %s keeps its size: %s\n", name, error.message);
	else if (backend->limits.size_bytes != namespace_bytes(kept->ns))
		config_changes_add(
			&a->report->changes,
			&(struct config_change){
				.kind = CHANGE_VALUE,
				.what = "namespace",
				.name = name,
				.key = "size",
				.before = units_format_exact(was, namespace_bytes(kept->ns)),
				.after = units_format_exact(is, backend->limits.size_bytes),
				.is_live = true});
	return true;
}

static bool check_size(struct apply *a, const struct kept *kept)
{
	uint64_t size = config_namespace_bytes(kept->config);
	struct error error;

	if (size && namespace_check_size(kept->ns, size, &error) < 0)
		return refuse(a, EXIT_FAILED, "%s", error.message);
	return true;
}

/* Whether a group has an owner is settled when its namespaces are opened, and which group it is. */
static bool check_owner(struct apply *a, const struct kept *kept)
{
	const struct config_subsystem *before = config_find_subsystem(a->target->config,
								      kept->subsystem->nqn);
	const struct config_namespace *was = before ? config_find_namespace(before, kept->ns->nsid)
						    : NULL;
	bool had_owner = was && config_has_owner(before, was);
	bool has_owner = config_has_owner(kept->subsystem, kept->config);

	if (had_owner == has_owner && (!has_owner || was->ana_group == kept->config->ana_group))
		return true;
	return refuse(a, EXIT_FAILED,
		      "namespace %s/%u: whether its group has an owner by lock, and which group, "
		      "cannot change while it is exported: remove it, apply, then add it",
		      kept->subsystem->nqn, kept->ns->nsid);
}

static bool forget_size(struct apply *a, const struct kept *kept)
{
	a->report->n_left += !namespace_forget_size(kept->ns);
	return true;
}

static bool prepare_size(struct apply *a, const struct kept *kept)
{
	uint64_t size = config_namespace_bytes(kept->config);
	struct error error;

	if (!size || size == namespace_bytes(kept->ns))
		return true;
	if (namespace_prepare_size(kept->ns, size, false, &error) < 0)
		return refuse(a, EXIT_FAILED, "%s", error.message);
	return true;
}

static bool publish_qos(struct apply *a, const struct kept *kept)
{
	qos_set(&kept->ns->qos, &kept->config->qos);
	return true;
}

static bool publish_size(struct apply *a, const struct kept *kept)
{
	uint64_t size = config_namespace_bytes(kept->config);
	uint64_t old_size = namespace_bytes(kept->ns);

	/* A store that shrank, or does not fit the blocks, has a warning already. */
	if (kept->ns->backend->limits.size_bytes < old_size ||
	    (!size && kept->ns->backend->limits.size_bytes & ((1U << kept->ns->block_shift) - 1)))
		return true;
	namespace_publish_size(kept->ns);
	if (namespace_bytes(kept->ns) != old_size)
		notice_namespace(a->target, kept->subsystem->nqn, kept->ns->nsid);
	return true;
}

/* ---- reading and comparing ------------------------------------------------------------------ */

static bool read_file(struct apply *a, const char *path)
{
	struct stat st;

	if (!strcmp(path, "-"))
		return refuse(a, EXIT_USAGE,
			      "rblkd has read its configuration from standard input: name a file");
	/* If it is a pipe, the control thread must not wait for its writer. */
	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
		return refuse(a, EXIT_USAGE, "%s is no regular file: name one", path);
	if (config_read(path, &a->config, a->out, &a->conf) == 0)
		return true;
	a->report->error.code = EXIT_CONFIG;
	return false;
}

/* Another change that is not in the configuration: a file has other secrets. */
static void look_at_secrets(struct apply *a, const struct config_host *host)
{
	const struct credentials *before = credentials_find(&a->before->credentials, host->nqn);
	const struct credentials *after = credentials_find(&a->credentials, host->nqn);

	if (!before || !after || credentials_are_same(before, after))
		return;
	config_changes_add(&a->report->changes,
			   &(struct config_change){.kind = CHANGE_VALUE,
						   .what = "host",
						   .name = host->name,
						   .key = "secrets",
						   .before = "as read",
						   .after = "other contents of its files",
						   .is_live = true});
}

static bool compare_secrets(struct apply *a)
{
	const struct config_host *hosts = a->config.hosts.items;

	if (credentials_load(&a->config, a->conf, &a->credentials) < 0) {
		a->report->error.code = EXIT_CONFIG;
		return false;
	}
	for (unsigned i = 0; i < a->config.hosts.n; i++)
		look_at_secrets(a, &hosts[i]);
	return true;
}

/* "tuning workers": for the message. */
static bool refuse_fixed(struct apply *a, const struct config_change *change)
{
	return refuse(
		a, EXIT_FAILED,
		"%s%s%s%s%s cannot change while rblkd runs: nothing was changed; to change it, restart rblkd",
		change->what, *change->name ? " " : "", change->name, *change->key ? ": " : "",
		change->key);
}

static bool compare(struct apply *a)
{
	struct config_changes *changes = &a->report->changes;
	const struct outlook outlook = {a->target, &a->config, &a->credentials};

	if (config_diff(a->target->config, &a->config, changes) < 0)
		return refuse(a, EXIT_FAILED, "out of memory");
	if (!config_changes_find_fixed(changes))
		for_each_kept(a, look_at_size);
	if (!compare_secrets(a))
		return false;
	if (change_users_find(&outlook, changes, &a->report->users) < 0)
		return refuse(a, EXIT_FAILED, "out of memory");
	return changes->has_failed ? refuse(a, EXIT_FAILED, "out of memory") : true;
}

/* One line for the refusal; the report names all users. */
static bool refuse_used(struct apply *a)
{
	const struct change_user *user = &a->report->users.items[0];
	const char *why = change_user_reason(user);

	check(a->report->users.n > 0 && user->change < a->report->changes.n);
	return refuse(a, EXIT_BUSY, "%s is in use by host %s%s%s%s: nothing was changed",
		      user->object, user->host, *why ? " (" : "", why, *why ? ")" : "");
}

/* ---- preparing ------------------------------------------------------------------------------ */

static void register_memory(struct apply *a)
{
	for (unsigned i = 0; i < DEVICE_MAX; i++) {
		const struct domain *domain = &a->target->devices[i].domain;

		if (domain->pd && !domain->device->limits.is_iwarp)
			snapshot_register_memory(a->after, domain);
	}
}

/* Whether a store of the file was another namespace's, which is still being closed. */
static bool has_retired(const struct apply *a)
{
	const struct config_subsystem *subsystems = a->config.subsystems.items;

	for (unsigned i = 0; i < a->config.subsystems.n; i++) {
		const struct config_namespace *namespaces = subsystems[i].namespaces.items;

		for (unsigned j = 0; j < subsystems[i].namespaces.n; j++) {
			struct backend_config how;
			struct conf_mark mark;

			config_backend(&namespaces[j], &how, &mark);
			if (how.path && retire_has(&a->target->retire, how.path))
				return true;
		}
	}
	return false;
}

/* The state of a namespace that is added is known once it is open. */
static bool look_at_registrants(struct apply *a, enum apply_mode mode)
{
	const struct outlook outlook = {a->target, &a->config, &a->credentials};

	if (change_users_add_registered(&outlook, a->after, &a->report->changes,
					&a->report->users) < 0)
		return refuse(a, EXIT_FAILED, "out of memory");
	return mode == APPLY_IF_UNUSED && a->report->users.n ? refuse_used(a) : true;
}

static bool prepare(struct apply *a, enum apply_mode mode)
{
	const struct portals_plan plan = {&a->config, a->runtime.slots};
	struct error error;

	if (!for_each_kept(a, check_owner) || !for_each_kept(a, check_size))
		return false;
	a->runtime = a->target->runtime;
	if (portals_plan(a->target, &a->config, a->runtime.slots) < 0)
		return refuse(
			a, EXIT_BUSY,
			"connections through removed portals still use their places: try again when they are gone");
	a->after = snapshot_build(&a->config, &a->runtime, a->conf, a->before);
	if (!a->after) {
		a->report->error.code = conf_is_busy(a->conf) ? EXIT_BUSY : EXIT_CONFIG;
		return false;
	}
	if (!look_at_registrants(a, mode))
		return false;
	if (portals_switch(a->target, &plan, &error) < 0)
		return refuse(a, EXIT_BUSY, "%s", error.message);
	register_memory(a);
	if (for_each_kept(a, prepare_size))
		return true;
	for_each_kept(a, forget_size);
	portals_switch_back(a->target, &plan);
	return false;
}

/* ---- committing ----------------------------------------------------------------------------- */

#define SWAP(a, b)                                                                                 \
	do {                                                                                       \
		__auto_type swapped_ = (a);                                                        \
		(a) = (b);                                                                         \
		(b) = swapped_;                                                                    \
	} while (0)

/* Except tuning, which is the same in both, and which pollers read. */
static void swap_config(struct target_config *running, struct target_config *other)
{
	SWAP(running->log_level, other->log_level);
	SWAP(running->slow_io_ns, other->slow_io_ns);
	SWAP(running->limits, other->limits);
	SWAP(running->portals, other->portals);
	SWAP(running->hosts, other->hosts);
	SWAP(running->discovery, other->discovery);
	SWAP(running->subsystems, other->subsystems);
}

/* A later namespace of that nsid is another one. */
static void forget_uses(struct target *target, const struct subsystem *before,
			const struct subsystem *after)
{
	for (unsigned i = 0; i < before->n_namespaces; i++) {
		uint32_t nsid = before->namespaces[i]->nsid;

		if (subsystem_namespace(after, nsid))
			continue;
		list_for_each (node, &target->controllers) {
			struct controller *c = list_entry(node, struct controller, node);

			if (!strcmp(c->subnqn, before->nqn))
				uses_forget(&c->uses, nsid);
		}
	}
}

/* Notifies the hosts of namespaces of one that are not the same in the other. */
static void notice_missing(struct target *target, const struct subsystem *one,
			   const struct subsystem *other)
{
	for (unsigned i = 0; i < one->n_namespaces; i++)
		if (subsystem_namespace(other, one->namespaces[i]->nsid) != one->namespaces[i])
			notice_namespace(target, one->nqn, one->namespaces[i]->nsid);
}

static void notice_paths(struct target *target, const struct subsystem *before,
			 const struct subsystem *after)
{
	for (unsigned portal = 0; portal < PORTALS_MAX; portal++)
		if (ana_is_news(rcu_get(&before->ana), rcu_get(&after->ana), portal))
			notice_ana(target, after->nqn, portal);
}

static void notice_namespaces(struct apply *a)
{
	for (unsigned i = 0; i < a->after->n_subsystems; i++) {
		const struct subsystem *after = &a->after->subsystems[i];
		const struct subsystem *before = snapshot_find(a->before, after->nqn);

		if (!before)
			continue;
		forget_uses(a->target, before, after);
		notice_missing(a->target, after, before);
		notice_missing(a->target, before, after);
		notice_paths(a->target, before, after);
	}
}

/* The host has a key now, and connected before it had. After a change of its key the old proof
 * holds. */
static bool lacks_proof(const struct apply *a, const struct controller *controller)
{
	return controller->admin && !controller->admin->proof.session &&
	       credentials_find(&a->after->credentials, controller->hostnqn);
}

static void end_associations(struct apply *a)
{
	list_for_each_safe (node, &a->target->controllers) {
		struct controller *controller = list_entry(node, struct controller, node);
		const struct subsystem *subsystem = snapshot_find(a->after, controller->subnqn);

		if (controller->is_discovery)
			continue;
		if (!subsystem)
			controller_kill(controller, "the subsystem was removed");
		else if (!subsystem_allows(subsystem, controller->hostnqn))
			controller_kill(controller, "it is no longer allowed");
		else if (lacks_proof(a, controller))
			controller_kill(controller, "it must prove its identity now");
		else if (controller_state(controller) != CONTROLLER_UNPROVEN)
			host_id_check(controller); /* for namespaces that were added */
	}
}

static void commit(struct apply *a)
{
	struct target *target = a->target;
	struct snapshot *before = atomic_load(&target->snapshot);
	const struct portals_plan plan = {&a->config, a->runtime.slots};

	check(before == a->before && a->after->generation == before->generation + 1);
	for_each_kept(a, publish_size);
	for_each_kept(a, publish_qos);
	snapshot_keep(a->after);
	rcu_set(&target->snapshot, a->after);
	portals_switch_done(target, &plan);
	/* Pollers read the rest of runtime, which no change replaces. */
	memcpy(target->runtime.slots, a->runtime.slots, sizeof(target->runtime.slots));
	swap_config(target->config, &a->config);
	hosts_set_qos(target);
	hosts_set_limits(target);
	rcu_wait();
	if (!target->is_log_level_given)
		log_set_level(target->config->log_level);
	slow_set(target, target->config->slow_io_ns);
	durability_log(a->after, a->before);
	health_follow(target->runtime.health, a->after);
	end_associations(a);
	notice_namespaces(a);
	notice_discovery(target);
	retire_snapshot(&target->retire, before);
	store_sizes_follow(target); /* a store may have grown between its open and this */
	a->report->is_applied = true;
}

/* ---- all ------------------------------------------------------------------------------------ */

static void run(struct apply *a, const char *path, enum apply_mode mode)
{
	bool may_look = mode == APPLY_SHOW && target_is_serving(a->target);
	const char *why_not = may_look ? NULL : target_refuse_change(a->target);
	const struct config_change *fixed;

	if (why_not) {
		refuse(a, EXIT_BUSY, "%s", why_not);
		return;
	}
	if (!read_file(a, path) || !compare(a) || mode == APPLY_SHOW)
		return;
	fixed = config_changes_find_fixed(&a->report->changes);
	if (fixed) {
		refuse_fixed(a, fixed);
		return;
	}
	if (mode == APPLY_IF_UNUSED && a->report->users.n) {
		refuse_used(a);
		return;
	}
	a->report->is_opening = has_retired(a) || !snapshot_prepare(&a->config, a->before);
	if (a->report->is_opening)
		return;
	if (prepare(a, mode))
		commit(a);
	else if (a->after)
		a->report->n_left += snapshot_discard(a->after);
	if (a->report->n_left)
		fprintf(a->out,
			"warning: %u files that were made larger for it stay so: see the log of rblkd\n",
			a->report->n_left);
}

void apply_file(struct target *target, const char *path, enum apply_mode mode,
		struct apply_report *ret_report)
{
	struct apply a = {
		.target = target, .before = atomic_load(&target->snapshot), .report = ret_report};
	size_t n;

	*ret_report = (struct apply_report){.error.code = EXIT_OK};
	a.out = open_memstream(&ret_report->messages, &n);
	if (!a.out) {
		refuse(&a, EXIT_FAILED, "out of memory");
		return;
	}
	run(&a, path ? path : target->config_path, mode);
	credentials_release(&a.credentials);
	config_release(&a.config);
	conf_free(a.conf);
	fclose(a.out);
}

void apply_report_free(struct apply_report *report)
{
	config_changes_free(&report->changes);
	change_users_free(&report->users);
	free(report->messages);
	report->messages = NULL;
}
