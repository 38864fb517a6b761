/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parts of a controller among themselves:
 *
 *   controller.c            connection, start, stop
 *     controller_setup.c    commands until live, and those of the normal shutdown
 *       controller_auth.c, keep_alive.c, async_event.c, ana_log.c, power.c
 *         controller_command.c    states, failure, sending
 */
#pragma once

#include "initiator/control/admin.h"
#include "initiator/control/ana_walk.h"
#include "initiator/control/controller_state.h"
#include "initiator/control/discovery_log.h"
#include "initiator/control/identify.h"
#include "initiator/control/proof_log.h"
#include "initiator/io/auth.h"
#include "transport/cm.h"

struct controller;

struct controller_ops {
	void (*on_live)(struct controller *c);
	/* Once for each start: failed, or not live any more (c->error). The owner stops it. */
	void (*on_down)(struct controller *c);
	/* After controller_stop: the admin queue is gone; the domain is still open. */
	void (*on_stopped)(struct controller *c);
	/* Live: identified anew; c->ns and c->ids may differ. NULL for discovery. */
	void (*on_namespace)(struct controller *c);
	/* Live: there is no such namespace any more (c->error). NULL for discovery. */
	void (*on_gone)(struct controller *c);
	/* Live: c->ana_state has changed. NULL for discovery. */
	void (*on_ana)(struct controller *c);
	/* Live, persistent discovery: its log has changed. NULL for others. */
	void (*on_discovery)(struct controller *c);
};

struct keep_alive {
	struct loop_timer timer;
	bool is_pending; /* a command is out */
};

struct async_event {
	struct loop_timer rearm;
	uint64_t last_ns;
};

/* In a controller. Thread: control. */
struct ana_log {
	struct ana_cursor cursor;
	unsigned n_reads;
	unsigned state_before;
	void (*done)(struct controller *c);
};

/* In a controller. Thread: control, or that of an inquiry. */
struct discovery_read {
	struct discover_result result; /* owned; whole when done is called */
	unsigned n_expected, n_read, n_tries;
	enum nvme_status refusal; /* of entries, in this try; NVME_OK: none */
	void (*done)(struct controller *c);
};

/* In a controller. */
struct proof_question {
	struct proof_subject subject;
	void (*done)(struct controller *c, enum proof_word word);
};

/* The counters of SMART that tell one life of the target from another. */
struct power_life {
	bool is_known; /* false: the target has no SMART log */
	uint64_t power_cycles, unsafe_shutdowns;
};

struct controller {
	/* Thread: control */
	struct loop *loop;		    /* borrowed */
	struct cm *cm;			    /* borrowed */
	const struct volume_config *config; /* borrowed */
	const char *subnqn;		    /* borrowed: config's, or the discovery NQN */
	enum controller_kind kind;
	uint64_t connect_timeout_ns; /* to resolve and connect; the owner may change it */
	const struct controller_ops *ops;
	void *context;

	enum controller_state state;
	struct cm_conn *conn; /* owned */
	struct domain domain; /* owned; opened on resolving */
	struct admin admin;
	struct auth_keys *keys;	 /* owned: auth_alloc; NULL: none are configured */
	struct auth_host *auth;	 /* owned: auth_alloc; with keys */
	struct loop_timer timer; /* deadline of CM states, interval of polling */
	uint64_t poll_until_ns, poll_interval_ns;
	struct keep_alive keep_alive;
	struct async_event async_event;
	struct ana_log ana_log;
	struct discovery_read discovery_read;
	struct proof_question question;
	/* called once, by the part that was given them */
	void (*on_life)(struct controller *c), (*on_authenticated)(struct controller *c);
	void (*on_shut_down)(struct controller *c);
	struct loop_call down_call, stopped_call;
	enum controller_reach reach;
	bool has_asked_again;

	/* reported by the controller */
	uint16_t cntlid;
	unsigned n_admin_recv; /* the target's */
	uint64_t cap;
	struct identify_controller id;
	struct identify_limits limits;
	struct identify_namespace ns;
	struct identify_ids ids;
	unsigned n_queues_granted;
	struct power_life life;
	unsigned ana_state; /* enum nvme_ana_state; 0: not known, or there is no ANA */

	struct error error;
	enum controller_cause cause; /* of the error */
};

/* Neither failed, nor stopping, nor stopped. */
static inline bool controller_is_up(const struct controller *c)
{
	return c->state != CTRL_IDLE && c->state != CTRL_DOWN && c->state != CTRL_STOPPING;
}

static inline bool controller_is_discovery(const struct controller *c)
{
	return c->kind != CONTROLLER_KIND_IO;
}
