/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One association with a controller: from an address to "live", and down again. One attempt; the
 * owner (reconnect.c, discover.c) decides about further ones.
 */
#pragma once

#include "initiator/control/admin.h"
#include "initiator/control/ana_log.h"
#include "initiator/io/auth.h"
#include "initiator/control/controller_state.h"
#include "initiator/control/discovery_read.h"
#include "initiator/control/identify.h"
#include "initiator/control/power.h"
#include "initiator/control/proof_ask.h"
#include "initiator/control/volume.h"

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

void controller_init(struct controller *c, struct loop *loop, struct cm *cm,
		     const struct volume_config *config, enum controller_kind kind,
		     const struct controller_ops *ops, void *context);
/* IDLE, the domain closed. on_live or on_down follow, not from inside. */
void controller_start(struct controller *c);
/* Live: normal shutdown, then as controller_stop. */
void controller_shut_down(struct controller *c);
/* Not IDLE. on_stopped follows, not from inside. A second call has no effect. */
void controller_stop(struct controller *c);
/* After on_stopped: true, once, if the Connect command was not answered. */
bool controller_may_ask_again(struct controller *c);
/* IDLE, and everything registered in the domain is gone. */
void controller_close_domain(struct controller *c);

/* Neither failed, nor stopping, nor stopped. */
static inline bool controller_is_up(const struct controller *c)
{
	return c->state != CTRL_IDLE && c->state != CTRL_DOWN && c->state != CTRL_STOPPING;
}

static inline bool controller_is_discovery(const struct controller *c)
{
	return c->kind != CONTROLLER_KIND_IO;
}
