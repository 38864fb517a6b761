/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One connection of the connection manager as InfiniBand's protocol sees it: state + event -> state
 * + what to send + what to notify. InfiniBand specification volume 1, 12.9; events and statuses are
 * those that the kernel's cm.c and cma.c give.
 *
 * Pure: no clock, no socket, no memory. The caller brings the time (ns, any origin), passes each
 * call, MAD and expired timer, then sends ret->mad if ret->has_mad, notifies the connection's owner
 * of ret->notice, and calls ib_cm_timer at c->due_ns. Not thread safe: one lock of the caller's
 * guards a connection. Nothing that a peer sends can break an invariant.
 */
#pragma once

#include "softrdma/cm/mad.h"
#include "softrdma/cm/refusals.h"

enum ib_cm_state {
	IB_CM_IDLE,
	IB_CM_REQ_SENT,
	IB_CM_REQ_RCVD,
	IB_CM_REP_SENT,
	IB_CM_REP_RCVD,
	IB_CM_ESTABLISHED,
	IB_CM_DOUBTED, /* established, if the peer still knows it: it is asked */
	IB_CM_DREQ_SENT,
	IB_CM_DREQ_RCVD,
	IB_CM_TIMEWAIT,
	IB_CM_REJECTED, /* by this side; duplicates of what was rejected get the REJ again */
	IB_CM_GONE,	/* its ids may be used again; the caller frees it */
	IB_CM_N_STATES,
};

/* Notices to the owner, each with the rdma_cm event that stands for it. */
enum ib_cm_notice {
	IB_CM_NOTHING,
	IB_CM_RESPONSE,	     /* CONNECT_RESPONSE; the MAD is the REP */
	IB_CM_UP,	     /* ESTABLISHED, of the passive side */
	IB_CM_REFUSED,	     /* REJECTED, status: the reason; the MAD is the REJ */
	IB_CM_UNREACHABLE,   /* UNREACHABLE, status: -errno */
	IB_CM_DOWN,	     /* DISCONNECTED, status 0, or -ETIMEDOUT: the DREQ has no answer */
	IB_CM_TIMEWAIT_OVER, /* TIMEWAIT_EXIT */
};

struct ib_cm_result {
	bool has_mad;
	uint8_t mad[MAD_BYTES];
	enum ib_cm_notice notice;
	int status;
};

enum ib_cm_side {
	IB_CM_ACTIVE,
	IB_CM_PASSIVE,
};

struct ib_cm {
	unsigned state; /* enum ib_cm_state */
	enum ib_cm_side side;
	uint32_t local_id, remote_id; /* communication ids; remote_id is 0 while unknown */
	uint64_t tid;		      /* of the REQ */
	uint8_t guid[8], remote_guid[8];
	uint32_t local_qpn, remote_qpn;
	uint64_t due_ns;		 /* when ib_cm_timer is to be called; 0: never */
	uint64_t give_up_ns;		 /* the end of all repetitions */
	uint64_t interval_ns;		 /* until the next repetition; doubles */
	struct refusals refusals;	 /* of the REQ */
	uint64_t patience_ns;		 /* for the peer's answer to this side's REP */
	unsigned n_repeats, max_repeats; /* of the REP, by the timer */
	uint8_t last[MAD_BYTES];	 /* the last message that a duplicate or a loss repeats */
};

/* A new connection of the active side. local_id: random, not 0, used by no other connection. */
void ib_cm_init(struct ib_cm *c, uint32_t local_id, const uint8_t guid[8]);
/* A new connection of the passive side, in REQ_RCVD. */
void ib_cm_init_passive(struct ib_cm *c, uint32_t local_id, const uint8_t guid[8],
			const struct mad *req);

/*
 * Calls of the owner. 0, or -EINVAL: not in this state, and nothing has changed.
 *
 * connect sends m, a REQ, and repeats it until patience_ns have passed without an answer; accept
 * sends m, a REP. Both fill in the ids, the transaction id and the GUID; the caller everything
 * else. establish sends the RTU. reject sends a REJ for the REQ or the REP that was received.
 * disconnect sends a DREQ, or the DREP that answers the peer's.
 */
int ib_cm_connect(struct ib_cm *c, uint64_t now_ns, uint64_t patience_ns, struct mad *m,
		  struct ib_cm_result *ret);
int ib_cm_accept(struct ib_cm *c, uint64_t now_ns, struct mad *m, struct ib_cm_result *ret);
int ib_cm_establish(struct ib_cm *c, struct ib_cm_result *ret);
int ib_cm_reject(struct ib_cm *c, uint64_t now_ns, enum mad_reason reason, const void *data,
		 unsigned len, struct ib_cm_result *ret);
int ib_cm_disconnect(struct ib_cm *c, uint64_t now_ns, struct ib_cm_result *ret);
/* The owner is gone in whatever state: the peer is notified as far as the state asks for it. Later
 * notices concern no owner. */
void ib_cm_abandon(struct ib_cm *c, uint64_t now_ns, struct ib_cm_result *ret);

/* The passive side repeats its REP so often at most, besides once for each copy of the REQ: the
 * peer's address may be forged. */
void ib_cm_limit_repeats(struct ib_cm *c, unsigned max);
/* The place of a connection that is not established yet is needed for others. A request that has
 * had no answer vanishes, so that its next copy may find a place. */
void ib_cm_drop(struct ib_cm *c, uint64_t now_ns, struct ib_cm_result *ret);

/*
 * A request claims the peer's queue pair for another connection, as after a restart of the peer.
 * Any machine can forge one, so the peer is asked whether it knows this connection: by the REP once
 * more, which it answers with an RTU, or with a REJ if not. Without an answer for 10 s, the
 * connection ends with a DREQ. An active side has nothing that it could ask with: it notices the
 * end of its peer by its own requests.
 */
void ib_cm_doubt(struct ib_cm *c, uint64_t now_ns, struct ib_cm_result *ret);

/* Data arrived on the queue pair: it stands for an RTU that was lost or overtaken. */
void ib_cm_on_data(struct ib_cm *c, struct ib_cm_result *ret);
/* A MAD whose ids are this connection's (ib_cm_table.h). */
void ib_cm_on_mad(struct ib_cm *c, uint64_t now_ns, const struct mad *m, struct ib_cm_result *ret);
/* due_ns has come; earlier calls do nothing. */
void ib_cm_timer(struct ib_cm *c, uint64_t now_ns, struct ib_cm_result *ret);
/* The network reports that the peer's port does not exist (refusals.h): a REQ ends with
 * -ECONNREFUSED when several copies got this and no answer; nothing else heeds it. */
void ib_cm_on_unreachable(struct ib_cm *c);

/* Answers without a connection. A REQ is refused with a REJ. */
void ib_cm_refuse(const struct mad *req, enum mad_reason reason, uint8_t ret[MAD_BYTES]);
/* Answers a MAD whose connection does not exist, or not any more: a DREQ with a DREP, a REP with a
 * REJ, so that the peer does not wait for nothing. False: no answer. */
bool ib_cm_answer_stray(const struct mad *m, uint8_t ret[MAD_BYTES]);

/* For people, and for the checked table of moves. */
const char *ib_cm_state_name(unsigned state);
bool ib_cm_may_move(unsigned from, unsigned to);
