/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starting a process as a node of the fabric, and the names by which processes find each other.
 *
 *   name     abstract socket "softrdma.node.<base>": a queue pair number is
 *            base << 8 | slot, so a number alone (however the application passed
 *            it on) leads to the process that owns it. More than 256 QPs: more bases.
 *   helper   sleeps in epoll: introductions, peers that die, timers, connection
 *            manager sockets, and "look at this QP" kicks. Nothing of the normal
 *            data path runs here. It blocks all signals and has no period.
 *
 * The first verbs call that needs the node starts it, so that a program may daemonise before. A
 * forked child forgets everything; its own first call starts it again.
 */
#include "softrdma/fabric/node.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <unistd.h>

#include "softrdma/fabric/callers.h"
#include "softrdma/fabric/hello.h"
#include "softrdma/fabric/lock.h"
#include "softrdma/fabric/peer.h"
#include "softrdma/process/part.h"
#include "softrdma/process/timer.h"

#ifndef PR_SET_PTRACER_ANY
#	define PR_SET_PTRACER_ANY ((unsigned long)-1)
#endif

/* Guards start and the bases. Never held with another lock but peer.c's. */
static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool started;
static int wake_fd = -1, mem_fd = -1;
static int base_fd[SEG_MAX_BASE];
static uint16_t base_mask, base_value; /* what parts have asked for */

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

static void look(enum sr_attention kind, _Atomic uint64_t *words, unsigned n)
{
	SR_FOR_EACH_PART(part)
	if (part->on_attention[kind])
		look_at(words, n, part->on_attention[kind]);
}

static void on_wake(uint64_t id)
{
	uint64_t n;

	(void)!read(wake_fd, &n, sizeof(n));
	look(SR_ATTENTION_QP, seg_self->attn_qp, SEG_MAX_QP / 64);
	look(SR_ATTENTION_CQ, seg_self->attn_cq, SEG_MAX_CQ / 64);
	look(SR_ATTENTION_SRQ, seg_self->attn_srq, SEG_MAX_SRQ / 64);
	look(SR_ATTENTION_VIEW, seg_self->attn_view, 1);
}

static void on_listen(uint64_t fd)
{
	int sock = accept4((int)fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (sock >= 0)
		sr_caller_new(sock);
}

/* ---- start ----------------------------------------------------------------- */

/* At random: other hosts still send to a process that was killed, and to none that follows it. */
static uint16_t random_base(void)
{
	uint16_t base;

	if (getrandom(&base, sizeof(base), 0) != sizeof(base))
		base = (uint16_t)(getpid() * 40503);
	return base;
}

static int add_base(void)
{
	unsigned index = atomic_load(&seg_self->n_base);
	uint16_t try = random_base();

	for (unsigned i = 0; i <= UINT16_MAX; i++, try++) {
		struct sockaddr_un name;
		int len = sr_node_name(try, &name), fd;

		if (!try || (try & base_mask) != base_value)
			continue;
		fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (fd < 0)
			return -errno;
		if (!bind(fd, (struct sockaddr *)&name, (socklen_t)len) && !listen(fd, 4096)) {
			base_fd[index] = fd;
			seg_self->base[index] = try;
			atomic_store(&seg_self->n_base, index + 1);
			return sr_helper_watch(fd, SR_WATCH_LISTEN, (uint64_t)fd);
		}
		close(fd);
		if (errno != EADDRINUSE)
			return -errno;
	}
	return -EADDRNOTAVAIL;
}

int sr_node_reserve_qps(unsigned n)
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
	close_fd(&wake_fd);
	close_fd(&mem_fd);
	seg_self = NULL;
	pthread_mutex_init(&start_lock, NULL);
	sr_helper_forget();
	SR_FOR_EACH_PART(part)
	if (part->forget)
		part->forget();
	atomic_store(&started, false);
}

static void in_child(void)
{
	if (atomic_load(&started))
		forget();
}

static int open_helper(void)
{
	int r = sr_helper_open();

	if (!r)
		r = sr_timers_open();
	if (r)
		return r;
	wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return wake_fd < 0 ? -errno : sr_helper_watch(wake_fd, SR_WATCH_WAKE, 0);
}

/* On the helper thread, for as long as it lives: the robust mutex shows peers when it dies
 * (seg.h). */
static void take_life(void)
{
	pthread_mutex_lock(&seg_self->life);
}

static void constrain_bases(void)
{
	base_mask = base_value = 0;
	SR_FOR_EACH_PART(part)
	if (part->constrain_bases)
		part->constrain_bases(&base_mask, &base_value);
}

static int start_parts(void)
{
	SR_FOR_EACH_PART(part)
	if (part->start)
		part->start();
	return sr_helper_run(take_life);
}

static int start(void)
{
	static bool hooked;
	int r;

	sr_lock_init();
	r = seg_create(&mem_fd);
	if (r)
		return r;
	/* Yama: let peers of our uid copy; without Yama this fails and is not needed */
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	r = open_helper();
	if (!r)
		r = sr_peer_init(wake_fd);
	if (!r) {
		constrain_bases();
		r = add_base();
	}
	if (!r) {
		sr_hello_init(mem_fd, wake_fd);
		r = start_parts();
	}
	if (!r && !hooked) {
		pthread_atfork(NULL, NULL, in_child);
		hooked = true;
	}
	return r;
}

int sr_node_start(void)
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

static const struct sr_part part = {
	.on_watch = {[SR_WATCH_WAKE] = on_wake, [SR_WATCH_LISTEN] = on_listen},
};
SR_PART(part);
