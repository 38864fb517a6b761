/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * struct target: the whole of rblkd, which all its files share. The control thread owns what rarely
 * changes: portals, connections, controllers, configuration. Pollers own the data path: queue
 * pairs, requests, buffers. One thread writes a field, and the comment of each struct names it.
 * Threads exchange messages (loop_send).
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/capture_rpc.h"
#include "base/counter.h"
#include "base/list.h"
#include "base/loop.h"
#include "target/config/config.h"
#include "target/engine/record/incarnation.h"
#include "target/export/retire.h"
#include "target/export/snapshot.h"
#include "transport/cm.h"
#include "transport/device.h"

struct admission;
struct capsules;
struct control;
struct drops;
struct fence;
struct http;
struct host_stats;
struct poller;
struct portal;
struct predecessor;
struct successor;
struct store_sizes;

/* An RDMA device in use (poller_device.c). */
struct target_device {
	/* Thread: control */
	struct target *target;
	struct domain domain; /* pd NULL: not in use */
	unsigned n_queues;
	unsigned n_stopping; /* pollers that have not yet released it */
	bool is_removed;
};

/*
 *     STANDING_BY ---> SERVING <---> YIELDING ---> MOVING ---> GIVING ---> STOPPING
 *          |              |             |            |                         ^
 *          +--------------+-------------+------------+-------------------------+
 */
enum target_life {
	TARGET_STANDING_BY, /* the stores are not open: another rblkd may have them */
	TARGET_SERVING,
	TARGET_YIELDING, /* the same, and another rblkd has read the configuration to take over */
	TARGET_MOVING,	 /* another rblkd listens here, and hosts are told to connect to it */
	TARGET_GIVING,	 /* it gets the stores when I/O queues have ended; admin queues part */
	TARGET_STOPPING, /* nothing new is accepted, and connections end */
	TARGET_LIVES,
};

struct target {
	/* Thread: control, except where noted */
	struct loop loop;
	/* tuning never changes, and any thread reads it; the rest belongs to control, and apply.c
	 * replaces it */
	struct target_config *config;
	_Atomic uint64_t slow_ticks; /* commands that take as long are logged; UINT64_MAX: none */
	struct snapshot_runtime runtime; /* owned, with what it points to */
	const char *config_path;	 /* where rblkd read it; "-": standard input */
	const char *control_socket;	 /* from the command line; NULL: the configuration's */
	bool is_log_level_given; /* on the command line, which overrides the configuration */
	_Atomic(struct snapshot *) snapshot; /* control sets; any thread reads under RCU */
	/* While stores are closed: what hosts find there, and what they found (target_hide) */
	struct snapshot nothing, *hidden;
	_Atomic uint64_t n_portal_changes; /* with the snapshot's generation: genctr */
	uint64_t start_ns;
	struct cm *cm;
	struct target_device devices[DEVICE_MAX]; /* by device index */
	struct poller *pollers;			  /* owned; n_pollers never changes */
	unsigned n_pollers;
	struct portal *portals;	 /* owned: PORTALS_MAX slots, some in use (portal.h) */
	struct list connections; /* of struct connection (node) */
	unsigned n_connections;
	bool has_placed;		 /* a queue, at a poller: pollers_can_shrink */
	unsigned n_pending;		 /* of them: before Connect or authentication */
	unsigned n_strangers;		 /* of these: from unknown addresses (admission.h) */
	unsigned n_discovery;		 /* discovery controllers */
	struct list controllers;	 /* of struct controller (node) */
	struct list hosts;		 /* of struct host (node) */
	struct list host_stats;		 /* of struct host_stats (node): association/host_stats.h */
	struct host_stats *other_hosts;	 /* owned: for hosts that have no record */
	struct list held_connects;	 /* of struct connect_op (node): they wait for the fence */
	struct fence *fence;		 /* owned */
	struct predecessor *predecessor; /* borrowed; operations/succession */
	struct successor *successor;	 /* likewise */
	struct retire retire;		 /* removed namespaces */
	struct list groups;		 /* of struct group (node): operations/ownership */
	struct store_sizes *sizes;	 /* owned; operations/change/store_sizes.h */
	/* Control calls it after a store has reported a change, of its size or that it is lost;
	 * NULL: no group has an owner by lock. */
	void (*on_store_change)(struct target *target);
	uint16_t last_cntlid;
	uint64_t quiesce_ns; /* CQT; never changes */
	struct incarnation incarnation;
	bool has_peers; /* other rblkd export the same subsystems; never changes */
	uint64_t n_cross_resets;
	struct list resets_for_locks; /* of struct cross_reset (node): association/cross_reset.h */
	struct admission *admission;  /* owned */
	struct log_limit refusals;    /* of hosts that are refused */
	struct capsules *capsules;    /* owned; capsules.h */
	struct log_limit fault_capsules; /* of queues that broke the protocol */
	struct log_limit defects;	 /* of rblkd: association/defect.h */
	unsigned n_defects, n_stranded;
	struct log_limit device_failures; /* while hosts try to connect */
	struct control *control;	  /* control.c: the RPC server */
	struct capture_service captures;  /* operations/control/capture.c */
	struct http *http;		  /* owned; stats/metrics.c */
	struct drops *drops;		  /* owned; operations/control/registrant.c */
	unsigned n_drops;		  /* of registrants, under way at a poller: resv_drop.h */
	enum target_life life;		  /* target_move (life.h) */
	/* Control calls it when a connection was freed or stranded. Draining goes on; while rblkd
	 * stops, the last connection ends the loop. */
	void (*check_stop)(struct target *target);
	_Atomic unsigned buffers_per_host; /* percent; control sets, pollers read, as below: */
	_Atomic size_t bytes_per_host;	   /* of each poller; SIZE_MAX: no limit */
	_Atomic unsigned io_queues_per_host;
	_Atomic uint64_t discovery_timeout_ns;
};

/* Control. It has not begun to end. */
static inline bool target_is_serving(const struct target *target)
{
	return target->life == TARGET_SERVING || target->life == TARGET_YIELDING;
}

/* Control. Why its configuration cannot change now; NULL: it can. */
static inline const char *target_refuse_change(const struct target *target)
{
	if (target->life == TARGET_YIELDING)
		return "an upgrade is under way: try again when it is over";
	return target_is_serving(target) ? NULL : "rblkd is stopping";
}
