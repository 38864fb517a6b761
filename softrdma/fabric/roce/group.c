/* SPDX-License-Identifier: BSD-3-Clause */
/* The sockets and the directory of an address; see group.h. */
#include "softrdma/fabric/roce/group.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "softrdma/fabric/callers.h"
#include "softrdma/fabric/hello.h"
#include "softrdma/fabric/roce/icrc.h"
#include "softrdma/fabric/roce/member.h"
#include "softrdma/fabric/roce/owner.h"
#include "softrdma/fabric/roce/packet.h"
#include "softrdma/fabric/roce/sockets.h"
#include "softrdma/process/timer.h"

enum {
	N_FDS = ROCE_SOCKETS + 2, /* the sockets, the listener, the memory */
};

#define MAGIC	     0x32656372666f73ULL /* changes with what is shared */
#define ROCE_LISTENS 0x10000u
#define JOINING_S    5 /* the members answer between two packets, if they get a CPU */
#define JOINING_NS   (JOINING_S * 1000000000ULL)
#define ANOTHERS_NS  300000000u /* for so long a group that ends may hold sockets and name */
#define STEP_NS	     2000000

/* ---- why not -------------------------------------------------------------------------------- */

/* Once: a program that retries would repeat it without end. */
static void complain(const union ibv_gid *gid, int r, const char *why)
{
	static _Atomic bool said;
	char text[INET6_ADDRSTRLEN];
	bool v4 = roce_gid_is_ip4(gid);

	inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? gid->raw + 12 : gid->raw, text, sizeof(text));
	if (!atomic_exchange(&said, true))
		fprintf(stderr, "softrdma: cannot open UDP port 4791 of %s: %s%s\n", text,
			strerror(-r), why);
}

static const char *why_in_use(void)
{
	if (!access("/sys/module/rdma_rxe", F_OK))
		return "; the kernel's rdma_rxe has it: use its device, or unload the module";
	return "; another program has it";
}

/* ---- sockets -------------------------------------------------------------------------------- */

/* The index of a socket is the order of binding. */
static int open_sockets(struct roce_group *g, uint32_t scope)
{
	struct sock_fprog program = {sizeof(roce_steering) / sizeof(*roce_steering),
				     (struct sock_filter *)(uintptr_t)roce_steering};

	for (unsigned i = 0; i < ROCE_SOCKETS; i++) {
		g->socks[i] = roce_socket_open(&g->gid, scope);
		if (g->socks[i] < 0)
			return g->socks[i];
	}
	return setsockopt(g->socks[0], SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program,
			  sizeof(program))
		       ? -errno
		       : 0;
}

/* ---- the directory -------------------------------------------------------------------------- */

static int map_directory(struct roce_group *g)
{
	void *at;

	if (lseek(g->memory, 0, SEEK_END) != (off_t)sizeof(*g->directory))
		return -EPROTO;
	at = mmap(NULL, sizeof(*g->directory), PROT_READ | PROT_WRITE, MAP_SHARED, g->memory, 0);
	if (at == MAP_FAILED)
		return -errno;
	g->directory = at;
	return 0;
}

