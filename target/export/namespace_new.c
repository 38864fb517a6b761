/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opens a namespace: its backend, its identifiers for hosts, its guard. Control thread.
 *
 * The identifiers (UUID, NGUID) are the same after every restart: from the configuration, or
 * derived from the names alone.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/random.h"
#include "target/config/store.h"
#include "target/export/guard/guard_adopt.h"
#include "target/export/guard/guard_new.h"
#include "target/export/handover.h"
#include "target/export/guard/guard_state.h"
#include "target/export/health/health.h"
#include "target/export/health/record.h"
#include "target/export/io_errors.h"
#include "target/export/namespace.h"
#include "target/export/namespace_memory.h"
#include "target/export/namespace_new.h"
#include "target/store/standby.h"

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

/* ---- opening -------------------------------------------------------------------------------- */

/* A namespace that is being made. */
struct maker {
	const struct namespace_origin *from;
	struct namespace *ns;
	struct error *error;
	struct conf_mark *mark;
};

static bool fail(const struct maker *m, struct conf_mark mark, const char *why)
{
	error_set(m->error, EXIT_CONFIG, NULL, "%s", why);
	*m->mark = mark;
	return false;
}

static bool fail_for_memory(const struct maker *m)
{
	return fail(m, (struct conf_mark){0}, "out of memory");
}

/*
 * A host that finds another identity under a name stops using the namespace; with the same identity
 * it continues. A store that begins empty at each start is a new namespace each time, unless the
 * configuration has a UUID for it, or another rblkd has left it.
 */
static bool choose_uuid(const struct namespace_origin *from, bool begins_empty, uuid_t ret_uuid)
{
	char name[NVMF_NQN_MAX + 16];

	if (from->config->uuid && uuid_parse(from->config->uuid, ret_uuid) == 0)
		return true;
	if (from->handover) {
		uuid_copy(ret_uuid, from->handover->uuid);
		return true;
	}
	if (begins_empty)
		return random_uuid(ret_uuid) == 0;
	snprintf(name, sizeof(name), "%s:%u", from->subnqn, (unsigned)from->config->nsid);
	namespace_uuid_of_name(name, ret_uuid);
	return true;
}

/* The configuration's parser has checked the digits. */
static void put_hex(uint8_t *bytes, size_t n, const char *text)
{
	for (size_t i = 0; i < n; i++) {
		const char pair[] = {text[2 * i], text[2 * i + 1], '\0'};

		bytes[i] = (uint8_t)strtoul(pair, NULL, 16);
	}
}

static bool open_store(const struct maker *m, const struct backend_ops *ops,
		       struct backend_config *how, struct conf_mark mark)
{
	const struct handover_namespace *handover = m->from->handover;
	int r;

	if (handover && handover->memory.fd >= 0)
		how->memory = &handover->memory;
	r = ops->open(how, &m->ns->backend, m->error);
	if (r == 0)
		return true;
	m->error->code = r == -EBUSY ? EXIT_BUSY : EXIT_CONFIG;
	*m->mark = mark;
	return false;
}

static bool take_backend(const struct maker *m)
{
	struct backend_config how;
	struct conf_mark mark;
	struct namespace *ns = m->ns;
	const struct backend_ops *ops = config_backend(m->from->config, &how, &mark);

	ns->kind = ops->name;
	if (how.path && !(ns->path = strdup(how.path)))
		return fail_for_memory(m);
	if (!ns->backend && !open_store(m, ops, &how, mark))
		return false;
	if (!io_errors_watch(ns, m->from->subnqn))
		return fail_for_memory(m);
	ops = ns->backend->ops;
	ns->memory = ops->memory ? ops->memory(ns->backend) : NULL;
	ns->whole = ns->memory ? ns->backend->whole : NULL;
	return true;
}

/* Takes the store's own kind of cache, unless the configuration names another one. Nothing makes
 * memory durable. */
static void choose_cache(const struct namespace_origin *from, struct namespace *ns)
{
	const struct backend_limits *limits = &ns->backend->limits;
	unsigned cache = from->config->cache;

	ns->has_cache = limits->has_volatile_cache;
	if (cache == CONFIG_CACHE_WRITE_BACK && limits->durability == DURABILITY_WRITE_THROUGH)
		ns->has_cache = true;
	if (cache == CONFIG_CACHE_WRITE_THROUGH && ns->has_cache) {
		ns->has_cache = false;
		ns->is_write_through = true;
	}
}

/* Where the guard's state is kept; NULL: nowhere. */
static struct record_store *choose_store(const struct namespace_origin *from,
					 const struct namespace *ns)
{
	const struct backend_ops *ops = ns->backend->ops;
	struct record_store *beside = ops->records ? ops->records(ns->backend) : NULL;
	/* No later start would find the state of an identity that does not come back. */
	bool comes_back = !ops->begins_empty || from->config->uuid;

	if (backend_stands_by(ns->backend))
		return NULL; /* the owner has the state, and changes it */
	if (beside)
		return beside;
	return comes_back ? from->state : NULL;
}

static bool make_guard(const struct maker *m)
{
	const struct handover_namespace *handover = m->from->handover;
	struct namespace *ns = m->ns;

	ns->guard = guard_new(ns->uuid, choose_store(m->from, ns), ns->memory);
	if (!ns->guard)
		return fail_for_memory(m);
	if (guard_load(ns->guard, m->error) < 0) {
		m->error->code = EXIT_CONFIG;
		*m->mark = m->from->config->mark;
		return false;
	}
	if (handover && handover->guard && !backend_stands_by(ns->backend) &&
	    guard_restore_all(ns->guard, handover->guard) < 0)
		return fail(m, m->from->config->mark,
			    "the earlier rblkd has left reservations that cannot be read");
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

/* Sets the counters and what the configuration has. */
static struct namespace *new_closed(const struct config_namespace *config)
{
	struct namespace *ns = aligned_alloc(_Alignof(struct namespace), sizeof(*ns));

	if (!ns)
		return NULL;
	memset(ns, 0, sizeof(*ns));
	ns->stats = new_stats();
	if (!ns->stats) {
		free(ns);
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
	return ns;
}

static bool identify(const struct maker *m)
{
	const struct config_namespace *config = m->from->config;
	struct namespace *ns = m->ns;

	if (!choose_uuid(m->from, ns->backend->ops->begins_empty, ns->uuid))
		return fail(m, config->mark, "the kernel has no random numbers for a UUID");
	memcpy(ns->nguid, ns->uuid, sizeof(ns->nguid));
	if (config->nguid)
		put_hex(ns->nguid, sizeof(ns->nguid), config->nguid);
	if (config->eui64)
		put_hex(ns->eui64, sizeof(ns->eui64), config->eui64);
	return true;
}

static bool make_all(const struct maker *m)
{
	struct namespace *ns = m->ns;

	if (!take_backend(m) || !identify(m))
		return false;
	ns->n_blocks = ns->backend->limits.size_bytes >> ns->block_shift;
	choose_cache(m->from, ns);
	return make_guard(m);
}

struct namespace *namespace_new(const struct namespace_origin *from, struct error *error,
				struct conf_mark *ret_mark)
{
	struct maker m = {
		.from = from, .ns = new_closed(from->config), .error = error, .mark = ret_mark};

	if (!m.ns) {
		if (from->backend)
			from->backend->ops->close(from->backend);
		fail_for_memory(&m);
		return NULL;
	}
	m.ns->backend = from->backend;
	if (!make_all(&m)) {
		namespace_free(m.ns);
		return NULL;
	}
	if (from->health)
		health_add_namespace(from->health, m.ns);
	return m.ns;
}
