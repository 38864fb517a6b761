/* SPDX-License-Identifier: BSD-3-Clause */
/* Multicast groups of ids; see cm_multicast.c. */
#pragma once

#include "softrdma/fabric/datagram.h"

/* The address of this host from which datagrams go to a group, where the program names none: that
 * of the first GID of the family. 0 or -EADDRNOTAVAIL. */
int sr_cm_group_source(const struct sockaddr *dst, struct sockaddr_storage *ret);
