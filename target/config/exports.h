/* SPDX-License-Identifier: BSD-3-Clause */
/* Part of the configuration (config.h): subsystems, and what each exports. Control thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/conf.h"
#include "target/config/limits.h"
#include "target/store/limits.h"

/* A reference by name: to a portal, to a host. */
struct config_name {
	char *name;
	struct conf_mark mark;
};

/* The state of an ANA group through one portal. */
struct config_ana_portal {
	char *portal;
	struct conf_mark mark;
	unsigned state; /* index into config_ana_states */
};

/* The rblkd that serves a group; index into the names of the key owner. */
enum config_owner {
	CONFIG_OWNER_THIS, /* this rblkd, always */
	CONFIG_OWNER_LOCK, /* the one that has the locks of the group's stores; others stand by */
};

struct config_ana_group {
	uint64_t id;
	struct conf_mark mark, owner_mark;
	unsigned owner;		  /* enum config_owner */
	uint64_t lease_ns;	  /* of an owner on another machine */
	unsigned state;		  /* index into config_ana_states: through all other portals */
	struct conf_list portals; /* of struct config_ana_portal */
};

/* When a namespace's writes are durable; index into the names of the key cache. */
enum config_cache {
	CONFIG_CACHE_AUTO, /* as the store is */
	CONFIG_CACHE_WRITE_BACK,
	CONFIG_CACHE_WRITE_THROUGH,
};

/* The value under the key of a backend, by the type of the key. */
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
	struct conf_mark shared_mark, nguid_mark, eui64_mark, cache_mark;
	char *uuid;	     /* NULL: derived from the subsystem's NQN and nsid, stable */
	char *nguid, *eui64; /* hexadecimal; NULL: NGUID is the UUID, there is no EUI64 */
	struct config_store stores[BACKENDS_MAX]; /* as backends[]; exactly one is given */
	uint64_t size;				  /* of a file that create makes */
	bool must_create;
	uint64_t block_size; /* 512 or 4096 */
	bool is_read_only;
	unsigned cache; /* enum config_cache */
	struct config_qos qos;
	bool is_shared; /* other rblkd export the store, too */
	/* Keys of the backends' own, and their marks: store.c. */
	_Alignas(uint64_t) uint8_t own[BACKENDS_OWN_BYTES];
	struct conf_mark own_marks[BACKENDS_OWN_KEYS];
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

/* NULL: there is none. */
const struct config_namespace *config_find_namespace(const struct config_subsystem *subsystem,
						     uint32_t nsid);
/* NULL: there is none. */
const struct config_ana_group *config_find_group(const struct config_subsystem *subsystem,
						 uint64_t id);
/* Whether other rblkd stand by for the namespace, or this one for them. */
bool config_has_owner(const struct config_subsystem *subsystem, const struct config_namespace *ns);
