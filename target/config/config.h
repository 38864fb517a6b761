/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The configuration file of rblkd, /etc/rblk/target.yaml (rblk-target.yaml(5)). schema.c has every
 * key with type, range, default and help; check.c checks across keys. A mark is never the first
 * field of a struct, because offset 0 stands for a mark that is not stored.
 */
#pragma once

#include "base/addr.h"
#include "base/conf.h"
#include "base/log.h"
#include "target/config/exports.h"

struct config_portal {
	char *name;
	struct conf_mark mark, address_mark;
	char *address;
	uint64_t port;
	union addr addr; /* parsed from address and port */
};

struct config_choice {
	unsigned value;
	struct conf_mark mark;
};

struct config_host {
	char *name;
	struct conf_mark mark, nqn_mark, hostid_mark, key_mark, ctrl_key_mark;
	char *nqn;
	char *hostid;			   /* NULL: it may have any that is no other host's */
	uint8_t id[16];			   /* parsed from hostid; all zeroes: none */
	char *key_file, *ctrl_key_file;	   /* DH-HMAC-CHAP; NULL: no authentication */
	struct conf_list hashes, dhgroups; /* of struct config_choice; empty: all */
	struct config_qos qos;
};

/* Another discovery service that the discovery log refers hosts to. */
struct config_referral {
	char *address;
	struct conf_mark mark, address_mark;
	uint64_t port;
	char *nqn; /* default: the well-known one */
};

/* Targets that export the same subsystem give different ids. */
struct config_controller_ids {
	uint64_t min, max; /* default: all, 1 to FFEFh */
	struct conf_mark max_mark;
};

/* How old writes of a host are kept from landing after newer ones. */
struct config_fencing {
	uint64_t quiesce_ns; /* CQT; default 10s */
};

struct config_discovery {
	char *nqn;		    /* NULL: the service has only the well-known name */
	struct conf_list referrals; /* of struct config_referral */
};

/* Parsed data only; struct target (engine/target.h) has what runs. It owns its strings and lists:
 * conf_release frees them. */
struct target_config {
	uint64_t version;      /* 1 */
	unsigned log_level;    /* enum log_level */
	uint64_t slow_io_ns;   /* commands that take as long are logged; 0: none */
	char *fabric;	       /* "auto", "soft" or a device's name */
	char *control_socket;  /* NULL: rblkd.sock in the run directory */
	char *state_directory; /* NULL: systemd's, or none */
	char *group_directory; /* NULL: no group has an owner by lock */
	struct conf_mark state_mark, group_directory_mark;
	struct config_tuning tuning;
	struct config_limits limits;
	struct config_metrics metrics;
	struct conf_list portals; /* of struct config_portal */
	struct conf_list hosts;	  /* of struct config_host */
	struct config_discovery discovery;
	struct config_controller_ids controller_ids;
	struct config_fencing fencing;
	struct conf_list subsystems; /* of struct config_subsystem */
};

struct backend_config;
struct backend_ops;

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
enum {
	CONFIG_STORE_KEYS_MAX = BACKENDS_MAX + BACKENDS_OWN_KEYS,
};
