/* SPDX-License-Identifier: BSD-3-Clause */
/* See fuzz_change.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "target/command/io/resv_drop.h"
#include "target/config/config.h"
#include "target/engine/record/target.h"
#include "target/export/guard/guard_adopt.h"
#include "target/export/guard/guard_new.h"
#include "target/export/guard/guard_state.h"
#include "target/export/guard/guard_text.h"
#include "target/export/namespace_new.h"
#include "target/operations/ownership/give.h"
#include "target/operations/ownership/publish.h"
#include "tests/fuzz/fuzz_change.h"

#define BOOT "5eedb007-0000-4000-8000-000000000001"

static char boot_path[64];

void boot_begin(const char *directory)
{
	FILE *f;

	snprintf(boot_path, sizeof(boot_path), "%s/boot", directory);
	f = fopen(boot_path, "w");
	check(f);
	fputs(BOOT "\n", f);
	fclose(f);
	check(setenv("RBLKD_BOOT_ID_FILE", boot_path, 1) == 0);
}

void boot_end(void)
{
	unlink(boot_path);
}

/* ---- this rblkd has the stores --------------------------------------------------------------- */

/* A namespace in memory has no record, as nothing of it survives; one with a lock does. */
static bool load_guard(struct namespace *ns, struct record_store *records)
{
	struct error error;

	guard_unref(ns->guard);
	ns->guard = guard_new(ns->uuid, records, false);
	check(ns->guard);
	return guard_load(ns->guard, &error) == 0;
}

static struct namespace *make(const struct group *group, const struct namespace_at *at)
{
	const struct target *target = group->target;
	const struct namespace_origin from = {
		.subnqn = group->subnqn,
		.config = config_find_namespace(group_config(group), at->ns->nsid),
		.health = at->subsystem->health,
	};
	struct conf_mark mark;
	struct error error;
	struct namespace *ns = namespace_new(&from, &error, &mark);

	check(ns);
	if (load_guard(ns, target->runtime.groups))
		return ns;
	namespace_free(ns);
	return NULL;
}

static void take(struct group *group)
{
	struct namespace *namespaces[NSID_MAX];
	struct publication publication = {.namespaces = namespaces, .owner = ANA_OWNER_LOCK};

	for (struct namespace_at at = {0}; group_next(group, &at);) {
		struct namespace *ns = make(group, &at);

		if (ns)
			namespaces[publication.n++] = ns;
	}
	if (publication.n)
		check(group_publish(group, &publication) == 0);
}

/* ---- owners ---------------------------------------------------------------------------------- */

static struct ana *table_of(const struct target *target, const char *subnqn)
{
	return atomic_load(&snapshot_find(atomic_load(&target->snapshot), subnqn)->ana);
}

void change_owner(struct target *target, const char *subnqn, enum ana_owner owner)
{
	for (unsigned i = 0; i < table_of(target, subnqn)->n_groups; i++) {
		struct ana_group *of = &table_of(target, subnqn)->groups[i];
		struct group group = {.target = target, .id = of->id};

		snprintf(group.subnqn, sizeof(group.subnqn), "%s", subnqn);
		if (of->owner == ANA_OWNER_ALWAYS) /* the table is this one thread's */
			of->owner = ANA_OWNER_LOCK;
		if (owner == ANA_OWNER_LOCK)
			take(&group);
		else
			check(group_stand_by(&group) == 0);
	}
}

/* ---- an administrator ------------------------------------------------------------------------ */

static void on_dropped(struct resv_drop *drop)
{
	check(drop->state != RESV_DROP_RUNS && drop->state != RESV_DROP_NO_NAMESPACE);
}

void change_registrant(struct target *target, const char *subnqn, uint32_t nsid, uint8_t host)
{
	static struct resv_drop drop;

	if (target->n_drops)
		return;
	drop = (struct resv_drop){.target = target, .nsid = nsid, .done = on_dropped};
	snprintf(drop.subnqn, sizeof(drop.subnqn), "%s", subnqn);
	memset(drop.hostid, host, sizeof(drop.hostid));
	resv_drop_start(&drop);
}

/* ---- a successor ----------------------------------------------------------------------------- */

static void check_guard(struct guard *guard)
{
	struct guard_kept kept = guard_valid(guard), read;
	char *text, *again;

	check(guard_format_all(guard, &kept, &text) == 0);
	if (!text)
		return;
	check(guard_read(text, NULL, &read) == 0);
	check(guard_format_all(guard, &read, &again) == 0);
	check(again && !strcmp(again, text));
	free(read.reservation);
	free(read.bad_blocks);
	free(again);
	free(text);
}

void check_successor(const struct target *target)
{
	const struct snapshot *snapshot = atomic_load(&target->snapshot);

	for (struct namespace_at at = {0}; snapshot_next(snapshot, &at);)
		check_guard(at.ns->guard);
}
