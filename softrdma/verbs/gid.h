/* SPDX-License-Identifier: BSD-3-Clause */
/* The port's GID table: one RoCE v2 entry for each address of this host. */
#pragma once

#include <infiniband/verbs.h>
#include <stdint.h>

struct sockaddr;

/* The address table behind the port's GIDs. */
int sr_gid_at(int index, union ibv_gid *ret, uint32_t *ret_ifindex);
/* The size of the table: the last entry is empty, as most of an adapter's are. */
int sr_gid_count(void);
/* Index of an address, or 0. */
int sr_gid_index(const struct sockaddr *sa);
void sr_gid_from_sockaddr(const struct sockaddr *sa, union ibv_gid *ret);
