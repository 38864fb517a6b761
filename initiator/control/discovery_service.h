/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One persistent discovery controller: an address, the association with it, what its log has of one
 * subsystem, and when to try again. volume_discovery.c decides what follows for the paths of the
 * volume. Control loop only; see discovery_service.c.
 */
#pragma once

#include "initiator/control/controller_impl.h"
#include "initiator/control/volume_config.h"

struct discovery_service;
struct volume;

enum {
	DISCOVERY_PORTALS_MAX = 16, /* of the subsystem, that are taken from one log */
};

/* The rules of moves: discovery_service.c. */
enum discovery_phase {
	DISCOVERY_IDLE,	   /* nothing of it is in the device */
	DISCOVERY_WAITING, /* for the next attempt */
	DISCOVERY_CONNECTING,
	DISCOVERY_LIVE,
	DISCOVERY_RESETTING, /* the association is being taken apart */
	DISCOVERY_ENDING,    /* the same, for the last time */
};

enum discovery_reading {
	READING_NOTHING,
	READING_LOG,
	READING_OLD_LOG, /* it has changed since the read began: once more */
};

/* Notices of a service to its owner. None may free it from inside, but on_ended. */
struct discovery_service_ops {
	/* Its log was read: has_log. */
	void (*on_log)(struct discovery_service *service);
	/* It was live, or an attempt failed: last_error. */
	void (*on_down)(struct discovery_service *service);
	/* IDLE: discovery_service_move_to, if it is to be another address, and _wait. */
	void (*on_idle)(struct discovery_service *service);
	/* After discovery_service_end: nothing of it is left. */
	void (*on_ended)(struct discovery_service *service);
};

struct discovery_service {
	/* Thread: control */
	struct volume *volume; /* borrowed; the owner's */
	struct loop *loop;     /* borrowed */
	const struct discovery_service_ops *ops;
	struct volume_config config; /* the volume's, with the address of this service */
	struct controller controller;

	enum discovery_phase phase;
	uint64_t phase_since_ns;
	enum discovery_reading reading;
	unsigned n_logs;     /* that were read in this association */
	unsigned n_attempts; /* since it was of use for long enough */
	unsigned n_refusals; /* in a row: it answers, but not so that it is of any use */
	struct loop_timer attempt_timer;
	struct loop_call ended_call;
	uint64_t live_since_ns; /* 0: never */
	struct error last_error;

	union addr referred_by; /* a service; sa_family 0: the user names the address */
	/* The last log that was read, of this address: what stands there of the subsystem. */
	bool has_log;
	uint64_t genctr, changed_ns; /* clock_ns(): when it was read that it has changed */
	union addr portals[DISCOVERY_PORTALS_MAX];
	unsigned n_portals;
	union addr referrals[DISCOVERY_REFERRALS_MAX];
	unsigned n_referrals, n_left_out; /* that found no room in these arrays */
};

/* config: the volume's, copied; cm and loop are borrowed. It is IDLE. */
void discovery_service_init(struct discovery_service *service, struct volume *volume,
			    struct loop *loop, struct cm *cm, const struct volume_config *config,
			    const union addr *address, const struct discovery_service_ops *ops);
/* IDLE: the next attempt, when it is due. */
void discovery_service_wait(struct discovery_service *service);
/* IDLE: another address; what is known of the last one's log is forgotten. */
void discovery_service_move_to(struct discovery_service *service, const union addr *address);
/* Ends whatever there is; on_ended follows, not from inside. A second call has no effect. */
void discovery_service_end(struct discovery_service *service);
/* Its last log has this portal of the subsystem. */
bool discovery_service_lists(const struct discovery_service *service, const union addr *portal);
