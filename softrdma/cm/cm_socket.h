/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections between processes of one host: each has a socket of its own, by which the messages
 * of cm_message.h travel. REQ and REP introduce the processes to each other (fabric/peer.h); if one
 * cannot copy, the connection is rejected. Application threads call sr_cm_by_socket, the helper
 * reads the sockets; all under sr_cm_lock.
 */
#pragma once

struct sr_cm_way;

extern const struct sr_cm_way sr_cm_by_socket;
