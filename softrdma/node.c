/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The helper thread and the names by which processes find each other.
 *
 *   name     abstract socket "softrdma.node.<base>": a queue pair number is
 *            base << 8 | slot, so a number alone (however the application passed
 *            it on) leads to the process that owns it. More than 256 QPs: more bases.
 *   helper   sleeps in epoll: introductions, peers that die, timers, connection
 *            manager sockets, and "look at this QP" kicks. Nothing of the normal
 *            data path runs here. It blocks all signals and has no period.
 *
 * Started by the first verbs call that needs it, so that programs may daemonise
 * before. A forked child forgets everything and starts anew if it wants to.
 */
#include "node.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/un.h>
#include <unistd.h>

#include "chaos.h"
#include "cm.h"
#include "lock.h"
#include "peer.h"
#include "qp.h"
#include "removal.h"
#include "trace.h"

#ifndef PR_SET_PTRACER_ANY
#	define PR_SET_PTRACER_ANY ((unsigned long)-1)
#endif

/* Guards start and the bases. Never held with another lock but peer.c's. */
static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool started;
static int epoll_fd = -1, wake_fd = -1, mem_fd = -1;
static int base_fd[SEG_MAX_BASE];
static uint64_t nonce; /* peers read it to prove that they can copy */

int node_name(uint16_t base, struct sockaddr_un *ret)
{
	int n;

	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	n = snprintf(ret->sun_path + 1, sizeof(ret->sun_path) - 1, "softrdma.node.%04x", base);
	return (int)offsetof(struct sockaddr_un, sun_path) + 1 + n;
}

