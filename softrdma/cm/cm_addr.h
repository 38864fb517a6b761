/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses, and the names of sockets that stand for ports. Under sr_cm_lock where there is an id.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct sr_cm_id;

int sr_cm_bind(struct sr_cm_id *id, const struct sockaddr *sa);
/* Connects id's socket to the listener on its destination. 0 or -errno. */
int sr_cm_find_listener(struct sr_cm_id *id);
socklen_t sr_cm_sockaddr_len(const struct sockaddr *sa);
bool sr_cm_is_any(const struct sockaddr *sa);
uint16_t sr_cm_port(const struct sockaddr *sa);
void sr_cm_set_port(struct sockaddr *sa, uint16_t port);
/* 0 if the address is this host's; -EADDRNOTAVAIL if not, or another -errno if the check itself
 * lacks a socket (sr_cm_is_shortage). */
int sr_cm_check_local(const struct sockaddr *sa);
bool sr_cm_is_shortage(int r);
