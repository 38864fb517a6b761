/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagrams to and from other hosts; see roce_datagram.c. */
#pragma once

#include "softrdma/fabric/roce/port.h"
#include "softrdma/verbs/datagram.h"

/* The calls of struct sr_engine; fabric/engine.h. */
bool roce_reaches(const union ibv_gid *local, const union ibv_gid *remote);
bool roce_send_datagram(struct sr_qp *qp, const struct sr_datagram *d);
/* Opens all addresses of this host on which datagrams of other hosts may arrive. True: any. */
bool roce_open_all(void);
/* A packet with a DETH to a queue pair other than 1. Takes the locks itself. */
void roce_on_datagram(struct roce_port *port, const union ibv_gid *from,
		      const struct roce_packet *p);
