/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded before everything else: counts the calls that can fail, and makes one of them fail, as
 * the test orders (failnth.h). Calls by the software provider and by sanitizers do not count: the
 * verbs call around them does. A call by libc or another library counts as its caller's.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <unwind.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "tests/failnth/failnth.h"

#undef ibv_reg_mr

enum {
	MODULES_MAX = 64,
	DEPTH_MAX = 24,
	ARENA_BYTES = 65536,
};

enum kind {
	PROGRAM, /* and libraries not named below */
	LIBC,	 /* its caller decides */
	FOREIGN, /* never fails: the provider, sanitizers, the loader */
	OWN,
};

static struct module {
	uintptr_t start, end;
	enum kind kind;
	char name[32];
} modules[MODULES_MAX];
static unsigned n_modules;
static struct failnth *shared; /* NULL: nothing fails */
static __thread int depth __attribute__((tls_model("initial-exec")));

/* ---- callers --------------------------------------------------------------------------------- */

static enum kind kind_of(const char *name)
{
	static const struct {
		const char *part;
		enum kind kind;
	} table[] = {
		{"libfailnth", OWN},  {"libsoftrdma", FOREIGN}, {"libasan", FOREIGN},
		{"libtsan", FOREIGN}, {"libubsan", FOREIGN},	{"ld-linux", FOREIGN},
		{"libc.so", LIBC},    {"libgcc", LIBC},
	};

	for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (strstr(name, table[i].part))
			return table[i].kind;
	return PROGRAM;
}

static int add_module(struct dl_phdr_info *info, size_t size, void *context)
{
	const char *name = strrchr(info->dlpi_name, '/');
	struct module *m = &modules[n_modules];

	if (n_modules == MODULES_MAX)
		return 1;
	m->start = UINTPTR_MAX;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type != PT_LOAD)
			continue;
		if (info->dlpi_addr + p->p_vaddr < m->start)
			m->start = info->dlpi_addr + p->p_vaddr;
		if (info->dlpi_addr + p->p_vaddr + p->p_memsz > m->end)
			m->end = info->dlpi_addr + p->p_vaddr + p->p_memsz;
	}
	m->kind = kind_of(info->dlpi_name);
	snprintf(m->name, sizeof(m->name), "%s", name ? name + 1 : "program");
	n_modules++;
	return 0;
}

static const struct module *module_of(uintptr_t pc)
{
	for (unsigned i = 0; i < n_modules; i++)
		if (pc >= modules[i].start && pc < modules[i].end)
			return &modules[i];
	return NULL;
}

struct callers {
	uintptr_t pcs[DEPTH_MAX];
	unsigned n;
};

static _Unwind_Reason_Code add_caller(struct _Unwind_Context *context, void *arg)
{
	struct callers *callers = arg;

	if (callers->n == DEPTH_MAX)
		return _URC_END_OF_STACK;
	callers->pcs[callers->n++] = _Unwind_GetIP(context);
	return _URC_NO_REASON;
}

/* The first frame outside libc decides whether the call counts. This library's own frames are
 * skipped. */
static bool find_callers(const char *call, struct callers *callers)
{
	struct callers all = {0};
	bool is_decided = false;

	_Unwind_Backtrace(add_caller, &all);
	for (unsigned i = 0; i < all.n && callers->n < FAILNTH_FRAMES; i++) {
		const struct module *m = module_of(all.pcs[i]);

		if (!m || m->kind == OWN)
			continue;
		if (!is_decided && m->kind == FOREIGN)
			return false;
		/* json-c does not check the results of strdup and newlocale. */
		if (!is_decided && strstr(m->name, "libjson-c") &&
		    (callers->n || !strcmp(call, "strdup")))
			return false;
		is_decided |= m->kind == PROGRAM;
		callers->pcs[callers->n++] = all.pcs[i];
	}
	return is_decided;
}

