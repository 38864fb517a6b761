/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers: processes whose segment is mapped here and whose memory this process may copy.
 *
 * Death: the pidfd becomes readable, or the socket hangs up (exec too). The helper marks the peer
 * dead, repairs what it held, and lets sends to it time out. The mapping stays until the last QP
 * that points to it has gone.
 */
#include "softrdma/fabric/peer.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "softrdma/fabric/callers.h"
#include "softrdma/fabric/view.h"
#include "softrdma/process/part.h"

#define HELLO_TIMEOUT_S 5

struct welcome {
	int32_t status; /* 0, or -errno: the reason of a refusal */
	struct sr_hello hello;
};

/* Guards the list. Taken after sr_cm_lock; only a peer's own lock is taken inside it. */
static pthread_mutex_t peers_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sr_peer *peers; /* live ones, not ourselves; each holds one ref */
static uint64_t last_serial;
struct sr_peer *sr_peer_self;

/* ---- objects --------------------------------------------------------------- */

struct sr_peer *sr_peer_ref(struct sr_peer *p)
{
	atomic_fetch_add(&p->refs, 1);
	return p;
}

void sr_peer_unref(struct sr_peer *p)
{
	if (!p || atomic_fetch_sub(&p->refs, 1) != 1)
		return;
	sr_views_free(p->views);
	seg_unmap(p->seg);
	for (unsigned i = 0; i < PEER_N_CHAN; i++)
		if (p->chan[i].serial)
			close(p->chan[i].fd);
	close(p->wake_fd);
	close(p->pidfd);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

int sr_peer_init(int wake_fd)
{
	struct sr_peer *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	p->views = sr_views_new();
	if (!p->views) {
		free(p);
		return -ENOMEM;
	}
	p->seg = seg_self;
	p->pid = getpid();
	p->pidfd = p->sock = -1;
	p->wake_fd = wake_fd;
	p->refs = 1; /* never freed: the process is its own peer for life */
	pthread_mutex_init(&p->lock, NULL);
	sr_peer_self = p;
	return 0;
}

/* In a forked child no segment is mapped. Queue pairs of the parent keep what they point
 * to. */
static void drop_inherited(struct sr_peer *p)
{
	p->seg = NULL;
	sr_peer_unref(p);
}

static void forget(void)
{
	struct sr_peer *next;

	/* In a forked child the inherited descriptors would hide the parent's death from its
	 * peers. */
	for (struct sr_peer *p = peers; p; p = next) {
		next = p->next;
		if (p->sock >= 0)
			close(p->sock);
		close(p->pidfd);
		p->sock = p->pidfd = -1;
		drop_inherited(p);
	}
	pthread_mutex_init(&peers_lock, NULL);
	peers = NULL;
	sr_peer_self->wake_fd = -1; /* the node has closed it */
	drop_inherited(sr_peer_self);
	sr_peer_self = NULL;
}

static struct sr_peer *find(bool (*is)(const struct sr_peer *, uint64_t), uint64_t key)
{
	struct sr_peer *p;

	pthread_mutex_lock(&peers_lock);
	for (p = peers; p && !is(p, key); p = p->next)
		;
	if (p)
		sr_peer_ref(p);
	pthread_mutex_unlock(&peers_lock);
	return p;
}

unsigned sr_peer_for_each(unsigned (*fn)(struct sr_peer *p))
{
	unsigned n = fn(sr_peer_self);

	pthread_mutex_lock(&peers_lock);
	for (struct sr_peer *p = peers; p; p = p->next)
		n += fn(p);
	pthread_mutex_unlock(&peers_lock);
	return n;
}

unsigned sr_peer_list(struct sr_peer **ret, unsigned max)
{
	unsigned n = 0;

	ret[n++] = sr_peer_ref(sr_peer_self);
	pthread_mutex_lock(&peers_lock);
	for (struct sr_peer *p = peers; p && n < max; p = p->next)
		ret[n++] = sr_peer_ref(p);
	pthread_mutex_unlock(&peers_lock);
	return n;
}

static bool is_instance(const struct sr_peer *p, uint64_t instance)
{
	return p->seg->instance == instance;
}

static bool is_serial(const struct sr_peer *p, uint64_t serial)
{
	return p->serial == serial;
}

static bool has_base(const struct sr_peer *p, uint64_t base)
{
	unsigned n = atomic_load(&p->seg->n_base);

	for (unsigned i = 0; i < n && i < SEG_MAX_BASE; i++)
		if (p->seg->base[i] == base)
			return true;
	return false;
}

/* ---- introduction ---------------------------------------------------------- */

static int peer_new(const struct sr_hello *h, int fds[2], struct sr_peer **ret)
{
	struct sr_peer *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return -ENOMEM;
	p->pid = h->pid;
	p->sock = -1;
	p->pidfd = (int)syscall(SYS_pidfd_open, h->pid, 0);
	r = p->pidfd < 0 ? -errno : seg_map(fds[0], h->instance, h->pid, &p->seg);
	p->views = r ? NULL : sr_views_new();
	if (!r && !p->views) {
		seg_unmap(p->seg);
		r = -ENOMEM;
	}
	if (r) {
		if (p->pidfd >= 0)
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

static void enlist(struct sr_peer *p)
{
	pthread_mutex_lock(&peers_lock);
	p->serial = ++last_serial;
	p->next = peers;
	peers = p;
	pthread_mutex_unlock(&peers_lock);
	sr_helper_watch(p->pidfd, SR_WATCH_PEER, p->serial);
}

int sr_peer_admit(const struct sr_hello *h, int fds[2], const struct ucred *cred,
		  struct sr_peer **ret)
{
	/* two introductions of the same process at once must yield one peer */
	static pthread_mutex_t admission = PTHREAD_MUTEX_INITIALIZER;
	int r = sr_hello_check(h, cred);

	if (!r && h->instance == seg_self->instance) {
		sr_packet_close(fds);
		*ret = sr_peer_ref(sr_peer_self);
		return 0;
	}
	if (!r && (fds[0] < 0 || fds[1] < 0))
		r = -EPROTO;
	if (r) {
		sr_packet_close(fds);
		return r;
	}
	pthread_mutex_lock(&admission);
	*ret = find(is_instance, h->instance);
	if (*ret) {
		sr_packet_close(fds);
	} else {
		r = peer_new(h, fds, ret);
		if (r)
			sr_packet_close(fds);
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

/* A peer counts as alive while one of its sockets is open; the first is kept, for its hang-up. */
static void adopt_socket(struct sr_peer *p, int sock)
{
	bool keep;

	pthread_mutex_lock(&p->lock);
	keep = p->sock < 0 && p != sr_peer_self;
	if (keep)
		p->sock = sock;
	pthread_mutex_unlock(&p->lock);
	if (!keep || sr_helper_watch(sock, SR_WATCH_PEER, p->serial)) {
		/* The other side may still use its end: closing this one would look like death. */
		return;
	}
}

static void on_hello(uint64_t caller)
{
	int sock = sr_caller_find(caller);
	struct welcome w = {0};
	struct sr_hello h;
	struct ucred cred;
	struct sr_peer *p;
	int fds[2], ours[2];
	ssize_t n = sock < 0 ? -EAGAIN : sr_packet_recv(sock, &h, sizeof(h), fds);

	if (n == -EAGAIN)
		return;
	sock = sr_caller_take(caller);
	w.status = n == sizeof(h) ? peer_cred(sock, &cred) : -EPROTO;
	if (w.status)
		sr_packet_close(fds);
	else
		w.status = sr_peer_admit(&h, fds, &cred, &p);
	sr_hello_fill(&w.hello, ours);
	sr_packet_send(sock, &w, sizeof(w), w.status ? NULL : ours);
	if (w.status) {
		close(sock);
		return;
	}
	adopt_socket(p, sock);
	sr_peer_unref(p);
}

static int introduce(int sock, struct sr_peer **ret)
{
	struct timeval patience = {.tv_sec = HELLO_TIMEOUT_S};
	struct welcome w;
	struct sr_hello h;
	struct ucred cred;
	int fds[2], r;
	ssize_t n;

	setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	sr_hello_fill(&h, fds);
	r = sr_packet_send(sock, &h, sizeof(h), fds);
	if (r)
		return r;
	n = sr_packet_recv(sock, &w, sizeof(w), fds);
	if (n == sizeof(w) && !w.status && !peer_cred(sock, &cred))
		return sr_peer_admit(&w.hello, fds, &cred, ret);
	sr_packet_close(fds);
	return n == sizeof(w) ? w.status : n < 0 ? (int)n : -EPROTO;
}

static bool is_ours(uint64_t base)
{
	return has_base(sr_peer_self, base);
}

struct sr_peer *sr_peer_known(uint32_t qpn)
{
	uint16_t base = (uint16_t)(qpn >> 8);

	return is_ours(base) ? sr_peer_ref(sr_peer_self) : find(has_base, base);
}

int sr_peer_by_qpn(uint32_t qpn, struct sr_peer **ret)
{
	uint16_t base = (uint16_t)(qpn >> 8);
	struct sockaddr_un name;
	int len, sock, r;

	*ret = sr_peer_known(qpn);
	if (*ret)
		return 0;
	sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (sock < 0)
		return -errno;
	len = sr_node_name(base, &name);
	r = connect(sock, (struct sockaddr *)&name, (socklen_t)len) ? -errno : introduce(sock, ret);
	if (r)
		close(sock);
	else
		adopt_socket(*ret, sock);
	return r;
}

/* ---- death ----------------------------------------------------------------- */

static void bury(struct sr_peer *p)
{
	struct sr_peer **q;

	pthread_mutex_lock(&peers_lock);
	for (q = &peers; *q && *q != p; q = &(*q)->next)
		;
	if (*q)
		*q = p->next;
	else
		p = NULL; /* another thread was faster */
	pthread_mutex_unlock(&peers_lock);
	if (!p)
		return;
	atomic_store(&p->is_dead, true);
	sr_helper_unwatch(p->pidfd);
	if (p->sock >= 0) {
		sr_helper_unwatch(p->sock);
		close(p->sock);
		p->sock = -1;
	}
	SR_FOR_EACH_PART(part)
	if (part->on_peer_died)
		part->on_peer_died(p);
	sr_peer_unref(p);
}

static void on_gone(uint64_t serial)
{
	struct sr_peer *p = find(is_serial, serial);

	if (!p)
		return;
	bury(p);
	sr_peer_unref(p);
}

void sr_peer_verify(struct sr_peer *p)
{
	if (p != sr_peer_self && !sr_hello_is_true(p->pid, p->nonce_addr, p->nonce))
		bury(p);
}

/* ---- signals to a peer ----------------------------------------------------- */

static void wake(struct sr_peer *p)
{
	uint64_t one = 1;

	(void)!write(p->wake_fd, &one, sizeof(one));
}

void sr_peer_kick_qp(struct sr_peer *p, uint32_t slot, uint32_t events)
{
	atomic_fetch_or(&p->seg->qp[slot].events, events);
	atomic_fetch_or(&p->seg->attn_qp[slot / 64], 1ULL << slot % 64);
	wake(p);
}

void sr_peer_kick_cq(struct sr_peer *p, uint32_t slot)
{
	atomic_fetch_or(&p->seg->attn_cq[slot / 64], 1ULL << slot % 64);
	wake(p);
}

void sr_peer_kick_srq(struct sr_peer *p, uint32_t slot)
{
	atomic_fetch_or(&p->seg->attn_srq[slot / 64], 1ULL << slot % 64);
	wake(p);
}

static unsigned kick_view(struct sr_peer *p)
{
	if (p == sr_peer_self)
		return 0;
	atomic_fetch_or(&p->seg->attn_view[0], 1);
	wake(p);
	return 1;
}

void sr_peer_kick_views(void)
{
	sr_peer_for_each(kick_view);
}

/* Fetches a duplicate of the owner's channel descriptor; p->lock is held. */
static int chan_fd(struct sr_peer *p, const struct seg_cq *cq)
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

void sr_peer_ring_channel(struct sr_peer *p, const struct seg_cq *cq)
{
	uint64_t one = 1;
	int fd;

	if (p == sr_peer_self) {
		(void)!write(cq->chan_fd, &one, sizeof(one));
		return;
	}
	pthread_mutex_lock(&p->lock);
	fd = chan_fd(p, cq);
	if (fd >= 0)
		(void)!write(fd, &one, sizeof(one));
	pthread_mutex_unlock(&p->lock);
}

static const struct sr_part part = {
	.forget = forget,
	.on_watch = {[SR_WATCH_HELLO] = on_hello, [SR_WATCH_PEER] = on_gone},
};
SR_PART(part);
