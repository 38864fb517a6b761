/* SPDX-License-Identifier: BSD-3-Clause */
/* The store of a namespace: the backend whose key the configuration gives. See config.h. */
#pragma once

#include <stdint.h>

#include "target/config/target_config.h"

struct backend_config;
struct backend_ops;

enum {
	CONFIG_STORE_KEYS_MAX = BACKENDS_MAX + BACKENDS_OWN_KEYS,
};

/* Before main: the keys of the stores in a namespace, the kinds first and then those that backends
 * have of their own. Returns how many. */
unsigned config_store_keys(struct conf_key ret_keys[CONFIG_STORE_KEYS_MAX]);
/* Reports the keys that another kind of store than the namespace's has of its own. */
void config_check_store_keys(const struct config_namespace *ns, struct conf *conf);
/* The backend of a namespace and how to open it; strings are borrowed. *ret_mark: of its key. */
const struct backend_ops *config_backend(const struct config_namespace *ns,
					 struct backend_config *ret_backend,
					 struct conf_mark *ret_mark);
/* The configured size of the namespace in bytes; 0: the size of its store. */
uint64_t config_namespace_bytes(const struct config_namespace *ns);
