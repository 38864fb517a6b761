/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers: processes whose segment we have mapped and whose memory we may copy.
 *
 * An introduction is one packet each way: hello{instance, nonce address} with the
 * memfd and the helper's eventfd. It travels on a node socket (queue pair numbers
 * exchanged by the application) or inside the connection manager's REQ and REP.
 * Each side reads the other's nonce with process_vm_readv, so a pair that could
 * not copy is refused here, with an error, and not discovered during a transfer.
 * The pid comes from SO_PEERCRED, never from the message alone.
 *
 * Death: the pidfd becomes readable, or the socket hangs up (exec too). The helper
 * marks the peer dead, repairs what it held, and lets its QPs' sends time out. The
 * mapping stays until the last QP that points to it has gone.
 */
#include "peer.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "qp.h"

#define HELLO_TIMEOUT_S 5

struct welcome {
	int32_t status; /* 0 or -errno: why we do not want to talk */
	struct hello hello;
};

/* Guards the list. Taken after cm.c's lock and before nothing. */
static pthread_mutex_t peers_lock = PTHREAD_MUTEX_INITIALIZER;
static struct peer *peers; /* live ones, not ourselves; each holds one ref */
static uint64_t last_serial;
struct peer *peer_self;
static _Atomic bool seeking;	    /* one at a time is enough: who finds none asks again */
static _Atomic uint32_t sought_for; /* the slot of the queue pair that waits */

int packet_send(int sock, const void *data, size_t len, const int *fds)
{
	struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = len};
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(2 * sizeof(int))];
	} control = {0};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (fds) {
		struct cmsghdr *c;

		msg.msg_control = control.buf;
		msg.msg_controllen = sizeof(control.buf);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(2 * sizeof(int));
		memcpy(CMSG_DATA(c), fds, 2 * sizeof(int));
	}
	return sendmsg(sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

ssize_t packet_recv(int sock, void *data, size_t len, int fds[2])
{
	struct iovec iov = {.iov_base = data, .iov_len = len};
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(2 * sizeof(int))];
	} control = {0};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.buf,
			     .msg_controllen = sizeof(control.buf)};
	struct cmsghdr *c;
	ssize_t n;

	fds[0] = fds[1] = -1;
	n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	if (n < 0)
		return -errno;
	c = CMSG_FIRSTHDR(&msg);
	if (c && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(2 * sizeof(int)))
		memcpy(fds, CMSG_DATA(c), 2 * sizeof(int));
	return n;
}

