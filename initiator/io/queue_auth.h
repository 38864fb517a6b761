/* SPDX-License-Identifier: BSD-3-Clause */
/* The authentication of an I/O queue, after its Connect (queue_auth.c). */
#pragma once

#include "initiator/io/auth.h"
#include "transport/device.h"

struct error;
struct volume_queue;

/* Authentication is over, or was not required. status: NVME_OK, or why the queue is of no use. */
typedef void queue_auth_over(struct volume_queue *queue, enum nvme_status status);

/* SENDING <---> RECEIVING, from and to IDLE. */
enum queue_auth_state {
	QUEUE_AUTH_IDLE,      /* not begun, or over */
	QUEUE_AUTH_SENDING,   /* a message of ours is on its way: Authentication Send */
	QUEUE_AUTH_RECEIVING, /* the target was asked for one: Authentication Receive */
};

/* Authentication of the queue. Control makes and unmakes it, like cq and qp. */
struct queue_auth {
	struct auth_keys *keys; /* owned: auth_alloc; NULL: none are configured */
	struct auth_host *host; /* owned: auth_alloc */
	uint8_t *memory;	/* owned mapping: the message on its way */
	struct mr mr;
	queue_auth_over *on_over;
	unsigned state;			/* enum queue_auth_state */
	enum auth_host_failure failure; /* with connect_status */
	enum nvmf_auth_failure explanation;
};

/* Control. Then the caller fills queue->auth.keys. 0, or -errno with *error; unmake accepts one
 * that is half made. */
int queue_auth_make(struct volume_queue *queue, const struct domain *domain, struct error *error);
void queue_auth_unmake(struct volume_queue *queue);
/* I/O loop: Connect was granted; on_over follows, perhaps from inside. */
void queue_auth_start(struct volume_queue *queue, uint64_t connect_result, const char *hostnqn,
		      const char *subnqn, queue_auth_over *on_over);
static inline bool queue_auth_is_running(const struct queue_auth *auth)
{
	return auth->state != QUEUE_AUTH_IDLE;
}
/* I/O loop: the answer to one of its commands. */
void queue_auth_on_answer(struct volume_queue *queue, enum nvme_status status);