/* ---- places ---------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t hash, uint64_t x)
{
	hash = (hash ^ x) * 0x9e3779b97f4a7c15ULL;
	return hash ^ hash >> 29;
}

static uint64_t key_of(const char *call, const struct callers *callers)
{
	uint64_t hash = 1;

	for (; *call; call++)
		hash = mix(hash, (unsigned char)*call);
	for (unsigned i = 0; i < callers->n; i++)
		hash = mix(hash, callers->pcs[i] - module_of(callers->pcs[i])->start);
	return hash ? hash : 1;
}

static void describe(struct failnth_place *place, const char *call, const struct callers *callers)
{
	int at = snprintf(place->where, sizeof(place->where), "%s", call);

	for (unsigned i = 0; i < callers->n && at < FAILNTH_WHERE - 1; i++) {
		const struct module *m = module_of(callers->pcs[i]);

		at += snprintf(place->where + at, sizeof(place->where) - (size_t)at, " %.12s+%#lx",
			       m->name, (unsigned long)(callers->pcs[i] - m->start));
	}
}

static void record(uint64_t key, const char *call, const struct callers *callers)
{
	for (unsigned i = 0; i < FAILNTH_PLACES; i++) {
		struct failnth_place *place = &shared->places[(key + i) % FAILNTH_PLACES];
		uint64_t found = 0;

		if (atomic_compare_exchange_strong(&place->key, &found, key))
			describe(place, call, callers);
		else if (found != key)
			continue;
		atomic_fetch_add(&place->n_met, 1);
		atomic_fetch_or(&place->phases, 1u << atomic_load(&shared->phase));
		return;
	}
}

static bool is_its_turn(uint64_t key)
{
	uint64_t armed = key;

	if (atomic_load(&shared->armed) != key)
		return false;
	if (atomic_load(&shared->skip)) {
		atomic_fetch_sub(&shared->skip, 1);
		return false;
	}
	return atomic_compare_exchange_strong(&shared->armed, &armed, 0);
}

/* Whether this call of this function is the armed one. */
static bool fails(const char *call)
{
	struct callers callers = {0};
	int saved_errno = errno;
	bool is_it = false;
	uint64_t key;

	if (!shared || depth ||
	    !(atomic_load(&shared->is_recording) || atomic_load(&shared->armed)))
		return false;
	depth++;
	if (find_callers(call, &callers)) {
		key = key_of(call, &callers);
		if (atomic_load(&shared->is_recording))
			record(key, call, &callers);
		is_it = is_its_turn(key);
		if (is_it)
			atomic_fetch_add(&shared->n_failed, 1);
	}
	depth--;
	errno = saved_errno;
	return is_it;
}

