/* SPDX-License-Identifier: BSD-3-Clause */
/* Records of subsystems, and the counters in them; see health.h. Control thread, except
 * health_read. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "target/export/health/health_impl.h"
#include "target/export/health/record.h"
#include "target/export/namespace.h"
#include "target/export/subsystem.h"

struct health_record *health_find(struct health *health, const char *nqn)
{
	struct health_record *record;

	list_for_each (node, &health->records) {
		record = list_entry(node, struct health_record, node);
		if (!strcmp(record->nqn, nqn))
			return record;
	}
	record = calloc(1, sizeof(*record));
	if (!record)
		return NULL;
	snprintf(record->nqn, sizeof(record->nqn), "%s", nqn);
	record->health = health;
	record->state = health->has_lost_file ? HEALTH_LEFT_ON : HEALTH_NEW;
	list_init(&record->namespaces);
	list_add_tail(&health->records, &record->node);
	return record;
}

/* ---- counters ------------------------------------------------------------------------------- */

static void add_namespace(const struct namespace *ns, struct health_figures *figures)
{
	unsigned shift = ns->block_shift - 9u;
	struct namespace_counters sum;

	check(ns->block_shift >= 9); /* units have 512 bytes */
	namespace_sum_counters(ns, &sum);
	figures->n_reads += sum.n_reads;
	figures->n_writes += sum.n_writes;
	figures->read_units += sum.read_blocks << shift;
	figures->written_units += sum.written_blocks << shift;
	figures->n_media_errors += sum.n_media_errors;
}

void health_add_namespace(struct health_record *record, struct namespace *ns)
{
	check(!ns->health && list_is_empty(&ns->health_node));
	ns->health = record;
	pthread_mutex_lock(&record->health->lock);
	list_add_tail(&record->namespaces, &ns->health_node);
	pthread_mutex_unlock(&record->health->lock);
}

void health_remove_namespace(struct namespace *ns)
{
	struct health_record *record = ns->health;

	if (!record)
		return;
	pthread_mutex_lock(&record->health->lock);
	add_namespace(ns, &record->past);
	list_remove(&ns->health_node);
	pthread_mutex_unlock(&record->health->lock);
	ns->health = NULL;
}

void health_read(struct health_record *record, struct health_figures *ret_figures)
{
	pthread_mutex_lock(&record->health->lock);
	*ret_figures = record->past;
	list_for_each (node, &record->namespaces)
		add_namespace(list_entry(node, struct namespace, health_node), ret_figures);
	if (record->on_since_ns)
		ret_figures->power_on_s += (clock_ns() - record->on_since_ns) / NSEC_PER_SEC;
	pthread_mutex_unlock(&record->health->lock);
	ret_figures->n_errors = atomic_load_explicit(&record->n_errors, memory_order_relaxed);
}
