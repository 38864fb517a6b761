/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Running the links: packets in, packets out, time. It happens in the thread that posts, in the one
 * that reads a socket, and in the helper when a deadline has come.
 */
#pragma once

#include <infiniband/verbs.h>
#include <stdint.h>

struct roce_arrival;
struct roce_packet;
struct roce_port;
struct sr_qp;

/* Sends what may be sent: answers first, then requests. Completes what is done. */
void roce_pump(struct sr_qp *qp);
/* No deadline and no window concerns the link any more. */
void roce_retire(struct sr_qp *qp);
/* A packet of a connection, or CNP. Takes the locks itself. */
void roce_on_connected_packet(struct roce_port *port, const union ibv_gid *from,
			      const struct roce_packet *p, const struct roce_arrival *how);
/* After a batch of packets: answers them. Takes the locks itself. */
void roce_after_batch(void);
/* The helper looks at all links at about this time. Any thread, any lock. */
void roce_wake_at(uint64_t ns);
void roce_run_forget(void);
