/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Consuming completions: the owner's threads take the poll lock, copy an entry out, give back what
 * the work request occupied, and move the head.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct ibv_cq;
struct ibv_wc;
struct sr_cq;

/* A QP is destroyed or reset: its entries vanish (receives go back to their SRQ). */
void sr_cq_drop_qp(struct sr_cq *cq, uint32_t qp_slot);
/* The same of an XRC SRQ that is destroyed. */
void sr_cq_drop_srq(struct sr_cq *cq, uint32_t srq_slot);

/* Whether there is an entry; reads what has arrived, if there is none. Without cq->poll. */
bool sr_cq_look(struct sr_cq *cq);
/* Takes the next entry; called with cq->poll held. */
bool sr_cq_pop(struct sr_cq *cq, struct ibv_wc *wc);

/* ibv_poll_cq, ibv_req_notify_cq, ibv_create_cq_ex. Any thread; errors as in the manual pages. */
int sr_cq_poll(struct ibv_cq *ib, int n, struct ibv_wc *wc);
