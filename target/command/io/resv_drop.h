/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Drops a registrant of a namespace at an administrator's word, as if another host had preempted
 * it: no command that the new state forbids lands later, the state is kept as after a command, and
 * hosts are notified.
 *
 *   control: resv_drop_start --> poller 0: turn, kept, published, visit --> control: done
 */
#pragma once

#include "base/loop.h"
#include "target/engine/request/request_turn.h"
#include "target/export/guard/guard_impl.h"
#include "target/export/guard/reservation.h"

enum resv_drop_state {
	RESV_DROP_RUNS,
	RESV_DROP_DONE,
	RESV_DROP_NO_NAMESPACE,	 /* it was removed meanwhile */
	RESV_DROP_NO_REGISTRANT, /* no host is registered with the identifier */
	RESV_DROP_NOT_KEPT, /* the new state cannot be kept, or the old one not be read: error */
};

/* Owner: control; while it runs, poller 0. */
struct resv_drop {
	/* Control sets these, and the rest is zeroed. */
	struct target *target;
	char subnqn[NVMF_NQN_MAX + 1];
	uint32_t nsid;
	uint8_t hostid[HOSTID_BYTES];
	/* Control: it is over, and state, error and nqn say how. */
	void (*done)(struct resv_drop *drop);

	enum resv_drop_state state;
	int error;		    /* of NOT_KEPT: -errno; record_strerror */
	char nqn[NVMF_NQN_MAX + 1]; /* of the host that had registered; "": not known */

	struct loop_msg msg; /* to the poller and back */
	struct guard_client client;
	struct pass pass;
	struct namespace *ns;
	struct namespace_counters *counters; /* it is in use until the end */
	struct reservation *old;
};

/* Control. Counts in target->n_drops until done is called, never from inside. */
void resv_drop_start(struct resv_drop *drop);
