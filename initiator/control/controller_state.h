/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The states of an association (controller.h):
 *
 *   IDLE -> RESOLVING -> CONNECTING -> SENDING_CONNECT (-> AUTHENTICATING) -> READING_CAP ->
 *   DISABLING -> WAITING_DISABLED -> ENABLING -> WAITING_READY -> IDENTIFYING_CONTROLLER
 *       -> LIVE                                                            (discovery)
 *       -> SETTING_EVENTS -> LIVE                                          (persistent discovery)
 *       -> IDENTIFYING_LIMITS -> SETTING_QUEUES -> SETTING_EVENTS -> IDENTIFYING_IDS ->
 *          IDENTIFYING_NAMESPACE -> READING_SMART (-> READING_ANA) -> LIVE (I/O controller)
 *                  +-> LISTING_NAMESPACES -> (fails: there is no such namespace)
 *   LIVE -> SHUTTING_DOWN -> WAITING_SHUT_DOWN -> STOPPING -> IDLE
 *   any -> STOPPING -> IDLE,  any -> DOWN -> STOPPING
 */
#pragma once

enum controller_state {
	CTRL_IDLE,
	CTRL_RESOLVING,
	CTRL_CONNECTING,
	CTRL_SENDING_CONNECT,
	CTRL_AUTHENTICATING,
	CTRL_READING_CAP,
	CTRL_DISABLING,
	CTRL_WAITING_DISABLED,
	CTRL_ENABLING,
	CTRL_WAITING_READY,
	CTRL_IDENTIFYING_CONTROLLER,
	CTRL_IDENTIFYING_LIMITS,
	CTRL_SETTING_QUEUES,
	CTRL_SETTING_EVENTS,
	CTRL_IDENTIFYING_IDS,
	CTRL_IDENTIFYING_NAMESPACE,
	CTRL_READING_SMART,
	CTRL_READING_ANA,
	CTRL_LISTING_NAMESPACES,
	CTRL_LIVE,
	CTRL_SHUTTING_DOWN,
	CTRL_WAITING_SHUT_DOWN,
	CTRL_DOWN, /* it has failed, and waits for controller_stop */
	CTRL_STOPPING,
};

enum controller_kind {
	CONTROLLER_KIND_IO,
	CONTROLLER_KIND_DISCOVERY,	      /* for one question: no keep alive, no events */
	CONTROLLER_KIND_PERSISTENT_DISCOVERY, /* it stays, and notifies of changes */
};

/* The cause of a failed attempt, as far as its owner has to know it. */
enum controller_cause {
	CAUSE_OTHER,
	CAUSE_PERMANENT,  /* the target reports that a retry is pointless */
	CAUSE_MISSING,	  /* the target has no such namespace */
	CAUSE_TRANSIENT,  /* it will pass soon, even when connecting for the first time */
	CAUSE_ASKED,	  /* the target asks for a new association */
	CAUSE_UNUSABLE,	  /* it answers, but not so that it is of any use */
	CAUSE_UNANSWERED, /* the Connect command, or its answer, was lost */
};

/* How far an attempt came, and so what its end has to undo. */
enum controller_reach {
	REACH_NONE,
	REACH_ADMIN, /* there is an admin queue */
	REACH_PEER,  /* its connection is established */
};