static int make_directory(struct roce_group *g)
{
	int r;

	g->memory = memfd_create("softrdma-roce", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (g->memory < 0 || ftruncate(g->memory, sizeof(*g->directory)) ||
	    fcntl(g->memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return -errno;
	r = map_directory(g);
	if (r)
		return r;
	if (getrandom(g->directory->random, 8, 0) != 8)
		g->directory->random[7] = 1;
	g->directory->magic = MAGIC;
	return 0;
}

/* ---- the first process ---------------------------------------------------------------------- */

static socklen_t name_of(const union ibv_gid *gid, uint32_t scope, struct sockaddr_un *ret)
{
	char *at = ret->sun_path + 1;

	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	at += snprintf(at, 16, "softrdma.roce.");
	for (int i = 0; i < 16; i++)
		at += snprintf(at, 3, "%02x", gid->raw[i]);
	at += snprintf(at, 12, ".%x", scope);
	return (socklen_t)(at - (char *)ret);
}

/* -EEXIST: there is one. */
static int make(struct roce_group *g, uint32_t scope)
{
	struct sockaddr_un name;
	socklen_t len = name_of(&g->gid, scope, &name);
	int r;

	g->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (g->listener < 0)
		return -errno;
	if (bind(g->listener, (struct sockaddr *)&name, len))
		return errno == EADDRINUSE ? -EEXIST : -errno;
	r = open_sockets(g, scope);
	if (!r)
		r = make_directory(g);
	if (!r && listen(g->listener, 4096))
		r = -errno;
	return r;
}

/* ---- the others ----------------------------------------------------------------------------- */

struct invitation {
	uint64_t magic;
	union ibv_gid gid;
};

union control {
	struct cmsghdr align;
	uint8_t bytes[CMSG_SPACE(N_FDS * sizeof(int))];
};

void roce_group_admit(const struct roce_group *g)
{
	int sock = accept4(g->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct invitation hello = {MAGIC, g->gid};
	struct iovec iov = {&hello, sizeof(hello)};
	union control control = {0};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = sizeof(control)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	if (sock < 0) /* another process was faster */
		return;
	*c = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
			      .cmsg_type = SCM_RIGHTS,
			      .cmsg_len = CMSG_LEN(N_FDS * sizeof(int))};
	memcpy(CMSG_DATA(c), g->socks, sizeof(g->socks));
	memcpy(CMSG_DATA(c) + sizeof(g->socks), &g->listener, sizeof(int));
	memcpy(CMSG_DATA(c) + sizeof(g->socks) + sizeof(int), &g->memory, sizeof(int));
	if (!sr_is_stranger(sock))
		sendmsg(sock, &m, MSG_NOSIGNAL);
	close(sock);
}

/* Whether a descriptor that came is a socket of the address. */
static bool is_ours(int fd, const union ibv_gid *gid, uint32_t scope)
{
	struct sockaddr_in6 own, sa = {0};
	socklen_t len, sa_len = sizeof(sa);

	roce_sockaddr(gid, scope, &own, &len);
	return !getsockname(fd, (struct sockaddr *)&sa, &sa_len) && sa_len == len &&
	       !memcmp(&own, &sa, len);
}

static int take_fds(struct roce_group *g, struct msghdr *m)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(m);
	int fds[N_FDS];

	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
		return -EPROTO;
	if (c->cmsg_len != CMSG_LEN(sizeof(fds))) {
		sr_packet_refuse(m);
		return m->msg_flags & MSG_CTRUNC ? -EMFILE : -EPROTO;
	}
	memcpy(fds, CMSG_DATA(c), sizeof(fds));
	memcpy(g->socks, fds, sizeof(g->socks));
	g->listener = fds[ROCE_SOCKETS];
	g->memory = fds[ROCE_SOCKETS + 1];
	return 0;
}

static int receive(struct roce_group *g, int sock, uint32_t scope)
{
	struct invitation hello = {0};
	struct iovec iov = {&hello, sizeof(hello)};
	union control control = {0};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC);
	int r;

	if (n < 0)
		return errno == EAGAIN ? -ETIMEDOUT : -EAGAIN; /* the last process has ended */
	if (!n)
		return -EAGAIN;
	r = take_fds(g, &m);
	if (r)
		return r;
	if (n != sizeof(hello) || hello.magic != MAGIC ||
	    memcmp(&hello.gid, &g->gid, sizeof(hello.gid)))
		return -EPROTO;
	for (unsigned i = 0; i < ROCE_SOCKETS; i++)
		if (!is_ours(g->socks[i], &g->gid, scope))
			return -EPROTO;
	r = map_directory(g);
	return r || g->directory->magic == MAGIC ? r : -EPROTO;
}

/* -EAGAIN: it begins or ends just now. */
static int join(struct roce_group *g, uint32_t scope)
{
	struct timeval patience = {.tv_sec = JOINING_S};
	struct sockaddr_un name;
	socklen_t len = name_of(&g->gid, scope, &name);
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), r;

	if (sock < 0)
		return -errno;
	setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (connect(sock, (struct sockaddr *)&name, len))
		r = errno == ECONNREFUSED ? -EAGAIN : -errno;
	else
		r = sr_is_stranger(sock) ? -EACCES : receive(g, sock, scope);
	close(sock);
	return r;
}

static int open_once(const union ibv_gid *gid, uint32_t scope, struct roce_group *g)
{
	int r;

	*g = (struct roce_group){.gid = *gid, .listener = -1, .memory = -1};
	memset(g->socks, -1, sizeof(g->socks));
	r = make(g, scope);
	if (r == -EEXIST) {
		roce_group_close(g);
		r = join(g, scope);
	}
	if (r)
		roce_group_close(g);
	return r;
}