int node_watch(int fd, enum watch kind, uint64_t id)
{
	struct epoll_event ev = {.events = EPOLLIN | EPOLLRDHUP,
				 .data.u64 = (uint64_t)kind << 56 | id};

	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

void node_unwatch(int fd)
{
	epoll_ctl(epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

void node_hello(struct hello *ret, int ret_fds[2])
{
	*ret = (struct hello){
		.magic = SEG_MAGIC,
		.version = SEG_VERSION,
		.pid = getpid(),
		.instance = seg_self->instance,
		.nonce_addr = (uintptr_t)&nonce,
		.nonce = nonce,
	};
	ret_fds[0] = mem_fd;
	ret_fds[1] = wake_fd;
}

/* ---- helper ---------------------------------------------------------------- */

static void look_at(_Atomic uint64_t *words, unsigned n, void (*look)(uint32_t slot))
{
	for (unsigned i = 0; i < n; i++) {
		uint64_t bits = atomic_load_explicit(&words[i], memory_order_relaxed);

		if (bits)
			bits = atomic_exchange(&words[i], 0);
		for (; bits; bits &= bits - 1)
			look(i * 64 + (unsigned)__builtin_ctzll(bits));
	}
}

static void on_wake(void)
{
	uint64_t n;

	(void)!read(wake_fd, &n, sizeof(n));
	look_at(seg_self->attn_qp, SEG_MAX_QP / 64, qp_attention);
	look_at(seg_self->attn_cq, SEG_MAX_CQ / 64, cq_attention);
	look_at(seg_self->attn_srq, SEG_MAX_SRQ / 64, srq_attention);
}

static void on_listen(int fd)
{
	int sock = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (sock >= 0 && node_watch(sock, W_HELLO, (uint64_t)sock))
		close(sock);
}

static void dispatch(uint64_t data)
{
	uint64_t id = data & ((1ULL << 56) - 1);

	switch ((enum watch)(data >> 56)) {
	case W_WAKE:
		on_wake();
		break;
	case W_TIMER:
		timers_run();
		break;
	case W_LISTEN:
		on_listen((int)id);
		break;
	case W_HELLO:
		peer_on_hello((int)id);
		break;
	case W_PEER:
		peer_on_gone(id);
		break;
	case W_CM:
		cm_on_socket(id);
		break;
	case W_CONTROL:
		chaos_on_control();
		break;
	case W_CONTEXT:
		dev_on_context_closed((int)id);
		break;
	}
}

static _Thread_local bool is_helper;

bool node_is_helper(void)
{
	return is_helper;
}

static void *helper(void *arg)
{
	int fd = (int)(intptr_t)arg;
	struct epoll_event ev[32];

	is_helper = true;
	pthread_mutex_lock(&seg_self->life); /* for life */
	for (;;) {
		int n = epoll_wait(fd, ev, 32, -1);

		if (n < 0 && errno != EINTR)
			return NULL;
		for (int i = 0; i < n; i++)
			dispatch(ev[i].data.u64);
	}
}

static int start_helper(void)
{
	sigset_t all, old;
	pthread_t thread;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old); /* inherited by the thread */
	r = pthread_create(&thread, NULL, helper, (void *)(intptr_t)epoll_fd);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (r)
		return -r;
	pthread_setname_np(thread, "softrdma");
	pthread_detach(thread);
	return 0;
}

/* ---- start ----------------------------------------------------------------- */

static int add_base(void)
{
	unsigned index = atomic_load(&seg_self->n_base);
	uint32_t try = (uint32_t)getpid() * 40503u + index * 7919u;

	for (unsigned i = 0; i < 65535; i++, try++) {
		struct sockaddr_un name;
		uint16_t base = (uint16_t)(try % 65535u + 1);
		int len = node_name(base, &name);
		int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

		if (fd < 0)
			return -errno;
		if (!bind(fd, (struct sockaddr *)&name, (socklen_t)len) && !listen(fd, 4096)) {
			base_fd[index] = fd;
			seg_self->base[index] = base;
			atomic_store(&seg_self->n_base, index + 1);
			return node_watch(fd, W_LISTEN, (uint64_t)fd);
		}
		close(fd);
		if (errno != EADDRINUSE)
			return -errno;
	}
	return -EADDRNOTAVAIL;
}

int node_reserve_qps(unsigned n)
{
	int r = 0;

	pthread_mutex_lock(&start_lock);
	while (!r && atomic_load(&seg_self->n_base) * 256u < n)
		r = add_base();
	pthread_mutex_unlock(&start_lock);
	return r;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* In a forked child: the segment is not mapped here, the helper does not run. */
static void forget(void)
{
	for (unsigned i = 0; i < SEG_MAX_BASE; i++) {
		if (base_fd[i] > 0)
			close(base_fd[i]);
		base_fd[i] = 0;
	}
	close_fd(&epoll_fd);
	close_fd(&wake_fd);
	close_fd(&mem_fd);
	seg_self = NULL;
	pthread_mutex_init(&start_lock, NULL);
	peer_forget();
	timers_forget();
	cm_forget();
	qp_forget();
	chaos_forget();
	removal_forget();
	trace_forget();
	atomic_store(&started, false);
}

static void in_child(void)
{
	if (atomic_load(&started))
		forget();
}

static int open_helper_fds(void)
{
	int timer_fd, r;

	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	timer_fd = timers_open();
	if (epoll_fd < 0 || wake_fd < 0 || timer_fd < 0)
		return -errno;
	r = node_watch(wake_fd, W_WAKE, 0);
	return r ? r : node_watch(timer_fd, W_TIMER, 0);
}

static int start(void)
{
	static bool hooked;
	int r;

	lock_init();
	r = seg_create(&mem_fd);
	if (r)
		return r;
	nonce = seg_self->instance ^ 0x9e3779b97f4a7c15ULL;
	/* Yama: let peers of our uid copy; without Yama this fails and is not needed */
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	r = open_helper_fds();
	if (!r)
		r = peer_init(wake_fd);
	if (!r)
		r = add_base();
	if (!r) {
		chaos_start();
		trace_start();
		r = start_helper();
	}
	if (!r && !hooked) {
		pthread_atfork(NULL, NULL, in_child);
		hooked = true;
	}
	return r;
}

int node_start(void)
{
	int r = 0;

	if (atomic_load_explicit(&started, memory_order_acquire))
		return 0;
	pthread_mutex_lock(&start_lock);
	if (!atomic_load(&started)) {
		r = start();
		if (!r)
			atomic_store(&started, true);
	}
	pthread_mutex_unlock(&start_lock);
	return r;
}
