/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared receive queues, the owner's side; fabric/rq.h is the side of the senders that take
 * receives.
 *
 * Application threads post receives and destroy the queue; the helper raises the limit event and
 * handles dead peers. The application owns the queue and frees it through ibv_destroy_srq(), which
 * fails with EBUSY while a queue pair uses it. Public calls return NULL with errno, or an errno
 * value.
 */
#pragma once

#include "softrdma/verbs/cq_impl.h"

/* ibv_post_srq_recv and ibv_create_srq_ex. Any thread; errors as in the manual pages. */
int sr_srq_post_recv(struct ibv_srq *ib, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
/* Takes a free slot: 0 or -ENOMEM. Lists what is in one: NULL while it is made or destroyed. */
int sr_srq_take_slot(struct sr_srq *srq);
void sr_srq_list(uint32_t slot, struct sr_srq *srq, bool in_use);
/* The SRQ in a slot, while it may have completions in a CQ. Any thread. */
struct sr_srq *sr_srq_at(uint32_t slot);
/* ibv_get_srq_num. EINVAL: the SRQ is not of XRC. */
int sr_srq_number(struct ibv_srq *ib, uint32_t *ret);
/* A completion of this receive was polled or dropped: its slot is free again. */
void sr_srq_give(struct sr_srq *srq, uint32_t rqe_slot);
/* Helper: the SRQ's attention bit is set; a peer died. */
void sr_srq_attention(uint32_t slot);
void sr_srq_peer_died(void);
