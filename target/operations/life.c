/* SPDX-License-Identifier: BSD-3-Clause */
/* See life.h. */
#include <errno.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/conf_report.h"
#include "base/rcu.h"
#include "base/states.h"
#include "target/association/admission.h"
#include "target/association/connect.h"
#include "target/association/fabrics.h"
#include "target/association/fence.h"
#include "target/association/host.h"
#include "target/association/host_stats.h"
#include "target/association/portal.h"
#include "target/engine/record/capsules.h"
#include "target/engine/request/slow.h"
#include "target/export/durability.h"
#include "target/export/handover.h"
#include "target/export/health/health.h"
#include "target/export/namespace_memory.h"
#include "target/export/state_records.h"
#include "target/operations/change/store_sizes.h"
#include "target/operations/life.h"

/* rblkd may be waiting for it before it ends. */
static void on_retired(struct retire *retire)
{
	struct target *target = container_of(retire, struct target, retire);

	target->check_stop(target);
}

int target_init(struct target *target, const struct target_parts *parts)
{
	int r;

	check(parts->config && parts->check_stop);
	*target = (struct target){
		.config = parts->config,
		.pollers = parts->pollers,
		.n_pollers = parts->n_pollers,
		.check_stop = parts->check_stop,
		.config_path = parts->config_path,
		.control_socket = parts->control_socket,
		.is_log_level_given = parts->is_log_level_given,
		.start_ns = clock_ns(),
	};
	list_init(&target->connections);
	list_init(&target->controllers);
	list_init(&target->hosts);
	list_init(&target->held_connects);
	list_init(&target->groups);
	list_init(&target->resets_for_locks);
	retire_init(&target->retire, &target->loop);
	target->retire.on_synced = on_retired;
	fabrics_register();
	slow_set(target, parts->config->slow_io_ns);
	target->quiesce_ns = parts->config->fencing.quiesce_ns;
	target->has_peers = parts->config->controller_ids.min > 1 ||
			    parts->config->controller_ids.max < NVMF_CNTLID_MAX;
	target->admission = admission_new();
	target->fence = fence_new(target, connect_on_release);
	r = target->admission && target->fence ? host_stats_init(target) : -ENOMEM;
	if (r == 0)
		r = capsules_init(target);
	if (r == 0)
		r = store_sizes_start(target);
	if (r == 0)
		r = loop_init(&target->loop, 0, NULL);
	return r == 0 ? cm_new(&target->loop, &target->cm) : r;
}

#define TO(s) STATE_TO(TARGET_##s)

static const struct state_rule lives[TARGET_LIVES] = {
	[TARGET_STANDING_BY] = {"standing by", TO(SERVING) | TO(STOPPING)},
	[TARGET_SERVING] = {"serving", TO(YIELDING) | TO(STOPPING)},
	[TARGET_YIELDING] = {"yielding", TO(SERVING) | TO(MOVING) | TO(STOPPING)},
	[TARGET_MOVING] = {"moving", TO(GIVING) | TO(STOPPING)},
	[TARGET_GIVING] = {"giving", TO(STOPPING)},
	[TARGET_STOPPING] = {"stopping", 0},
};

void target_move(struct target *target, enum target_life next)
{
	states_move("target", lives, &target->life, next);
}

int target_prepare(struct target *target)
{
	if (target->portals)
		return 0;
	snapshot_runtime_init(&target->runtime);
	return portals_init(target);
}

/* Devices that are in use already register the memory of namespaces. */
static void register_memory(struct target *target, struct snapshot *snapshot)
{
	for (unsigned i = 0; i < DEVICE_MAX; i++) {
		const struct domain *domain = &target->devices[i].domain;

		if (domain->pd && !domain->device->limits.is_iwarp)
			snapshot_register_memory(snapshot, domain);
	}
}

static void serve(struct target *target, struct snapshot *snapshot)
{
	atomic_store(&target->snapshot, snapshot);
	register_memory(target, snapshot);
	target_move(target, TARGET_SERVING);
	durability_log(snapshot, NULL);
}

