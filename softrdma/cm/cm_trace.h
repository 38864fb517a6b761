/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The connection manager's messages as the management datagrams that they stand for: unreliable
 * datagrams between queue pairs 1, with the service id and the private data of RDMA_PS_TCP
 * (InfiniBand specification volume 1, chapter 12 and annex A11).
 */
#pragma once

struct sr_cm_id;
struct sr_cm_msg;

/* Adds a message to the trace, just before it is sent. */
void sr_cm_trace(const struct sr_cm_id *id, const struct sr_cm_msg *m);
