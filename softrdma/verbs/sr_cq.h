/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion queues and channels, the owner's side; fabric/completion.h is the producers' side.
 *
 * Application threads poll, arm and destroy; the helper thread handles attention and dead peers.
 * The application owns channel and queue and frees them through the verbs calls. Consumers hold
 * `poll`; the entries themselves are in the segment, guarded by its lock. Public calls return NULL
 * with errno, or an errno value; sr_cq_poll() returns the number of entries.
 */
#pragma once

#include "softrdma/verbs/cq_impl.h"

/* Waits until no thread delivers by a key that it read before. */
void sr_cq_quiesce_all(void);
/* A peer died: takes over its locks and raises the events that it may have left out. */
void sr_cq_peer_died(void);

int sr_cq_req_notify(struct ibv_cq *ib, int solicited_only);
struct ibv_cq_ex *sr_cq_create_ex(struct ibv_context *c, struct ibv_cq_init_attr_ex *attr);
/* Helper: the CQ's attention bit is set. */
void sr_cq_attention(uint32_t slot);
