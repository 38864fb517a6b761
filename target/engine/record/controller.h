/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A controller: what Connect gives to a host, as the engine and the commands see it. The
 * association floor creates and ends it (association/controller.h), and owns its list of queues, on
 * the control thread. Registers, features, events and keep-alive belong to the poller of the admin
 * queue. A controller lives until the last of its queues is freed.
 */
#pragma once

#include <pthread.h>

#include "target/engine/record/controller_events.h"
#include "target/engine/record/fencing.h"
#include "target/engine/record/target.h"
#include "target/engine/record/uses.h"
#include "target/export/health/event_log.h"

enum {
	CONTROLLER_AERS = 4,	/* AERL + 1 */
	CONTROLLER_ERRORS = 64, /* ELPE + 1 */
	KAS_MS = 1000,		/* granularity of keep-alive */
	TRAFFIC_NOTE_MS = 100,	/* resolution of last_traffic */
	KATO_MAX_MS = 3600 * 1000,
	DISCOVERY_TRANSFER = 64 * 1024,
	FEATURES_PLAIN = 16,   /* features below this identifier are one dword */
	CONTROLLER_ABORTS = 4, /* ACL + 1 */
};

/*
 *     UNPROVEN ---> LIVE <---> RESETTING
 *         |          |             |       the admin queue dies, or keep-alive expires
 *         +----------+-------------+--> DYING
 */
enum controller_state {
	CONTROLLER_UNPROVEN, /* the host has a key, and has not authenticated on the admin queue */
	CONTROLLER_LIVE,
	CONTROLLER_RESETTING, /* CC.EN became 0: I/O queues end, then `reset` returns */
	CONTROLLER_DYING,     /* the association is over; its queues end */
};

struct controller {
	/* Thread: never changes */
	struct target *target;
	uint16_t id;
	bool is_discovery;
	char subnqn[NVMF_NQN_MAX + 1], hostnqn[NVMF_NQN_MAX + 1];
	uint8_t hostid[16];
	char remote[ADDR_STRING_MAX]; /* of the admin queue */
	union addr local; /* the address that the host connected to: replaces wildcard portals */
	struct portal *portal;
	struct host *host;	      /* holds a reference; of a discovery controller a guest */
	struct health_record *health; /* of its subsystem; borrowed; NULL: discovery */
	struct poller *poller;	      /* of the admin queue */
	uint64_t created_ns;

	/* Thread: control */
	struct list node;	  /* target->controllers */
	struct list connections;  /* of struct connection (member_node), the admin queue's too */
	struct connection *admin; /* NULL once it is freed */
	struct { /* fence.c: commands so far, and the last of its ticks in which some arrived */
		uint64_t n_commands, tick;
	} heard;
	bool is_announced; /* its connect line is in the log */
	struct loop_timer announce;
	void (*on_reset)(struct loop_msg *msg); /* runs on control when `reset` arrives there */
	/* Control. The live queue with this id, or NULL. It outlives any message that is sent to
	 * its poller now. */
	struct queue *(*find_queue)(const struct controller *controller, uint16_t qid);

	/* Thread: any */
	_Atomic bool is_ready;		     /* CSTS.RDY and not shut down: I/O is served */
	_Atomic enum controller_state state; /* control writes */
	/* Identify Controller has told the host that there is no volatile cache. A namespace with
	 * one may be added later, and this host sends no Flush. */
	_Atomic bool sees_no_cache;
	_Atomic uint64_t last_traffic; /* of any queue (TBKAS), in steps of 100 ms; ticks */
	_Atomic unsigned n_granted;    /* I/O queues that the host may have */
	_Atomic unsigned n_io;	       /* I/O queues connected; control writes */
	/* Which secrets its host has proven, and wanted of us: auth_key_mark; 0: none. */
	_Atomic uint64_t key_mark, ctrl_key_mark;
	_Atomic bool is_id_bound; /* the configuration binds its identifier; control writes */
	struct uses uses;	  /* namespaces that its commands have named */
	struct notice notice;	  /* of changes, for asynchronous events */
	struct controller_fencing fencing;
	pthread_mutex_t errors_lock; /* protects the two fields below; a leaf, held for a copy */
	struct nvme_error_entry errors[CONTROLLER_ERRORS]; /* ring: failed commands */
	uint64_t n_errors;

	/* Thread: poller of the admin queue */
	struct queue *admin_queue; /* set from attach to detach */
	uint32_t cc, csts;
	unsigned life;	    /* counts resets and enables: property.c */
	bool is_reset_sent; /* `reset` is on its way: no state, cc and csts go on meanwhile */
	uint32_t kato_ms;
	struct loop_timer keep_alive;
	struct list aers; /* of struct request (wait), in order of arrival */
	unsigned n_aers;
	struct loop_call tell;			/* completes held requests with events */
	uint32_t event_mask;			/* feature 0Bh */
	unsigned pending, masked;		/* bits of enum controller_event */
	uint64_t changed_ns[NSID_MAX / 64 + 1]; /* bit by nsid, for log page 04h */
	unsigned n_aborts;			/* under way */
	struct event_context events;
	struct resv_notices resv_notices;
	uint8_t resv_mask[NSID_MAX + 1];       /* feature 82h: bits of enum nvme_resv_notice */
	uint16_t error_recovery[NSID_MAX + 1]; /* feature 05h: TLER */
	uint32_t features[FEATURES_PLAIN];
	uint8_t host_behavior[512];
	struct backend_io flush; /* shutdown: flushes the namespaces in turn */
	unsigned flush_life;	 /* the value of life when the flush began */
	struct namespace *flush_ns;
	struct queue *flush_queue; /* counted as busy, so it stays alive */
	struct loop_msg reset;	   /* travels to control and back */
};

/* Any thread. Control moves it, so the caller may see it one move late. */
static inline enum controller_state controller_state(const struct controller *controller)
{
	return atomic_load(&controller->state);
}
/* Any thread. Whether the host was silent for longer than KATO: nothing of it may start. */
static inline bool controller_is_expired(const struct controller *controller, uint64_t now)
{
	return fencing_is_expired(
		&controller->fencing,
		atomic_load_explicit(&controller->last_traffic, memory_order_relaxed), now);
}
/* MQES, as Property Get, Connect and Identify report it. */
static inline unsigned controller_mqes(const struct target *target)
{
	return (unsigned)target->config->tuning.queue_depth - 1;
}
/* Any peer may use a discovery controller, so its transfers are small. */
static inline uint64_t controller_max_transfer(const struct controller *controller)
{
	uint64_t max = controller->target->config->tuning.max_transfer;

	return controller->is_discovery ? MIN(max, DISCOVERY_TRANSFER) : max;
}
/* Any thread. Whether its host was told to connect again, or will be as soon as the poller runs,
 * and has not ignored it. */
static inline bool controller_is_leaving(const struct controller *controller)
{
	return atomic_load(&controller->notice.is_moving) ||
	       atomic_load(&controller->notice.is_leaving);
}
