/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How much an interface and a route of this host carry. Only what its administrator has set counts:
 * what ICMP has told the kernel of a destination, such as a path MTU, may be forged.
 */
#pragma once

#include <infiniband/verbs.h>
#include <net/if.h>
#include <stdint.h>

/* In bytes; 0: there is no such interface. Any thread. */
unsigned roce_interface_mtu(const char name[IF_NAMESIZE]);
/*
 * The MTU of the interface of the route to remote, or less if the route was given an MTU. scope:
 * the interface, where remote is link-local. Bytes; 0: no route; -errno: the kernel cannot be
 * asked. Any thread.
 */
int roce_route_mtu(const union ibv_gid *local, const union ibv_gid *remote, uint32_t scope);
