/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A queue pair on RoCE: its requester and responder with the addresses of both ends. Created at
 * RTR, freed at RESET or with the queue pair. The functions of link.h, local.h, host.h and run.h
 * are called with the queue pair's sq_lock held, unless a line says otherwise; copying happens
 * under that lock too, which is what deregistering memory waits for.
 *
 * Locks, in order: a port's rx_lock, the table of queue pairs, sq_lock, the queue pair's shared
 * lock; those of a peer and of a batch are leaves.
 */
#pragma once

#include "softrdma/fabric/roce/pace.h"
#include "softrdma/fabric/roce/peers.h"
#include "softrdma/fabric/roce/port.h"
#include "softrdma/fabric/roce/requester.h"
#include "softrdma/fabric/roce/responder.h"
#include "softrdma/fabric/rq.h"
#include "softrdma/verbs/qp_impl.h"

struct roce_link {
	struct roce_port *port;
	struct roce_peer *peer; /* ref */
	struct roce_way way;
	uint32_t dest_qpn;
	uint16_t peer_port;    /* UDP, of the first packet that counted; 0: there was none */
	bool has_requester;    /* from the first request on */
	bool is_blocked;       /* waits for the peer's window, or its pace */
	struct roce_pace pace; /* UC */
	struct roce_requester q;
	struct roce_responder r;
	struct roce_request *ring; /* owned: as many as the send queue has */
	struct roce_saved *saved;  /* owned */
	uint64_t counted;	   /* of q.in_flight, in the peer's window */
	uint64_t losses;	   /* of q.n_losses, told to the peer's window */
	struct sr_taken taken;	   /* the receive that `take` found */
	uint32_t srqn;		   /* XRC: which SRQ the packet that is received names */
	bool is_astray;		   /* ... and there is none */
};

/* The opcode of a packet whose RC opcode this is: requester and responder know only those. */
static inline uint8_t roce_opcode_of(const struct sr_qp *qp, uint8_t opcode)
{
	return sr_qp_is_xrc_send(qp) || sr_qp_is_xrc_recv(qp) ? opcode | ROCE_XRC : opcode;
}

/* NULL: the link's address is not open, or there is no memory. */
struct roce_link *roce_link_new(const struct sr_qp *qp);
void roce_link_free(struct roce_link *l); /* accepts NULL */
/* Tells the peer's window what the requester has done since the last call. */
void roce_link_account(struct roce_link *l, uint64_t now);
uint64_t roce_link_room(const struct roce_link *l);
/* The requester sends nothing more: others may use its part of the window. */
void roce_link_abandon(struct roce_link *l);
