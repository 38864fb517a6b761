/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include <pthread.h>
#include <sys/socket.h>

#include "seg.h"

/* The process as a node of the fabric: its helper thread, and the peers it knows. */

#define PEER_N_CHAN 32

/* Another process (or ourselves) whose segment we have mapped. */
struct peer {
	struct peer *next; /* node's list, until dead */
	struct seg *seg;   /* owned mapping; for ourselves seg_self */
	_Atomic bool dead; /* no copy may be started any more */
	_Atomic uint32_t refs;
	int32_t pid;
	int pidfd;	     /* owned; readable when the process has gone */
	int sock;	     /* owned; hangs up on exec too. -1: none */
	int wake_fd;	     /* owned; their helper's eventfd */
	uint64_t serial;     /* name in epoll data */
	uint64_t nonce_addr; /* where in their memory the nonce is */
	uint64_t nonce;
	pthread_mutex_t lock; /* guards chan[] */
	unsigned next_chan;
	struct {
		uint64_t serial;
		int fd; /* owned duplicate of their completion channel */
	} chan[PEER_N_CHAN];
};

/* How two processes introduce themselves; travels with {memfd, wake eventfd}. */
struct hello {
	uint64_t magic;
	uint32_t version;
	int32_t pid;
	uint64_t instance;
	uint64_t nonce_addr; /* the receiver reads the nonce here by process_vm_readv */
	uint64_t nonce;
};

/* What epoll reports: the kind in the top byte, an identity below. */
enum watch {
	W_WAKE,
	W_TIMER,
	W_LISTEN,
	W_HELLO,
	W_PEER,
	W_CM,
	W_CONTROL,
	W_CONTEXT
};

/* Starts the node once; later calls are cheap. 0 or -errno. */
int node_start(void);
/* Makes sure QP slots up to n exist as queue pair numbers. 0 or -errno. */
int node_reserve_qps(unsigned n);
/* Is this the helper thread (which must not wait for other processes)? */
bool node_is_helper(void);
int node_watch(int fd, enum watch kind, uint64_t id);
void node_unwatch(int fd);

/* Our hello, and the two descriptors that go with it (borrowed). */
void node_hello(struct hello *ret, int ret_fds[2]);
/* Checks that both sides may copy; takes the descriptors. 0 or -errno, with a ref. */
int peer_admit(const struct hello *h, int fds[2], const struct ucred *cred, struct peer **ret);
/* The owner of a QP number, introduced if necessary (blocks a moment). With a ref. */
int peer_by_qpn(uint32_t qpn, struct peer **ret);
/* The same if it has been introduced, or NULL. */
struct peer *peer_known(uint32_t qpn);
/* Looks for it on a thread of its own, for the helper must not wait; then resumes the
 * queue pair of ours in this slot. */
void peer_seek(uint32_t qpn, uint32_t slot);
struct peer *peer_ref(struct peer *p);
void peer_unref(struct peer *p);
/* Is the process still the one we met? Marks the peer dead if not. */
void peer_verify(struct peer *p);

/* Ask the owner's helper to look at a QP, CQ or SRQ of its segment. */
void peer_kick_qp(struct peer *p, uint32_t slot, uint32_t events);
void peer_kick_cq(struct peer *p, uint32_t slot);
void peer_kick_srq(struct peer *p, uint32_t slot);
/* Adds one to the owner's completion channel. */
void peer_ring_channel(struct peer *p, const struct seg_cq *cq);

/* sendmsg/recvmsg of one packet with up to two descriptors (-1: none came). */
int packet_send(int sock, const void *data, size_t len, const int *fds);
ssize_t packet_recv(int sock, void *data, size_t len, int fds[2]);

/*
 * Timers, run by the helper. The callback gets a number, not a pointer: it looks
 * the object up and may find it gone. So cancelling never has to wait.
 */
struct timer {
	struct timer *next, **link; /* link != NULL: running */
	uint64_t due_ns;
	void (*fn)(uint64_t arg);
	uint64_t arg;
};

uint64_t now_ns(void);
void timer_start(struct timer *t, uint64_t delay_ns, void (*fn)(uint64_t), uint64_t arg);
void timer_stop(struct timer *t);
/* For the helper. */
int timers_open(void);
void timers_run(void);
void timers_forget(void);
