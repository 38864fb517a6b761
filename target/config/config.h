/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The configuration file of rblkd, /etc/rblk/target.yaml (rblk-target.yaml(5)). schema.c has every
 * key with type, range, default and help; check.c checks across keys.
 */
#pragma once

#include "target/config/target_config.h"

/*
 * Control thread. Reads and checks path, and checks files and devices as far as possible without
 * opening them for writing, locking or creating. This is all that rblkd --check does, so it works
 * beside an rblkd that exports the same stores. Each error is printed on out. 0; -EINVAL: there
 * were errors; another -errno: the file cannot be read. *ret_conf stays for further checks with
 * marks (snapshot_build). The caller releases both results in any case.
 */
int config_read(const char *path, struct target_config *ret_config, FILE *out,
		struct conf **ret_conf);
/* The same in two steps: the text and its values, 0 or -errno if it cannot be read; then, perhaps
 * as another user, the checks across keys and what the configuration names, 0 or -EINVAL. */
int config_read_text(const char *path, struct target_config *ret_config, FILE *out,
		     struct conf **ret_conf);
int config_look(const char *path, struct target_config *config, FILE *out, struct conf *conf);
void config_release(struct target_config *config);
/* The NQN of a host that allow_hosts names: by its name in hosts, or by the NQN itself. */
const char *config_host_nqn(const struct target_config *config, const char *name);
/* Whether the configuration allows the host to use the subsystem. */
bool config_allows(const struct target_config *config, const struct config_subsystem *subsystem,
		   const char *hostnqn);
/* NULL: there is none. */
const struct config_subsystem *config_find_subsystem(const struct target_config *config,
						     const char *subnqn);
const struct config_host *config_find_host(const struct target_config *config, const char *hostnqn);
/* The host to which this identifier is bound (hostid). */
const struct config_host *config_find_bound(const struct target_config *config,
					    const uint8_t id[16]);
static inline bool config_is_bound(const struct config_host *host)
{
	return host->hostid;
}
