/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine for peers on other machines: RoCE v2 over UDP sockets; see fabric/engine.h. It serves
 * queue pairs whose peer's address is none of this host's, where SOFTRDMA_ROCE allows it.
 */
#include <string.h>

#include "softrdma/fabric/roce/batch.h"
#include "softrdma/fabric/roce/gsi.h"
#include "softrdma/fabric/roce/link.h"
#include "softrdma/fabric/roce/local.h"
#include "softrdma/fabric/roce/port.h"
#include "softrdma/fabric/roce/roce_datagram.h"
#include "softrdma/fabric/roce/run.h"
#include "softrdma/process/part.h"
#include "softrdma/verbs/gid.h"

enum {
	GOODBYES = 2,
	GOODBYES_AFTER_LOSS = 10,
};

static const struct sr_engine engine;

static bool is_local(const union ibv_gid *gid)
{
	union ibv_gid at;

	for (int i = 0, n = sr_gid_count(); i < n; i++)
		if (!sr_gid_at(i, &at, NULL) && !memcmp(&at, gid, sizeof(at)))
			return true;
	return false;
}

static bool serves(const struct ibv_qp_attr *a)
{
	struct roce_port *port;
	union ibv_gid local;

	if (!roce_allows(NULL) || !a->ah_attr.is_global ||
	    sr_gid_at(a->ah_attr.grh.sgid_index, &local, NULL) || is_local(&a->ah_attr.grh.dgid) ||
	    roce_port_open(&local, &port))
		return false;
	atomic_store(&sr_engine_reads, &engine);
	return true;
}

/* Queue pairs are found by address, not by process. */
static struct sr_peer *find(uint32_t qpn)
{
	return NULL;
}

/*
 * The last acknowledgement may be lost, and after this no process repeats it: it is sent again
 * unasked. A requester takes one and ignores the others.
 */
static void say_goodbye(struct sr_qp *qp)
{
	struct roce_link *l = qp->end.link;
	bool has_lost = l->r.n_gaps || l->r.n_duplicates || l->losses;
	struct roce_batch *b;

	if (l->r.broken || l->r.n_owed)
		return;
	b = roce_batch_begin();
	for (int i = 0; i < (has_lost ? GOODBYES_AFTER_LOSS : GOODBYES); i++) {
		struct roce_packet p = {.opcode = roce_opcode_of(qp, ROCE_ACK),
					.syndrome = ROCE_SYNDROME_ACK,
					.dest_qpn = l->dest_qpn,
					.psn = (l->r.expected - 1) & 0xffffff,
					.msn = l->r.msn};
		uint8_t *at = roce_batch_room(b);

		roce_batch_add(b, &l->way, roce_packet_encode(&p, at));
	}
	roce_batch_end(b);
}

static void leave(struct sr_qp *qp)
{
	if (!qp->end.link)
		return;
	if (qp->end.link->r.msn && !sr_qp_is_lossy(qp))
		say_goodbye(qp);
	roce_retire(qp);
	roce_link_free(qp->end.link);
	qp->end.link = NULL;
}

static void join(struct sr_qp *qp, struct sr_peer *found)
{
	leave(qp);
	qp->end.link = roce_link_new(qp);
}

static bool is_connected(const struct sr_qp *qp)
{
	return true;
}

static struct roce_requester_config config_of(const struct sr_qp *qp)
{
	const struct ibv_qp_attr *a = &qp->attr;

	return (struct roce_requester_config){
		.is_lossy = sr_qp_is_lossy(qp),
		.mtu = 128u << a->path_mtu,
		.first_psn = a->sq_psn,
		.max_rd_atomic = a->max_rd_atomic,
		.retries = a->retry_cnt,
		.rnr_retries = a->rnr_retry,
		/* Up to four times as long as told (IBA 9.7.6.1.3): the peer may wait for a CPU. */
		.timeout_ns = a->timeout ? 4 * (4096ULL << a->timeout) : 0,
	};
}

static enum ibv_wc_status execute(struct sr_qp *qp, const struct sr_wqe *w, uint64_t index,
				  enum sr_qp_wait *ret_wait)
{
	struct roce_link *l = qp->end.link;
	struct roce_requester_config config = config_of(qp);
	struct roce_request request;

	if (!l) { /* no memory at RTR: as if the peer was silent */
		*ret_wait = WAIT_RETRY;
		return IBV_WC_SUCCESS;
	}
	if (l->has_requester)
		l->q.config = config; /* SQD may have changed it */
	else
		roce_requester_init(&l->q, &config, l->ring, qp->wqe_mask);
	l->has_requester = true;
	request = roce_describe(qp, sr_qp_wqe(qp, index));
	sr_qp_wqe(qp, index)->stage = WQE_SENT;
	roce_requester_post(&l->q, &request);
	return IBV_WC_SUCCESS;
}

/* The peer learns of a receive when its RNR timer is over. */
static void kick(struct sr_qp *qp)
{
}

static uint32_t rnr_timer(const struct sr_qp *qp)
{
	return 0;
}

static void on_packet(struct roce_port *port, const union ibv_gid *from,
		      const struct roce_packet *p, const struct roce_arrival *how)
{
	if (roce_traits(p->opcode) & (ROCE_IS_RC | ROCE_IS_UC | ROCE_IS_XRC) ||
	    p->opcode == ROCE_CNP)
		roce_on_connected_packet(port, from, p, how);
	else if (p->dest_qpn > 1)
		roce_on_datagram(port, from, p);
	else
		gsi_on_packet(port, from, p);
}

static enum ibv_mtu path_mtu(void)
{
	union ibv_gid first;

	return roce_allows(NULL) && !sr_gid_at(0, &first, NULL) ? gsi_interface_mtu(&first) : 0;
}

/* Threads that poll read the sockets from now on. */
static void open_all(void)
{
	if (roce_open_all())
		atomic_store(&sr_engine_reads, &engine);
}

static const struct sr_engine engine = {
	.serves = serves,
	.completes_later = true,
	.find = find,
	.connect = join,
	.disconnect = leave,
	.is_connected = is_connected,
	.execute = execute,
	.flush = roce_pump,
	.kick = kick,
	.rnr_timer = rnr_timer,
	.reaches = roce_reaches,
	.send = roce_send_datagram,
	.open = open_all,
	.poll = roce_ports_poll,
	.sleep = roce_ports_watch,
	.path_mtu = path_mtu,
};

static void start(void)
{
	roce_ports_init(&(struct roce_port_callbacks){
		.on_packet = on_packet, .on_batch = roce_after_batch, .on_due = roce_wake_at});
	roce_member_receive(gsi_on_passed);
}

static void forget(void)
{
	roce_ports_forget();
	roce_peers_forget();
	roce_run_forget();
	gsi_forget();
}

static const struct sr_part part = {.start = start, .forget = forget, .engine = &engine};
SR_PART(part);
