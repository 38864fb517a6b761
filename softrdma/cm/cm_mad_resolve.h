/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses of other machines: cm_mads.h. The host's routing table decides the source address. */
#pragma once

#include <infiniband/verbs.h>
#include <stdint.h>

struct ib_cm_ends;
struct sockaddr;
struct sockaddr_in6;
struct sockaddr_storage;
struct sr_cm_id;

/* Application thread, without sr_cm_lock: may wait for another process. Whether the destination is
 * reached by MADs: 0, and *ret_local is this side's address, opened; src may be NULL or a wildcard.
 * -EHOSTUNREACH: not allowed, or no route; or another -errno. */
int sr_cm_find_far(const struct sockaddr *src, const struct sockaddr *dst,
		   struct sockaddr_storage *ret_local);
/* The path MTU between two addresses; at least IBV_MTU_256. */
enum ibv_mtu sr_cm_path_mtu(const struct ib_cm_ends *ends);
void sr_cm_ends(const struct sr_cm_id *id, struct ib_cm_ends *ret);
void sr_cm_gid_to_sockaddr(const uint8_t gid[16], uint16_t port, struct sockaddr_in6 *ret);
