/* SPDX-License-Identifier: BSD-3-Clause */
/* The authentication of an I/O lane, after its Connect (lane_auth.c). */
#pragma once

#include "initiator/io/lane_impl.h"

struct error;
struct lane;

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