static void free_health(struct target *target)
{
	health_free(target->runtime.health);
	target->runtime.health = NULL;
}

static void free_state(struct target *target)
{
	state_records_free(target->runtime.state);
	state_records_free(target->runtime.groups);
	target->runtime.state = target->runtime.groups = NULL;
}

static int build(struct target *target, struct handover *handover, struct conf *conf)
{
	struct snapshot *snapshot = snapshot_build(target->config, &target->runtime, conf, NULL);

	if (!snapshot)
		return -EINVAL;
	if (handover)
		handover_close_memory(handover);
	serve(target, snapshot);
	return 0;
}

static int make_records(struct target *target, const struct target_stock *stock, struct conf *conf)
{
	struct snapshot_runtime *runtime = &target->runtime;
	struct error error;

	runtime->health = health_new(stock->state, &error);
	if (!runtime->health) {
		conf_error(conf, target->config->state_mark, "%s", error.message);
		return -EINVAL;
	}
	runtime->state = stock->state ? state_records_new(stock->state) : NULL;
	runtime->groups = stock->groups ? state_records_new_of_groups(stock->groups,
								      runtime->health->boot_id)
					: NULL;
	if ((stock->state && !runtime->state) || (stock->groups && !runtime->groups)) {
		conf_error(conf, target->config->state_mark, "out of memory");
		return -EINVAL;
	}
	incarnation_init(&target->incarnation, runtime->health->boot_id);
	return 0;
}

int target_export(struct target *target, const struct target_stock *stock, struct conf *conf)
{
	int r;

	if (target_prepare(target) < 0) {
		conf_error(conf, (struct conf_mark){0}, "out of memory");
		return -EINVAL;
	}
	target->runtime.handover = stock->handover;
	r = make_records(target, stock, conf);
	if (r == 0)
		r = build(target, stock->handover, conf);
	target->runtime.handover = NULL;
	if (r < 0) {
		free_health(target);
		free_state(target);
	}
	return r;
}

int target_listen(struct target *target)
{
	int r;

	check(target->n_pollers > 0 && target->portals);
	hosts_set_limits(target);
	r = portals_open(target);
	if (r == 0 && target_is_serving(target))
		snapshot_keep(atomic_load(&target->snapshot));
	return r;
}

void target_close(struct target *target)
{
	portals_close(target);
}

void target_hide(struct target *target)
{
	struct snapshot *snapshot = atomic_load(&target->snapshot);

	target->nothing.generation = snapshot->generation + 1;
	target->hidden = snapshot;
	rcu_set(&target->snapshot, &target->nothing);
	rcu_wait();
}

struct snapshot *target_stores(const struct target *target)
{
	struct snapshot *snapshot = atomic_load(&target->snapshot);

	return snapshot == &target->nothing ? target->hidden : snapshot;
}

void target_close_stores(struct target *target)
{
	struct snapshot *snapshot = target_stores(target);

	check(target->n_connections == 0 || target->hidden);
	snapshot_settle(snapshot);
	health_end(target->runtime.health);
	snapshot_discard(snapshot);
	if (target->hidden)
		target->hidden = NULL;
	else
		atomic_store(&target->snapshot, NULL);
	retire_end(&target->retire);
	namespace_memory_end();
	free_state(target);
}

void target_withdraw(struct target *target)
{
	check(target->n_connections == 0);
	atomic_store(&target->snapshot, target_stores(target));
	target_close_stores(target);
	free_health(target); /* controllers had it */
	for (unsigned i = 0; i < DEVICE_MAX; i++)
		domain_close(&target->devices[i].domain);
	portals_deinit(target);
}

void target_deinit(struct target *target)
{
	cm_free(target->cm);
	host_stats_deinit(target);
	capsules_deinit(target);
	fence_free(target->fence);
	store_sizes_stop(target);
	loop_deinit(&target->loop);
	admission_free(target->admission);
}