__attribute__((constructor)) static void start(void)
{
	const char *path = getenv("FAILNTH");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *p;

	if (fd < 0)
		return;
	dl_iterate_phdr(add_module, NULL);
	p = mmap(NULL, sizeof(struct failnth), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (p != MAP_FAILED)
		shared = p;
}

static void *next(const char *name)
{
	void *p;

	depth++;
	p = dlsym(RTLD_NEXT, name);
	depth--;
	if (!p)
		abort();
	return p;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Memory for allocations of dlsym while it looks up the real malloc. */
static char arena[ARENA_BYTES] __attribute__((aligned(64)));
static size_t arena_used;

static void *from_arena(size_t n)
{
	void *p = arena + arena_used;

	arena_used += (n + 63) & ~63ull;
	if (arena_used > sizeof(arena))
		abort();
	return p;
}

static bool is_in_arena(const void *p)
{
	return (const char *)p >= arena && (const char *)p < arena + sizeof(arena);
}

/* The function that this one hides; those of malloc's family may not be found yet. */
#define REAL(name)                                                                                 \
	static __typeof__(name) *real;                                                             \
	if (!real)                                                                                 \
		real = next(#name);

#define REAL_UNLESS_LOOKING(name)                                                                  \
	static __typeof__(name) *real;                                                             \
	static bool is_looking; /* no lock: set before there are threads */                        \
	if (!real && !is_looking) {                                                                \
		is_looking = true;                                                                 \
		real = next(#name);                                                                \
	}

void *malloc(size_t n)
{
	REAL_UNLESS_LOOKING(malloc)
	if (!real)
		return from_arena(n);
	if (fails("malloc")) {
		errno = ENOMEM;
		return NULL;
	}
	return real(n);
}

void *calloc(size_t n, size_t size)
{
	REAL_UNLESS_LOOKING(calloc)
	if (!real)
		return from_arena(n * size);
	if (fails("calloc")) {
		errno = ENOMEM;
		return NULL;
	}
	return real(n, size);
}

void *realloc(void *p, size_t n)
{
	REAL_UNLESS_LOOKING(realloc)
	if (!real || is_in_arena(p))
		abort();
	if (fails("realloc")) {
		errno = ENOMEM;
		return NULL;
	}
	return real(p, n);
}

void free(void *p)
{
	REAL_UNLESS_LOOKING(free)
	if (real && !is_in_arena(p))
		real(p);
}

#define FAILING(type, name, params, args, failure, error)                                          \
	type name params                                                                           \
	{                                                                                          \
		REAL(name)                                                                         \
		if (fails(#name)) {                                                                \
			errno = error;                                                             \
			return failure;                                                            \
		}                                                                                  \
		return real args;                                                                  \
	}

FAILING(void *, aligned_alloc, (size_t align, size_t n), (align, n), NULL, ENOMEM)
FAILING(char *, strdup, (const char *s), (s), NULL, ENOMEM)
FAILING(void *, mmap64, (void *p, size_t n, int prot, int flags, int fd, off64_t at),
	(p, n, prot, flags, fd, at), MAP_FAILED, ENOMEM)
FAILING(int, mlock, (const void *p, size_t n), (p, n), -1, ENOMEM)
FAILING(int, pthread_create,
	(pthread_t * thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg),
	(thread, attr, run, arg), EAGAIN, EAGAIN)

/* ---- files ----------------------------------------------------------------------------------- */

int open64(const char *path, int flags, ...)
{
	unsigned mode;
	va_list ap;
	REAL(open64)

	va_start(ap, flags);
	mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, unsigned) : 0;
	va_end(ap);
	if (fails("open64")) {
		errno = EMFILE;
		return -1;
	}
	return real(path, flags, mode);
}

int openat64(int folder, const char *path, int flags, ...)
{
	unsigned mode;
	va_list ap;
	REAL(openat64)

	va_start(ap, flags);
	mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, unsigned) : 0;
	va_end(ap);
	if (fails("openat64")) {
		errno = EMFILE;
		return -1;
	}
	return real(folder, path, flags, mode);
}

/* openat2 has no function of its own. */
long syscall(long number, ...)
{
	long a[6];
	va_list ap;
	REAL(syscall)

	va_start(ap, number);
	for (unsigned i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (fails("syscall")) {
		errno = EIO;
		return -1;
	}
	return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

int fcntl64(int fd, int command, ...)
{
	va_list ap;
	void *arg;
	REAL(fcntl64)

	va_start(ap, command);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (fails("fcntl64")) {
		errno = EINVAL;
		return -1;
	}
	return real(fd, command, arg);
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list ap;
	void *arg;
	REAL(ioctl)

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (fails("ioctl")) {
		errno = EIO;
		return -1;
	}
	return real(fd, request, arg);
}

FAILING(FILE *, fopen64, (const char *path, const char *mode), (path, mode), NULL, EMFILE)
FAILING(FILE *, open_memstream, (char **text, size_t *n), (text, n), NULL, ENOMEM)
FAILING(int, fstat64, (int fd, struct stat64 *st), (fd, st), -1, EIO)
FAILING(int, stat64, (const char *path, struct stat64 *st), (path, st), -1, EIO)
FAILING(int, lstat64, (const char *path, struct stat64 *st), (path, st), -1, EIO)
FAILING(int, ftruncate64, (int fd, off64_t n), (fd, n), -1, EIO)
FAILING(int, fallocate64, (int fd, int mode, off64_t at, off64_t n), (fd, mode, at, n), -1, ENOSPC)
FAILING(int, fsync, (int fd), (fd), -1, EIO)
FAILING(int, fdatasync, (int fd), (fd), -1, EIO)

/* On pipes, eventfds and terminals neither can fail. */
static bool is_file(int fd)
{
	struct stat st;
	bool is_it;

	depth++;
	is_it = !fstat(fd, &st) && S_ISREG(st.st_mode);
	depth--;
	return is_it;
}

ssize_t read(int fd, void *p, size_t n)
{
	REAL(read)
	if (shared && is_file(fd) && fails("read")) {
		errno = EIO;
		return -1;
	}
	return real(fd, p, n);
}

ssize_t write(int fd, const void *p, size_t n)
{
	REAL(write)
	if (shared && fd > STDERR_FILENO && is_file(fd) && fails("write")) {
		errno = EIO;
		return -1;
	}
	return real(fd, p, n);
}

FAILING(ssize_t, pread64, (int fd, void *p, size_t n, off64_t at), (fd, p, n, at), -1, EIO)
FAILING(ssize_t, pwrite64, (int fd, const void *p, size_t n, off64_t at), (fd, p, n, at), -1,
	ENOSPC)
FAILING(ssize_t, preadv64v2, (int fd, const struct iovec *iov, int n, off64_t at, int flags),
	(fd, iov, n, at, flags), -1, EIO)
FAILING(ssize_t, pwritev64v2, (int fd, const struct iovec *iov, int n, off64_t at, int flags),
	(fd, iov, n, at, flags), -1, ENOSPC)
FAILING(int, renameat, (int from, const char *old, int to, const char *name), (from, old, to, name),
	-1, EIO)
FAILING(int, unlinkat, (int folder, const char *path, int flags), (folder, path, flags), -1, EROFS)
FAILING(int, unlink, (const char *path), (path), -1, EROFS)
FAILING(int, mkdir, (const char *path, mode_t mode), (path, mode), -1, EACCES)
FAILING(int, flock, (int fd, int operation), (fd, operation), -1, ENOLCK)
FAILING(off64_t, lseek64, (int fd, off64_t at, int whence), (fd, at, whence), -1, EIO)
FAILING(int, statx, (int folder, const char *path, int flags, unsigned mask, struct statx *st),
	(folder, path, flags, mask, st), -1, EIO)
FAILING(int, fstatfs64, (int fd, struct statfs64 *fs), (fd, fs), -1, EIO)
FAILING(int, faccessat, (int folder, const char *path, int mode, int flags),
	(folder, path, mode, flags), -1, EIO)
FAILING(int, chmod, (const char *path, mode_t mode), (path, mode), -1, EROFS)
FAILING(int, fchmod, (int fd, mode_t mode), (fd, mode), -1, EROFS)
FAILING(char *, realpath, (const char *path, char *resolved), (path, resolved), NULL, EIO)
FAILING(char *, fgets, (char *text, int n, FILE *f), (text, n, f), NULL, EIO)

/* ---- descriptors and sockets ----------------------------------------------------------------- */

FAILING(int, memfd_create, (const char *name, unsigned flags), (name, flags), -1, EMFILE)
FAILING(int, pipe2, (int fds[2], int flags), (fds, flags), -1, EMFILE)
FAILING(int, dup2, (int fd, int as), (fd, as), -1, EMFILE)
FAILING(int, dup3, (int fd, int as, int flags), (fd, as, flags), -1, EMFILE)
FAILING(int, socket, (int domain, int type, int protocol), (domain, type, protocol), -1, EMFILE)
FAILING(int, socketpair, (int domain, int type, int protocol, int fds[2]),
	(domain, type, protocol, fds), -1, EMFILE)
FAILING(int, bind, (int fd, const struct sockaddr *to, socklen_t n), (fd, to, n), -1, EACCES)
FAILING(int, listen, (int fd, int backlog), (fd, backlog), -1, EOPNOTSUPP)
FAILING(int, accept4, (int fd, struct sockaddr *from, socklen_t *n, int flags),
	(fd, from, n, flags), -1, EMFILE)
FAILING(int, connect, (int fd, const struct sockaddr *to, socklen_t n), (fd, to, n), -1, EAGAIN)
FAILING(int, setsockopt, (int fd, int level, int option, const void *value, socklen_t n),
	(fd, level, option, value, n), -1, ENOBUFS)
FAILING(int, getsockopt, (int fd, int level, int option, void *value, socklen_t *n),
	(fd, level, option, value, n), -1, ENOBUFS)
FAILING(ssize_t, recv, (int fd, void *p, size_t n, int flags), (fd, p, n, flags), -1, ECONNRESET)
FAILING(ssize_t, readv, (int fd, const struct iovec *iov, int n), (fd, iov, n), -1, ECONNRESET)
FAILING(ssize_t, send, (int fd, const void *p, size_t n, int flags), (fd, p, n, flags), -1, EPIPE)
FAILING(ssize_t, sendmsg, (int fd, const struct msghdr *msg, int flags), (fd, msg, flags), -1,
	EPIPE)
FAILING(int, epoll_create1, (int flags), (flags), -1, EMFILE)

/* Removing a descriptor cannot fail: it needs no memory. */
int epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	REAL(epoll_ctl)
	if (op != EPOLL_CTL_DEL && fails("epoll_ctl")) {
		errno = ENOMEM;
		return -1;
	}
	return real(epfd, op, fd, event);
}

int eventfd(unsigned value, int flags);
FAILING(int, eventfd, (unsigned value, int flags), (value, flags), -1, EMFILE)
int signalfd(int fd, const sigset_t *mask, int flags);
FAILING(int, signalfd, (int fd, const sigset_t *mask, int flags), (fd, mask, flags), -1, EMFILE)

/* ---- libaio: it returns what is in errno elsewhere ------------------------------------------- */

struct iocb;
int io_setup(int n, void *ret_context);
int io_submit(void *context, long n, struct iocb **iocbs);
FAILING(int, io_setup, (int n, void *ret_context), (n, ret_context), -EAGAIN, 0)
FAILING(int, io_submit, (void *context, long n, struct iocb **iocbs), (context, n, iocbs), -EAGAIN,
	0)
int io_getevents(void *context, long least, long most, void *events, struct timespec *time);
FAILING(int, io_getevents,
	(void *context, long least, long most, void *events, struct timespec *time),
	(context, least, most, events, time), -EINTR, 0)

/* ---- verbs ----------------------------------------------------------------------------------- */

static struct ibv_context_ops plain;

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	if (fails("ibv_post_send")) {
		*bad = wr;
		return ENOMEM;
	}
	return plain.post_send(qp, wr, bad);
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	if (fails("ibv_post_recv")) {
		*bad = wr;
		return ENOMEM;
	}
	return plain.post_recv(qp, wr, bad);
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	if (fails("ibv_post_srq_recv")) {
		*bad = wr;
		return ENOMEM;
	}
	return plain.post_srq_recv(srq, wr, bad);
}

static int req_notify_cq(struct ibv_cq *cq, int is_solicited)
{
	return fails("ibv_req_notify_cq") ? ENOMEM : plain.req_notify_cq(cq, is_solicited);
}

/* Fails before the real call, so that no completion is lost with it. */
static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wcs)
{
	return fails("ibv_poll_cq") ? -EIO : plain.poll_cq(cq, n, wcs);
}

/* Calls through the context's table; all contexts of the provider have the same functions. */
static void take_over(struct ibv_context *context)
{
	struct ibv_context_ops *ops = &context->ops;

	if (ops->post_send == post_send)
		return;
	plain = *ops;
	ops->post_send = post_send;
	ops->post_recv = post_recv;
	ops->post_srq_recv = post_srq_recv;
	ops->req_notify_cq = req_notify_cq;
	ops->poll_cq = poll_cq;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	REAL(ibv_alloc_pd)
	take_over(context);
	if (fails("ibv_alloc_pd")) {
		errno = ENOMEM;
		return NULL;
	}
	return real(context);
}

FAILING(struct ibv_device **, ibv_get_device_list, (int *ret_n), (ret_n), NULL, ENOMEM)
FAILING(int, ibv_query_device, (struct ibv_context * c, struct ibv_device_attr *attr), (c, attr),
	EIO, EIO)
FAILING(struct ibv_mr *, ibv_reg_mr, (struct ibv_pd * pd, void *p, size_t n, int access),
	(pd, p, n, access), NULL, ENOMEM)
FAILING(struct ibv_comp_channel *, ibv_create_comp_channel, (struct ibv_context * c), (c), NULL,
	ENOMEM)
FAILING(struct ibv_cq *, ibv_create_cq,
	(struct ibv_context * c, int n, void *context, struct ibv_comp_channel *ch, int v),
	(c, n, context, ch, v), NULL, ENOMEM)
FAILING(struct ibv_srq *, ibv_create_srq, (struct ibv_pd * pd, struct ibv_srq_init_attr *attr),
	(pd, attr), NULL, ENOMEM)
FAILING(int, ibv_modify_qp, (struct ibv_qp * qp, struct ibv_qp_attr *attr, int mask),
	(qp, attr, mask), EINVAL, EINVAL)
FAILING(int, ibv_get_async_event, (struct ibv_context * c, struct ibv_async_event *event),
	(c, event), -1, EIO)
FAILING(int, ibv_get_cq_event, (struct ibv_comp_channel * ch, struct ibv_cq **cq, void **context),
	(ch, cq, context), -1, EAGAIN)
FAILING(struct rdma_event_channel *, rdma_create_event_channel, (void), (), NULL, ENOMEM)
FAILING(int, rdma_create_id,
	(struct rdma_event_channel * ch, struct rdma_cm_id **id, void *context,
	 enum rdma_port_space ps),
	(ch, id, context, ps), -1, ENOMEM)
FAILING(int, rdma_bind_addr, (struct rdma_cm_id * id, struct sockaddr *to), (id, to), -1,
	EADDRNOTAVAIL)
FAILING(int, rdma_listen, (struct rdma_cm_id * id, int backlog), (id, backlog), -1, ENOMEM)
FAILING(int, rdma_create_qp,
	(struct rdma_cm_id * id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr), (id, pd, attr),
	-1, ENOMEM)
FAILING(int, rdma_accept, (struct rdma_cm_id * id, struct rdma_conn_param *param), (id, param), -1,
	ENOMEM)
FAILING(int, rdma_connect, (struct rdma_cm_id * id, struct rdma_conn_param *param), (id, param), -1,
	ENOMEM)
FAILING(int, rdma_resolve_addr,
	(struct rdma_cm_id * id, struct sockaddr *from, struct sockaddr *to, int ms),
	(id, from, to, ms), -1, ENOMEM)
FAILING(int, rdma_resolve_route, (struct rdma_cm_id * id, int ms), (id, ms), -1, ENOMEM)
FAILING(int, rdma_reject, (struct rdma_cm_id * id, const void *data, uint8_t n), (id, data, n), -1,
	EINVAL)
FAILING(int, rdma_disconnect, (struct rdma_cm_id * id), (id), -1, EINVAL)
FAILING(int, rdma_notify, (struct rdma_cm_id * id, enum ibv_event_type type), (id, type), -1,
	EINVAL)
FAILING(int, rdma_get_cm_event, (struct rdma_event_channel * ch, struct rdma_cm_event **ev),
	(ch, ev), -1, ENOMEM)
