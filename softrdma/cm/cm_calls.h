/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The calls that drive a connection: rdma_connect, rdma_listen, rdma_accept and those that end it.
 * Application threads; all under sr_cm_lock, except that QPs are modified without it.
 */
#pragma once

struct sr_cm_id;

/* Calls on a synchronous id end with the event that answers them. */
int sr_cm_wait_sync(struct sr_cm_id *id, int r);
