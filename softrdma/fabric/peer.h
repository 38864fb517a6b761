/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers: the processes that this one has met. Each has introduced itself (hello.h), so that its
 * segment is mapped here and its memory may be copied. Any thread, unless a line adds a limit. A
 * reference keeps the mapping; it does not keep the process.
 */
#pragma once

#include <pthread.h>
#include <sys/socket.h>

#include "softrdma/fabric/hello.h"
#include "softrdma/fabric/seg.h"

#define PEER_N_CHAN 32

struct sr_view;

/* A process, perhaps this one, whose segment is mapped here. */
struct sr_peer {
	struct sr_peer *next;  /* in the list of peers, until dead */
	struct seg *seg;       /* owned mapping; for this process seg_self */
	struct sr_view *views; /* owned; view.h says which lock guards them */
	_Atomic bool is_dead;  /* no copy may begin any more */
	_Atomic uint32_t refs;
	int32_t pid;
	int pidfd;	     /* owned; readable when the process has gone */
	int sock;	     /* owned; hangs up on exec too. -1: none */
	int wake_fd;	     /* owned; the eventfd of the peer's helper */
	uint64_t serial;     /* name in epoll data */
	uint64_t nonce_addr; /* where in the peer's memory the nonce is */
	uint64_t nonce;
	pthread_mutex_t lock; /* guards chan[], and the making of views */
	unsigned next_chan;
	struct {
		uint64_t serial;
		int fd; /* owned duplicate of the peer's completion channel */
	} chan[PEER_N_CHAN];
};

/* This process as its own peer. Never freed; NULL before sr_node_start. */
extern struct sr_peer *sr_peer_self;

/* Once, in sr_node_start. 0 or -errno. */
int sr_peer_init(int wake_fd);
/* Checks that both sides may copy; takes the descriptors. 0 or -errno, with a ref. */
int sr_peer_admit(const struct sr_hello *h, int fds[2], const struct ucred *cred,
		  struct sr_peer **ret);
/* The owner of a QP number, introduced if necessary (waits for its helper). With a ref. */
int sr_peer_by_qpn(uint32_t qpn, struct sr_peer **ret);
/* The same if it was introduced before, or NULL. */
struct sr_peer *sr_peer_known(uint32_t qpn);
struct sr_peer *sr_peer_ref(struct sr_peer *p);
void sr_peer_unref(struct sr_peer *p);
/* Checks whether the process still runs the program that introduced itself. Marks the peer dead
 * if not. */
void sr_peer_verify(struct sr_peer *p);

/* The sum of what fn returns for each live peer, under the list's lock, and for this process. */
unsigned sr_peer_for_each(unsigned (*fn)(struct sr_peer *p));
/* References to live peers and this process, at most max. Returns how many. */
unsigned sr_peer_list(struct sr_peer **ret, unsigned max);
/* Requests that the helpers of all peers sweep their views (view.h). */
void sr_peer_kick_views(void);

/* Requests that the owner's helper looks at a QP, CQ or SRQ of its segment. */
void sr_peer_kick_qp(struct sr_peer *p, uint32_t slot, uint32_t events);
void sr_peer_kick_cq(struct sr_peer *p, uint32_t slot);
void sr_peer_kick_srq(struct sr_peer *p, uint32_t slot);
/* Adds a token to the owner's completion channel, which wakes its readers. */
void sr_peer_ring_channel(struct sr_peer *p, const struct seg_cq *cq);
