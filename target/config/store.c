/* SPDX-License-Identifier: BSD-3-Clause */
/* The store of a namespace: the backend whose key the configuration gives. See config.h. */
#include "target/config/config.h"
#include "target/store/backends.h"

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
		.ceph_conf = ns->ceph_conf,
		.ceph_user = ns->ceph_user,
		.keeps_records = ns->ceph_state == CONFIG_CEPH_STATE_POOL,
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
