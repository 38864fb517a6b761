/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The configuration file of rblkd, /etc/rblk/target.yaml (rblk-target.yaml(5)). The table
 * in schema.c is the truth: every key with type, range, default and help; check.c checks
 * across keys. A mark never comes first in a struct: offset 0 means that none is kept.
 */
#pragma once

#include "base/addr.h"
#include "base/conf.h"
#include "base/log.h"
#include "target/config/limits.h"
#include "target/store/backends.h"

/* A name where another thing is meant: of a portal, of a host. */
struct config_name {
	char *name;
	struct conf_mark mark;
};

struct config_portal {
	char *name;
	struct conf_mark mark, address_mark;
	char *address;
	uint64_t port;
	union addr addr; /* parsed from address and port */
	unsigned slot;	 /* its place in target->portals; at first as in the file */
};

struct config_choice {
	unsigned value;
	struct conf_mark mark;
};

struct config_host {
	char *name;
	struct conf_mark mark, nqn_mark, key_mark, ctrl_key_mark;
	char *nqn;
	char *key_file, *ctrl_key_file;	   /* DH-HMAC-CHAP; NULL: the host need not prove itself */
	struct conf_list hashes, dhgroups; /* of struct config_choice; empty: all */
	struct config_qos qos;
};

/* Another discovery service that hosts are sent to. */
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

struct config_discovery {
	char *nqn;		    /* NULL: the service has only the well-known name */
	struct conf_list referrals; /* of struct config_referral */
};

/* How an ANA group is through one portal. */
struct config_ana_portal {
	char *portal;
	struct conf_mark mark;
	unsigned state; /* index into ana_choices */
};

struct config_ana_group {
	uint64_t id;
	struct conf_mark mark;
	unsigned state;		  /* index into ana_choices: through all portals but these */
	struct conf_list portals; /* of struct config_ana_portal */
};

/* What stands under the key of a backend, by the type of the key. */
struct config_store {
	union {
		char *path;
		uint64_t size_bytes;
	};
	struct conf_mark mark; /* line 0: the key is not given */
};

struct config_namespace {
	uint64_t nsid;
	struct conf_mark mark, nsid_mark, uuid_mark, size_mark, create_mark;
	struct conf_mark shared_mark, nguid_mark, eui64_mark;
	char *uuid;	     /* NULL: derived from the subsystem's NQN and nsid, stable */
	char *nguid, *eui64; /* hexadecimal; NULL: NGUID is the UUID, there is no EUI64 */
	struct config_store stores[N_BACKENDS]; /* as backends[]; exactly one is given */
	uint64_t size;				/* of what create makes */
	bool must_create;
	uint64_t block_size; /* 512 or 4096 */
	bool is_read_only;
	struct config_qos qos;
	bool is_shared;	    /* other rblkd export the store, too */
	uint64_t ana_group; /* default 1; means nothing without ana_groups */
	struct conf_mark ana_group_mark;
};

struct config_subsystem {
	char *nqn;
	struct conf_mark mark, nqn_mark, allow_any_mark;
	char *serial, *model;	      /* NULL: serial from the NQN, model "rblk" */
	struct conf_list portals;     /* of struct config_name; empty: all */
	struct conf_list allow_hosts; /* of struct config_name: hosts, or NQNs */
	bool allows_any_host;
	struct conf_list ana_groups; /* of struct config_ana_group; empty: no ANA */
	struct conf_list namespaces; /* of struct config_namespace */
};

struct target_config {
	uint64_t version;      /* 1 */
	unsigned log_level;    /* enum log_level */
	uint64_t slow_io_ns;   /* commands that take as long are logged; 0: none */
	char *fabric;	       /* "auto", "soft" or a device's name */
	char *control_socket;  /* NULL: rblkd.sock in the run directory */
	char *state_directory; /* NULL: systemd's, or none */
	struct conf_mark state_mark;
	struct state_directory *state; /* main.c opens it; borrowed; NULL: none */
	struct health *health;	       /* main.c makes it; borrowed; NULL: nothing is counted */
	struct config_tuning tuning;
	struct config_limits limits;
	struct config_metrics metrics;
	struct conf_list portals; /* of struct config_portal */
	struct conf_list hosts;	  /* of struct config_host */
	struct config_discovery discovery;
	struct config_controller_ids controller_ids;
	struct conf_list subsystems; /* of struct config_subsystem */
};

extern const struct conf_schema config_schema;
extern const struct conf_schema config_qos_schema; /* of a struct config_qos */

/*
 * Reads and checks path; errors are printed on out as they are found, every one of the
 * file. So is whatever can be seen of files and devices without touching them: this is
 * all of rblkd --check, and works while another rblkd exports the same. 0, or -EINVAL
 * when there were errors, or another -errno when it could not be read. *ret_conf stays for
 * further checks with marks (snapshot_build). Both need their release in any case.
 */
int config_read(const char *path, struct target_config *ret_config, FILE *out,
		struct conf **ret_conf);
void config_release(struct target_config *config);
/* check.c: across keys; reported through conf, warnings on out. */
void config_check(struct target_config *config, const char *path, struct conf *conf, FILE *out);
/* The backend of a namespace and how to open it; strings are borrowed. *ret_mark is where
 * to point when it cannot be. */
const struct backend_ops *config_backend(const struct config_namespace *ns,
					 struct backend_config *ret_backend,
					 struct conf_mark *ret_mark);
/* Bytes that the configuration gives the namespace; 0: it has what its store has. */
uint64_t config_namespace_bytes(const struct config_namespace *ns);
