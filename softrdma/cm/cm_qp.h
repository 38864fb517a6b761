/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue pairs and shared receive queues made through an rdma_cm_id, and the
 * attributes that a connection's QP gets at each step (rdma_init_qp_attr): the
 * values of the kernel's ib_cm for RoCE.
 */
#pragma once

#include <stdint.h>

struct ibv_ah_attr;
struct sr_cm_id;

/* The exponent of the queue pair's time-out; the way from this side to the peer's */
uint8_t sr_cm_ack_timeout(const struct sr_cm_id *id);
void sr_cm_fill_address(const struct sr_cm_id *id, struct ibv_ah_attr *ret);
