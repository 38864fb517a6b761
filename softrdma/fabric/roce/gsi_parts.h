/* SPDX-License-Identifier: BSD-3-Clause */
/* The general service interface as the engine calls it; gsi.h is for the connection manager. */
#pragma once

#include "softrdma/fabric/roce/port.h"

/* A datagram to a queue pair that is no connection. In the thread that reads, which may poll. */
void gsi_on_packet(struct roce_port *port, const union ibv_gid *from, const struct roce_packet *p);
/* What another process of this host has got and is for this one. Helper. */
void gsi_on_passed(const struct roce_passed *passed);
void gsi_forget(void);
/* The path MTU that the interface of a local address can carry; 0: none. */
enum ibv_mtu gsi_interface_mtu(const union ibv_gid *local);
