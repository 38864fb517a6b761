/* SPDX-License-Identifier: BSD-3-Clause */
/* The authentication of an I/O lane, after its Connect (lane_auth.c). */
#pragma once

#include "initiator/io/auth.h"
#include "transport/device.h"

struct error;
struct lane;

/* Authentication is over, or was not required. status: NVME_OK, or why the queue is of no use. */
typedef void lane_auth_over(struct lane *lane, enum nvme_status status);

/* SENDING <---> RECEIVING, from and to IDLE. */
enum lane_auth_state {
	LANE_AUTH_IDLE,	     /* not begun, or over */
	LANE_AUTH_SENDING,   /* a message of ours is on its way: Authentication Send */
	LANE_AUTH_RECEIVING, /* the target was asked for one: Authentication Receive */
};

/* Authentication of the queue. Control makes and unmakes it, like cq and qp. */
struct lane_auth {
	struct auth_keys *keys; /* owned: auth_alloc; NULL: none are configured */
	struct auth_host *host; /* owned: auth_alloc */
	uint8_t *memory;	/* owned mapping: the message on its way */
	struct mr mr;
	lane_auth_over *on_over;
	enum lane_auth_state state;
	enum auth_host_failure failure; /* with connect_status */
	enum nvmf_auth_failure explanation;
};

/* Control. Then the caller fills lane->auth.keys. 0, or -errno with *error; unmake accepts one
 * that is half made. */
int lane_auth_make(struct lane *lane, const struct domain *domain, struct error *error);
void lane_auth_unmake(struct lane *lane);
/* I/O loop: Connect was granted; on_over follows, perhaps from inside. */
void lane_auth_start(struct lane *lane, uint64_t connect_result, const char *hostnqn,
		     const char *subnqn, lane_auth_over *on_over);
static inline bool lane_auth_is_running(const struct lane_auth *auth)
{
	return auth->state != LANE_AUTH_IDLE;
}
/* I/O loop: the answer to one of its commands. */
void lane_auth_on_answer(struct lane *lane, enum nvme_status status);
