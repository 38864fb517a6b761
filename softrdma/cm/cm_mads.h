/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections with other machines: the connection manager's messages as MADs on queue pair 1.
 * Everything is called under sr_cm_lock, unless a line says otherwise.
 */
#pragma once

#include "softrdma/cm/cm_way.h"
#include "softrdma/cm/half_open.h"
#include "softrdma/cm/ib_cm_table.h"
#include "softrdma/fabric/roce/gsi.h"
#include "softrdma/process/timer.h"

struct sr_cm_id;

/* A connection as the peers know it; it outlives its id until its ids may be used again. */
struct sr_mad_conn {
	struct ib_cm_entry entry; /* first */
	uint64_t serial;	  /* of the id; 0: it is gone */
	struct sr_timer timer;	  /* at entry.cm.due_ns */
	struct half_open half;	  /* passive: until the peer has answered */
};

extern const struct sr_cm_way sr_cm_by_mads;

/* ---- cm_mad_resolve.c: addresses of other machines */

/* Application thread, without sr_cm_lock: may wait for another process. Whether the destination is
 * reached by MADs: 0, and *ret_local is this side's address, opened; src may be NULL or a wildcard.
 * -EHOSTUNREACH: not allowed, or no route; or another -errno. */
int sr_cm_find_far(const struct sockaddr *src, const struct sockaddr *dst,
		   struct sockaddr_storage *ret_local);
/* The path MTU between two addresses; at least IBV_MTU_256. */
enum ibv_mtu sr_cm_path_mtu(const struct ib_cm_ends *ends);
void sr_cm_ends(const struct sr_cm_id *id, struct ib_cm_ends *ret);
void sr_cm_gid_to_sockaddr(const uint8_t gid[16], uint16_t port, struct sockaddr_in6 *ret);

/* ---- cm_mad_listen.c: which requests are for this process */

/* Application thread, without sr_cm_lock: opens the addresses on which id, bound, will listen. 0 or
 * -errno. */
int sr_cm_open_listen(struct sr_cm_id *id);
/* Requests for the id's port come to this process, as long as the id lives. 0 or -errno. */
int sr_cm_start_listen(struct sr_cm_id *id);
void sr_cm_stop_listen(struct sr_cm_id *id);
/* The serial of the id that listens on that address and port of that space, or 0. */
uint64_t sr_cm_find_mad_listener(const uint8_t gid[16], enum rdma_port_space ps, uint16_t port);

/* ---- cm_mad_held.c: requests that no program listens for yet */

/* Serves a request if a program listens for it, or if it is the last time. Whether it did. */
typedef bool sr_cm_serve(const struct ib_cm_ends *ends, const struct mad *m, bool is_last);
/* Calls fn again, soon, until it returns true. False: too many wait, and nothing happens. */
bool sr_cm_hold_request(const struct ib_cm_ends *ends, const struct mad *m, sr_cm_serve *fn);

/* ---- cm_mad_message.c: the messages above as MADs, and back */

void sr_cm_to_req(const struct sr_cm_id *id, const struct sr_cm_msg *from, struct mad *ret);
void sr_cm_to_rep(const struct sr_cm_msg *from, struct mad *ret);
/* A REQ, checked: 0, or the reason for which it is rejected. */
uint32_t sr_cm_from_req(const struct mad *m, const struct ib_cm_ends *ends, struct sr_cm_msg *ret);
void sr_cm_from_rep(const struct mad *m, struct sr_cm_msg *ret);
/* The same of a service id resolution; ids and status are the caller's. */
void sr_cm_to_sidr_req(const struct sr_cm_id *id, const struct sr_cm_msg *from, struct mad *ret);
uint32_t sr_cm_from_sidr_req(const struct mad *m, const struct ib_cm_ends *ends,
			     struct sr_cm_msg *ret);
void sr_cm_to_sidr_rep(const struct sr_cm_msg *from, struct mad *ret);
void sr_cm_from_sidr_rep(const struct mad *m, struct sr_cm_msg *ret);
void sr_cm_from_rej(const struct mad *m, struct sr_cm_msg *ret);
/* The exponent of a request's time-out, within sensible bounds: 0 is for ever. */
uint8_t sr_cm_bound_ack_timeout(uint8_t exponent);