static void close_pair(int fds[2])
{
	for (int i = 0; i < 2; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

/* ---- objects --------------------------------------------------------------- */

struct peer *peer_ref(struct peer *p)
{
	atomic_fetch_add(&p->refs, 1);
	return p;
}

void peer_unref(struct peer *p)
{
	if (!p || atomic_fetch_sub(&p->refs, 1) != 1)
		return;
	seg_unmap(p->seg);
	for (unsigned i = 0; i < PEER_N_CHAN; i++)
		if (p->chan[i].serial)
			close(p->chan[i].fd);
	close(p->wake_fd);
	close(p->pidfd);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

int peer_init(int wake_fd)
{
	struct peer *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	p->seg = seg_self;
	p->pid = getpid();
	p->pidfd = p->sock = -1;
	p->wake_fd = wake_fd;
	p->refs = 1; /* never freed: the process is its own peer for life */
	pthread_mutex_init(&p->lock, NULL);
	peer_self = p;
	return 0;
}

void peer_forget(void)
{
	/* the inherited descriptors would hide our parent's death from its peers */
	for (struct peer *p = peers; p; p = p->next) {
		if (p->sock >= 0)
			close(p->sock);
		close(p->pidfd);
	}
	pthread_mutex_init(&peers_lock, NULL);
	peers = NULL;
	peer_self = NULL;
	atomic_store(&seeking, false);
}

static struct peer *find(bool (*is)(const struct peer *, uint64_t), uint64_t key)
{
	struct peer *p;

	pthread_mutex_lock(&peers_lock);
	for (p = peers; p && !is(p, key); p = p->next)
		;
	if (p)
		peer_ref(p);
	pthread_mutex_unlock(&peers_lock);
	return p;
}

static bool is_instance(const struct peer *p, uint64_t instance)
{
	return p->seg->instance == instance;
}

static bool is_serial(const struct peer *p, uint64_t serial)
{
	return p->serial == serial;
}

static bool has_base(const struct peer *p, uint64_t base)
{
	unsigned n = atomic_load(&p->seg->n_base);

	for (unsigned i = 0; i < n && i < SEG_MAX_BASE; i++)
		if (p->seg->base[i] == base)
			return true;
	return false;
}

/* ---- introduction ---------------------------------------------------------- */

static bool can_copy(const struct hello *h, int32_t pid)
{
	uint64_t seen = 0;
	struct iovec to = {&seen, sizeof(seen)};
	struct iovec from = {(void *)(uintptr_t)h->nonce_addr, sizeof(seen)};

	return process_vm_readv(pid, &to, 1, &from, 1, 0) == sizeof(seen) && seen == h->nonce;
}

static int check_hello(const struct hello *h, const struct ucred *cred)
{
	if (h->magic != SEG_MAGIC || h->version != SEG_VERSION)
		return -EPROTONOSUPPORT;
	if (h->pid != cred->pid) /* another pid namespace: we could not name the process */
		return -EXDEV;
	return can_copy(h, cred->pid) ? 0 : -EPERM;
}

static int peer_new(const struct hello *h, int fds[2], struct peer **ret)
{
	struct peer *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return -ENOMEM;
	p->pid = h->pid;
	p->sock = -1;
	p->pidfd = (int)syscall(SYS_pidfd_open, h->pid, 0);
	if (p->pidfd < 0) {
		r = -errno;
		free(p);
		return r;
	}
	r = seg_map(fds[0], h->instance, h->pid, &p->seg);
	if (r) {
		close(p->pidfd);
		free(p);
		return r;
	}
	close(fds[0]);
	p->wake_fd = fds[1];
	p->nonce_addr = h->nonce_addr;
	p->nonce = h->nonce;
	pthread_mutex_init(&p->lock, NULL);
	p->refs = 2; /* the list's and the caller's */
	*ret = p;
	return 0;
}

static void enlist(struct peer *p)
{
	pthread_mutex_lock(&peers_lock);
	p->serial = ++last_serial;
	p->next = peers;
	peers = p;
	pthread_mutex_unlock(&peers_lock);
	node_watch(p->pidfd, W_PEER, p->serial);
}

int peer_admit(const struct hello *h, int fds[2], const struct ucred *cred, struct peer **ret)
{
	/* two introductions of the same process at once must yield one peer */
	static pthread_mutex_t admission = PTHREAD_MUTEX_INITIALIZER;
	int r = check_hello(h, cred);

	if (!r && h->instance == seg_self->instance) {
		close_pair(fds);
		*ret = peer_ref(peer_self);
		return 0;
	}
	if (!r && (fds[0] < 0 || fds[1] < 0))
		r = -EPROTO;
	if (r) {
		close_pair(fds);
		return r;
	}
	pthread_mutex_lock(&admission);
	*ret = find(is_instance, h->instance);
	if (*ret) {
		close_pair(fds);
	} else {
		r = peer_new(h, fds, ret);
		if (r)
			close_pair(fds);
		else
			enlist(*ret);
	}
	pthread_mutex_unlock(&admission);
	return r;
}

static int peer_cred(int sock, struct ucred *ret)
{
	socklen_t len = sizeof(*ret);

	return getsockopt(sock, SOL_SOCKET, SO_PEERCRED, ret, &len) ? -errno : 0;
}

/* The peer lives as long as one of its sockets; the first is kept to see it hang up. */
static void adopt_socket(struct peer *p, int sock)
{
	bool keep;

	pthread_mutex_lock(&p->lock);
	keep = p->sock < 0 && p != peer_self;
	if (keep)
		p->sock = sock;
	pthread_mutex_unlock(&p->lock);
	if (!keep || node_watch(sock, W_PEER, p->serial)) {
		/* the other side may hold on to its end: closing ours would look like death */
		return;
	}
}

void peer_on_hello(int sock)
{
	struct welcome w = {0};
	struct hello h;
	struct ucred cred;
	struct peer *p;
	int fds[2], ours[2];
	ssize_t n = packet_recv(sock, &h, sizeof(h), fds);

	if (n == -EAGAIN)
		return;
	node_unwatch(sock);
	w.status = n == sizeof(h) ? peer_cred(sock, &cred) : -EPROTO;
	if (w.status)
		close_pair(fds);
	else
		w.status = peer_admit(&h, fds, &cred, &p);
	node_hello(&w.hello, ours);
	packet_send(sock, &w, sizeof(w), w.status ? NULL : ours);
	if (w.status) {
		close(sock);
		return;
	}
	adopt_socket(p, sock);
	peer_unref(p);
}

static int introduce(int sock, struct peer **ret)
{
	struct timeval patience = {.tv_sec = HELLO_TIMEOUT_S};
	struct welcome w;
	struct hello h;
	struct ucred cred;
	int fds[2], r;
	ssize_t n;

	setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	node_hello(&h, fds);
	r = packet_send(sock, &h, sizeof(h), fds);
	if (r)
		return r;
	n = packet_recv(sock, &w, sizeof(w), fds);
	if (n == sizeof(w) && !w.status && !peer_cred(sock, &cred))
		return peer_admit(&w.hello, fds, &cred, ret);
	close_pair(fds);
	return n == sizeof(w) ? w.status : n < 0 ? (int)n : -EPROTO;
}

static bool is_ours(uint64_t base)
{
	return has_base(peer_self, base);
}

struct peer *peer_known(uint32_t qpn)
{
	uint16_t base = (uint16_t)(qpn >> 8);

	return is_ours(base) ? peer_ref(peer_self) : find(has_base, base);
}

int peer_by_qpn(uint32_t qpn, struct peer **ret)
{
	uint16_t base = (uint16_t)(qpn >> 8);
	struct sockaddr_un name;
	int len, sock, r;

	*ret = peer_known(qpn);
	if (*ret)
		return 0;
	sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (sock < 0)
		return -errno;
	len = node_name(base, &name);
	r = connect(sock, (struct sockaddr *)&name, (socklen_t)len) ? -errno : introduce(sock, ret);
	if (r)
		close(sock);
	else
		adopt_socket(*ret, sock);
	return r;
}

static void *seek(void *arg)
{
	uint32_t slot = atomic_load(&sought_for);
	struct peer *p;

	if (!peer_by_qpn((uint32_t)(uintptr_t)arg, &p)) {
		peer_unref(p);
		peer_kick_qp(peer_self, slot, SEG_EV_RESUME);
	}
	atomic_store(&seeking, false);
	return NULL;
}

void peer_seek(uint32_t qpn, uint32_t slot)
{
	sigset_t all, old;
	pthread_t thread;

	if (atomic_exchange(&seeking, true))
		return;
	atomic_store(&sought_for, slot);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old); /* inherited by the thread */
	if (pthread_create(&thread, NULL, seek, (void *)(uintptr_t)qpn))
		atomic_store(&seeking, false);
	else
		pthread_detach(thread);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* ---- death ----------------------------------------------------------------- */

static void bury(struct peer *p)
{
	struct peer **q;

	pthread_mutex_lock(&peers_lock);
	for (q = &peers; *q && *q != p; q = &(*q)->next)
		;
	if (*q)
		*q = p->next;
	else
		p = NULL; /* someone else was faster */
	pthread_mutex_unlock(&peers_lock);
	if (!p)
		return;
	atomic_store(&p->dead, true);
	node_unwatch(p->pidfd);
	if (p->sock >= 0) {
		node_unwatch(p->sock);
		close(p->sock);
		p->sock = -1;
	}
	qp_peer_died(p);
	peer_unref(p);
}

void peer_on_gone(uint64_t serial)
{
	struct peer *p = find(is_serial, serial);

	if (!p)
		return;
	bury(p);
	peer_unref(p);
}

void peer_verify(struct peer *p)
{
	uint64_t seen = 0;
	struct iovec to = {&seen, sizeof(seen)};
	struct iovec from = {(void *)(uintptr_t)p->nonce_addr, sizeof(seen)};

	if (p == peer_self)
		return;
	if (process_vm_readv(p->pid, &to, 1, &from, 1, 0) != sizeof(seen) || seen != p->nonce)
		bury(p);
}

/* ---- signals to a peer ----------------------------------------------------- */

static void wake(struct peer *p)
{
	uint64_t one = 1;

	(void)!write(p->wake_fd, &one, sizeof(one));
}

void peer_kick_qp(struct peer *p, uint32_t slot, uint32_t events)
{
	atomic_fetch_or(&p->seg->qp[slot].events, events);
	atomic_fetch_or(&p->seg->attn_qp[slot / 64], 1ULL << slot % 64);
	wake(p);
}

void peer_kick_cq(struct peer *p, uint32_t slot)
{
	atomic_fetch_or(&p->seg->attn_cq[slot / 64], 1ULL << slot % 64);
	wake(p);
}

void peer_kick_srq(struct peer *p, uint32_t slot)
{
	atomic_fetch_or(&p->seg->attn_srq[slot / 64], 1ULL << slot % 64);
	wake(p);
}

/* Fetches a duplicate of the owner's channel descriptor; p->lock is held. */
static int chan_fd(struct peer *p, const struct seg_cq *cq)
{
	unsigned i = p->next_chan;
	int fd;

	for (unsigned j = 0; j < PEER_N_CHAN; j++)
		if (p->chan[j].serial == cq->chan_serial)
			return p->chan[j].fd;
	fd = (int)syscall(SYS_pidfd_getfd, p->pidfd, cq->chan_fd, 0);
	if (fd < 0)
		return -1;
	p->next_chan = (i + 1) % PEER_N_CHAN;
	if (p->chan[i].serial)
		close(p->chan[i].fd);
	p->chan[i].serial = cq->chan_serial;
	p->chan[i].fd = fd;
	return fd;
}

void peer_ring_channel(struct peer *p, const struct seg_cq *cq)
{
	uint64_t one = 1;
	int fd;

	if (p == peer_self) {
		(void)!write(cq->chan_fd, &one, sizeof(one));
		return;
	}
	pthread_mutex_lock(&p->lock);
	fd = chan_fd(p, cq);
	if (fd >= 0)
		(void)!write(fd, &one, sizeof(one));
	pthread_mutex_unlock(&p->lock);
}
