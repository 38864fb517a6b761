/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The seam between verbs and what moves the data: an engine. verbs/ and cm/ reach the other end of
 * a connection through these calls only. There are two: fabric/shm/, processes of one host that map
 * each other's segments, and fabric/roce/, packets over UDP. A queue pair gets its engine when it
 * comes to RTR.
 *
 * Both sides of the seam share the process' own segment (seg.h): keys, receive queues,
 * completion queues and the receiving half of each queue pair. An engine that receives packets
 * delivers to it as a peer would, with sr_peer_self: rq.h takes a receive, completion.h pushes an
 * entry, verbs/qp_run.h completes or fails a work request. It is called by the helper through a
 * watch of its own (process/part.h) and by threads that poll, and leaves work requests in a stage
 * of its own between execute and their completion (WQE_SENT).
 */
#pragma once

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "softrdma/process/api.h"

struct sr_datagram;
struct sr_hello;
struct sr_peer;
struct sr_qp;
struct sr_wqe;

/* Why a send queue stands still. */
enum sr_qp_wait {
	WAIT_NO,
	WAIT_RNR,   /* the receiver has no receive posted */
	WAIT_RETRY, /* the other end does not answer */
	WAIT_CHAOS, /* chaos delays the request */
};

struct sr_engine {
	/*
	 * Whether the engine is the one for a queue pair with these attributes, which come with
	 * RTR. NULL: it is for those that no other one serves. Application thread, without locks.
	 */
	bool (*serves)(const struct ibv_qp_attr *attr);
	/*
	 * Whether execute only begins a work request. Then it always returns IBV_WC_SUCCESS, the
	 * engine completes or fails the requests itself, in order, and chaos delays packets in
	 * place of work requests.
	 */
	bool completes_later;

	/*
	 * ---- queue pairs. All under the queue pair's sq_lock, unless a line says otherwise.
	 */

	/* The owner of a queue pair number, or NULL: no process owns it, which is no error.
	 * Application thread, without locks: may wait for another process. The reference is the
	 * caller's. */
	struct sr_peer *(*find)(uint32_t qpn);
	/* The queue pair comes to RTR, its attributes are set. found: what find returned. */
	void (*connect)(struct sr_qp *qp, struct sr_peer *found);
	/* The queue pair goes to RESET or is destroyed. Accepts one that was never connected. */
	void (*disconnect)(struct sr_qp *qp);
	/* Whether the other end is known; if not, each retry looks for it again. */
	bool (*is_connected)(const struct sr_qp *qp);
	/*
	 * Executes one send work request, in RTS. On success it has called sr_qp_succeed and
	 * returns IBV_WC_SUCCESS. On failure it has notified the responder as far as the error
	 * concerns it, and the caller completes the request with the returned status. With
	 * *ret_wait set nothing has happened: the caller tries again later.
	 */
	enum ibv_wc_status (*execute)(struct sr_qp *qp, const struct sr_wqe *w, uint64_t index,
				      enum sr_qp_wait *ret_wait);
	/* All work requests that were posted together have been executed. May be NULL. */
	void (*flush)(struct sr_qp *qp);
	/* A receive was posted, or the queue pair came to RTR: resumes the sends that wait for
	 * it. With or without sq_lock. */
	void (*kick)(struct sr_qp *qp);
	/* The other end's min_rnr_timer, encoded as in ibv_modify_qp(3); 0 if it is not known. */
	uint32_t (*rnr_timer)(const struct sr_qp *qp);

	/* Datagrams. Whether it reaches an address from that one of this host. Application thread,
	 * without locks: may wait for another process. */
	bool (*reaches)(const union ibv_gid *local, const union ibv_gid *remote);
	/* Sends a datagram, under sq_lock. False: the receiver is looked for; then qp runs. */
	bool (*send)(struct sr_qp *qp, const struct sr_datagram *d);
	/* Opens the addresses on which datagrams arrive. As reaches; may be NULL. */
	void (*open)(void);

	/* A thread polls an empty completion queue, or will sleep until it gets an entry. Without
	 * locks; may be NULL. */
	void (*poll)(void);
	void (*sleep)(void);
	/* The largest path MTU of the device's first address, or 0: of no concern. May be NULL. */
	enum ibv_mtu (*path_mtu)(void);

	/*
	 * ---- connections, of the engine that serves the rest. Under the connection manager's
	 * lock.
	 */

	/* Fills the hello of a REQ or REP, and the descriptors to send with it (borrowed). */
	void (*introduce)(struct sr_hello *ret, int ret_fds[2]);
	/*
	 * Whether this process and the sender of a REQ or REP may exchange data. Takes the
	 * descriptors. 0, or -errno: the caller rejects the connection. *ret: a reference, for
	 * release.
	 */
	int (*admit)(const struct sr_hello *h, int fds[2], const struct ucred *cred,
		     struct sr_peer **ret);
	/* The connection's socket hung up. Called without the lock of a queue pair: finds out
	 * whether the process has gone, and ends its queue pairs if so. */
	void (*verify)(struct sr_peer *peer);
	struct sr_peer *(*hold)(struct sr_peer *peer);
	void (*release)(struct sr_peer *peer); /* accepts NULL */
};

/* The engine of new queue pairs and connections. Any thread, after sr_node_start. */
const struct sr_engine *sr_engine(void);
/* The engine for a queue pair that comes to RTR. Application thread, without locks. */
const struct sr_engine *sr_engine_for(const struct ibv_qp_attr *attr);
/* The engine that reaches an address, or NULL. Application thread, without locks. */
const struct sr_engine *sr_engine_to(const union ibv_gid *local, const union ibv_gid *remote);
/* Calls open of all engines. */
void sr_engine_open(void);
/* The path MTU of the first engine that has one; otherwise IBV_MTU_4096. Any thread. */
enum ibv_mtu sr_engine_path_mtu(void);

/* The engine whose poll and sleep are to be called: NULL until it has something to read. */
extern const struct sr_engine *_Atomic sr_engine_reads;

/* These two call poll and sleep of that engine, if there is one. Any thread, without locks. */
static inline void sr_engine_poll(void)
{
	const struct sr_engine *e = atomic_load_explicit(&sr_engine_reads, memory_order_acquire);

	if (UNLIKELY(e != NULL))
		e->poll();
}

/* As sr_engine_poll. */
static inline void sr_engine_sleep(void)
{
	const struct sr_engine *e = atomic_load_explicit(&sr_engine_reads, memory_order_acquire);

	if (UNLIKELY(e != NULL))
		e->sleep();
}