/* This process has no number among those that use RoCE, or no inbox. */
static void complain_of_number(const union ibv_gid *gid, int r)
{
	char why[160] = "";
	uid_t uid = 0;
	unsigned n = 0;

	if (r == -EUSERS || r == -EADDRINUSE)
		n = roce_names_of_others(r == -EUSERS ? "softrdma.member." : "softrdma.inbox.",
					 &uid);
	if (r == -EUSERS && n)
		snprintf(why, sizeof(why),
			 "; of the %u places for processes of this host, other users (such as uid "
			 "%u) have %u",
			 ROCE_MEMBERS, (unsigned)uid, n);
	else if (r == -EUSERS)
		snprintf(why, sizeof(why), "; %u processes use RoCE on this host", ROCE_MEMBERS);
	else if (n)
		snprintf(why, sizeof(why), "; another user (uid %u) has a name that it needs",
			 (unsigned)uid);
	complain(gid, r, why);
}

/* Whether another user has the name of the address, but lets no process in. */
static bool is_held(const union ibv_gid *gid, uint32_t scope)
{
	struct sockaddr_un name;
	uid_t uid;

	name_of(gid, scope, &name);
	return roce_names_of_others(name.sun_path + 1, &uid);
}

int roce_group_open(const union ibv_gid *gid, uint32_t scope, struct roce_group *ret)
{
	static const struct timespec step = {.tv_nsec = STEP_NS};
	uint64_t begin = sr_now_ns(), waited = 0;
	int r = roce_member_number();

	if (r < 0) {
		complain_of_number(gid, r);
		return r;
	}
	for (;;) {
		r = open_once(gid, scope, ret);
		waited = sr_now_ns() - begin;
		if (r == -EAGAIN && waited > ANOTHERS_NS && is_held(gid, scope))
			r = -EACCES;
		if ((r != -EAGAIN || waited > JOINING_NS) &&
		    (r != -EADDRINUSE || waited > ANOTHERS_NS))
			break;
		nanosleep(&step, NULL);
	}
	if (r == -EADDRINUSE)
		complain(gid, r, why_in_use());
	else if (r == -EACCES)
		complain(gid, r = -EADDRINUSE, "; another user's softrdma has it");
	else if (r == -EPROTO)
		complain(gid, r, "; a softrdma of another version has it");
	else if (r && r != -EADDRNOTAVAIL)
		complain(gid, r, "");
	return r;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void roce_group_close(struct roce_group *g)
{
	for (unsigned i = 0; i < ROCE_SOCKETS; i++)
		close_fd(&g->socks[i]);
	close_fd(&g->listener);
	close_fd(&g->memory);
	if (g->directory)
		munmap(g->directory, sizeof(*g->directory));
	g->directory = NULL;
}

/* ---- which process listens ------------------------------------------------------------------ */

int roce_group_listen(struct roce_group *g, enum roce_space space, uint16_t port)
{
	_Atomic uint32_t *entry = &g->directory->listeners[space][port];
	uint32_t now = atomic_load(entry), own = roce_member_inbox();

	do {
		if (now & ROCE_LISTENS && (uint16_t)now != own && roce_member_lives((uint16_t)now))
			return -EADDRINUSE;
	} while (!atomic_compare_exchange_strong(entry, &now, own | ROCE_LISTENS));
	return 0;
}

void roce_group_unlisten(struct roce_group *g, enum roce_space space, uint16_t port)
{
	uint32_t own = roce_member_inbox() | ROCE_LISTENS;

	atomic_compare_exchange_strong(&g->directory->listeners[space][port], &own,
				       own & ~ROCE_LISTENS);
}

uint16_t roce_group_listener(const struct roce_group *g, enum roce_space space, uint16_t port,
			     bool *ret_listens)
{
	uint32_t entry = atomic_load(&g->directory->listeners[space][port]);

	*ret_listens = entry & ROCE_LISTENS;
	return (uint16_t)entry;
}

void roce_group_clear(struct roce_group *g, enum roce_space space, uint16_t port, uint16_t inbox)
{
	_Atomic uint32_t *entry = &g->directory->listeners[space][port];
	uint32_t now = atomic_load(entry);

	if ((uint16_t)now == inbox)
		atomic_compare_exchange_strong(entry, &now, 0);
}
