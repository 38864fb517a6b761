/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * QP1 of each local address, the general service interface: management datagrams (MADs) to and from
 * the connection managers of other machines. IBA volume 1, 13.5.3 and annex A17 (RoCE v2).
 *
 * This is the seam between the RoCE engine and cm/: the engine owns the sockets, cm/ every byte of
 * a MAD. An address is a GID as RoCE v2 writes it: IPv6, or IPv4 mapped (::ffff:a.b.c.d).
 *
 * All processes of a user that use one address share UDP port 4791 of it. Which process receives a
 * MAD is decided by its bytes, so what cm/ chooses for them is bound to rules:
 *  - a ConnectRequest goes to the process that listens on the port in its service id
 *    (sr_gsi_listen), or was the last to do so and still runs, which answers what a peer repeats;
 *    else to a process of no choice: that one rejects it;
 *  - every other MAD goes by the first byte (network order) of the communication id that belongs to
 *    its receiver ("remote communication id", MAD byte 24 + 4). So a process may only issue
 *    communication ids whose first byte is in the class that sr_gsi_comm_id_class names.
 */
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

struct roce_packet;
struct roce_passed;
struct roce_port;

#define SR_GSI_MAD_BYTES 256

/* From local to remote, as seen by this process, whichever way the MAD goes. */
struct sr_gsi_path {
	union ibv_gid local, remote;
};

/*
 * Whether this process may use RoCE at all (softrdma --roce, SOFTRDMA_ROCE), and from this local
 * address: SOFTRDMA_ROCE is "any" or one address. Any thread; no lock needed or taken.
 */
bool sr_gsi_allows(const union ibv_gid *local);

/*
 * Opens port 4791 of a local address, once; later calls are cheap. 0, -EADDRINUSE (another user or
 * the kernel's rdma_rxe owns it: said once on standard error), -EADDRNOTAVAIL (not this host's),
 * -EUSERS (as many processes share the address as it can take), -EPERM (sr_gsi_allows), or another
 * -errno. Any thread but the helper; waits for another process of this user for at most a second.
 */
int sr_gsi_open(const union ibv_gid *local);

/*
 * Sends one MAD to QP1 of path->remote, from path->local, which is open. It may be lost without a
 * word, as any datagram. 0, -ENETUNREACH or -EHOSTUNREACH (no route), -ENODEV (not open), or
 * another -errno. Any thread; sr_cm_lock may be held.
 */
int sr_gsi_send(const struct sr_gsi_path *path, const uint8_t mad[SR_GSI_MAD_BYTES]);

/*
 * The receiver of MADs: one function of the process, set before the first sr_gsi_open. Called in
 * the helper thread, without locks. Its bytes are as they came: checked are the checksum, P_Key,
 * Q_Key, the two QP numbers and the length, nothing in the MAD. mad is valid during the call.
 */
typedef void sr_gsi_on_mad(const struct sr_gsi_path *path, const uint8_t mad[SR_GSI_MAD_BYTES]);
void sr_gsi_receive(sr_gsi_on_mad *fn);

/*
 * The receiver of "port unreachable": path->remote may have no RoCE. Any machine can forge such a
 * report: it is a hint for requests without an answer, and nothing else. Some are dropped where too
 * many come. In the helper thread, without locks. NULL: not wanted, as at first.
 */
typedef void sr_gsi_on_unreachable(const struct sr_gsi_path *path);
void sr_gsi_watch_unreachable(sr_gsi_on_unreachable *fn);

/*
 * Requests for a port (host order) of RDMA_PS_TCP or RDMA_PS_UDP come to this process from now on,
 * or no longer. The address is open. 0, -EADDRINUSE (another process listens on it), -ENOSPC (too
 * many ports), or another -errno. Any thread; sr_cm_lock may be held. A process that dies listens
 * no longer.
 */
int sr_gsi_listen(const union ibv_gid *local, enum rdma_port_space ps, uint16_t port);
void sr_gsi_unlisten(const union ibv_gid *local, enum rdma_port_space ps, uint16_t port);
/* Whether another process listens there now. Any thread; sr_cm_lock may be held. */
bool sr_gsi_others_listen(const union ibv_gid *local, enum rdma_port_space ps, uint16_t port);

/*
 * Which communication ids this process may issue at this address: those whose first byte c on the
 * wire has (c & *ret_mask) == *ret_value. The address is open. 0 or -ENODEV. Any thread.
 */
int sr_gsi_comm_id_class(const union ibv_gid *local, uint8_t *ret_mask, uint8_t *ret_value);

/*
 * The GUID of the address, equal in all processes that share it, made from its interface's MAC
 * (EUI-64), or from random bytes where it has none. Network order. 0 or -ENODEV. Any thread.
 */
int sr_gsi_guid(const union ibv_gid *local, uint8_t ret[8]);

/*
 * The largest path MTU that the interface of the route to path->remote carries, or less if the
 * route was given an MTU: what a ConnectRequest names, and what a peer's is compared with. ICMP
 * does not count. IBV_MTU_256 to IBV_MTU_4096, or 0: no route, or too small for RoCE. Any thread;
 * costs system calls.
 */
enum ibv_mtu sr_gsi_path_mtu(const struct sr_gsi_path *path);

/*
 * The local address from which the host's routing table reaches remote, and which sr_gsi_allows. 0
 * or -ENETUNREACH. Any thread; costs system calls.
 */
int sr_gsi_route(const union ibv_gid *remote, union ibv_gid *ret_local);

/* A datagram to a queue pair that is no connection. In the thread that reads, which may poll. */
void gsi_on_packet(struct roce_port *port, const union ibv_gid *from, const struct roce_packet *p);
/* Another process of this host has received this, and it is for this process. Helper. */
void gsi_on_passed(const struct roce_passed *passed);
void gsi_forget(void);
/* The path MTU that the interface of a local address can carry; 0: none. */
enum ibv_mtu gsi_interface_mtu(const union ibv_gid *local);
