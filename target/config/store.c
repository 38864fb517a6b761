/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A backend may have keys of its own. Here they are bytes: `own` of a namespace has a struct of
 * each such backend, one behind the other, and only the backend knows what is in its struct.
 */
#include "base/bits.h"
#include "base/check.h"
#include "base/conf_report.h"
#include "target/config/store.h"
#include "target/config/target_config.h"
#include "target/store/backends.h"

/* Where the struct of backend i begins, in config_namespace.own. */
static size_t own_offset(unsigned i)
{
	size_t offset = 0;

	while (i--)
		offset += align_up(backends[i]->own_bytes, _Alignof(uint64_t));
	return offset;
}

static void add_kind(struct conf_key *key, unsigned i)
{
	size_t offset = offsetof(struct config_namespace, stores) + i * sizeof(struct config_store);

	*key = backends[i]->key;
	check(key->type == CONF_STRING || key->type == CONF_SIZE);
	key->name = backends[i]->name;
	key->offset = offset + offsetof(struct config_store, path);
	key->mark_offset = offset + offsetof(struct config_store, mark);
}

unsigned config_store_keys(struct conf_key ret_keys[CONFIG_STORE_KEYS_MAX])
{
	struct conf_key *key = ret_keys;
	size_t mark_offset = offsetof(struct config_namespace, own_marks);

	check(own_offset(N_BACKENDS) <= BACKENDS_OWN_BYTES);
	for (unsigned i = 0; i < N_BACKENDS; i++)
		add_kind(key++, i);
	for (unsigned i = 0; i < N_BACKENDS; i++) {
		for (const struct conf_key *own = backends[i]->keys; own && own->name; own++) {
			check(key < ret_keys + N_BACKENDS + BACKENDS_OWN_KEYS && !own->is_required);
			*key = *own;
			key->offset += offsetof(struct config_namespace, own) + own_offset(i);
			key->mark_offset = mark_offset;
			mark_offset += sizeof(struct conf_mark);
			key++;
		}
	}
	return (unsigned)(key - ret_keys);
}

void config_check_store_keys(const struct config_namespace *ns, struct conf *conf)
{
	const struct conf_mark *mark = ns->own_marks;

	for (unsigned i = 0; i < N_BACKENDS; i++)
		for (const struct conf_key *own = backends[i]->keys; own && own->name;
		     own++, mark++)
			if (mark->line && !ns->stores[i].mark.line)
				conf_error(conf, *mark, "%s is for %s only", own->name,
					   backends[i]->name);
}

/* Index of the backend whose key is given; 0 if none is. */
static unsigned find_store(const struct config_namespace *ns)
{
	for (unsigned i = 0; i < N_BACKENDS; i++)
		if (ns->stores[i].mark.line)
			return i;
	return 0;
}

const struct backend_ops *config_backend(const struct config_namespace *ns,
					 struct backend_config *ret_backend,
					 struct conf_mark *ret_mark)
{
	unsigned i = find_store(ns);
	const struct config_store *store = &ns->stores[i];
	bool is_path = backends[i]->key.type == CONF_STRING;

	*ret_backend = (struct backend_config){
		.path = is_path ? store->path : NULL,
		.size_bytes = is_path ? ns->size : store->size_bytes,
		.block_size = (uint32_t)ns->block_size,
		.must_create = ns->must_create,
		.is_read_only = ns->is_read_only,
		.is_shared = ns->is_shared,
		.own = backends[i]->keys ? ns->own + own_offset(i) : NULL,
	};
	*ret_mark = store->mark;
	return backends[i];
}

uint64_t config_namespace_bytes(const struct config_namespace *ns)
{
	unsigned i = find_store(ns);

	if (backends[i]->key.type == CONF_SIZE)
		return ns->stores[i].size_bytes;
	return ns->must_create ? ns->size : 0;
}
