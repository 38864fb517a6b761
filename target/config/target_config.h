/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The configuration file as data: see config.h. A mark is never the first field of a struct,
 * because offset 0 stands for a mark that is not stored.
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

/* Parsed data only; struct target (engine/record/target.h) has what runs. It owns its strings and
 * lists: conf_release frees them. */
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
