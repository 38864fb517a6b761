/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file's owner, group and mode (0600 by default) restrict access to the unix socket. The socket
 * file of a process that died is replaced, one with a listener is not; only our own file is removed
 * at the end.
 *
 * While the process has as many clients as it may have, it does not accept: further clients wait in
 * the socket's backlog.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "nbd_bridge/control/frontend.h"
#include "nbd_bridge/control/frontend_socket.h"
#include "nbd_bridge/control/stdio.h"

enum {
	BACKLOG = 64,
	ACCEPT_BATCH = 16,
	FIRST_INHERITED = 3,
	LISTENERS_MAX = FRONTEND_INHERITED_MAX + 1,
};

struct listener {
	struct loop_fd lfd;
	struct loop_timer retry; /* no file descriptor was left: try again later */
	bool is_full;		 /* there was no room: has_room goes on */
	struct frontend_socket *owner;
};

struct frontend_socket {
	/* Thread: control */
	struct frontend frontend;
	struct frontend_socket_config config;
	struct stat identity; /* of the unix socket's file */
	struct listener listeners[LISTENERS_MAX];
	unsigned n_listeners;
};

/* ---- accepting ----------------------------------------------------------------------------- */

static void accept_again(struct listener *listener)
{
	if (loop_fd_modify(&listener->lfd, EPOLLIN) < 0)
		loop_timer_start(listener->owner->frontend.host->loop, &listener->retry,
				 NSEC_PER_SEC);
}

static void on_retry(struct loop_timer *timer)
{
	accept_again(container_of(timer, struct listener, retry));
}

static void on_connecting(struct loop_fd *lfd, uint32_t events)
{
	struct listener *listener = container_of(lfd, struct listener, lfd);
	struct frontend_host *host = listener->owner->frontend.host;

	for (unsigned i = 0; i < ACCEPT_BATCH; i++) {
		int fd;

		if (!host->has_room(host)) {
			listener->is_full = true;
			loop_fd_modify(lfd, 0);
			return;
		}
		fd = accept4(lfd->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0) {
			if (errno == EMFILE || errno == ENFILE || errno == ENOMEM ||
			    errno == ENOBUFS) {
				loop_fd_modify(lfd, 0);
				loop_timer_start(host->loop, &listener->retry, NSEC_PER_SEC);
			}
			return;
		}
		host->add_conn(host, fd, false, false);
	}
}

static void has_room(struct frontend *frontend)
{
	struct frontend_socket *fe = container_of(frontend, struct frontend_socket, frontend);

	for (unsigned i = 0; i < fe->n_listeners; i++) {
		struct listener *listener = &fe->listeners[i];

		if (!listener->is_full)
			continue;
		listener->is_full = false;
		accept_again(listener);
	}
}

static int add_listener(struct frontend_socket *fe, int fd)
{
	struct listener *listener = &fe->listeners[fe->n_listeners];

	check(fe->n_listeners < LISTENERS_MAX);
	*listener = (struct listener){
		.lfd = {.fd = fd, .events = EPOLLIN, .on_event = on_connecting},
		.retry = {.on_expiry = on_retry},
		.owner = fe,
	};
	fe->n_listeners++; /* the fd is closed with it, also on failure */
	if (listen(fd, BACKLOG) < 0 || fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	return loop_fd_add(fe->frontend.host->loop, &listener->lfd);
}

/* TCP would serve each machine of the network, without asking which. */
static int inherit(struct frontend_socket *fe, int fd)
{
	int family = AF_UNSPEC;
	socklen_t n = sizeof(family);

	getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &n);
	return family == AF_UNIX ? add_listener(fe, fd) : -EAFNOSUPPORT;
}

/* ---- listening ----------------------------------------------------------------------------- */

static bool is_listened_on(const struct sockaddr_un *addr)
{
	_autoclose_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	return fd >= 0 && (connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) == 0 ||
			   errno != ECONNREFUSED);
}

static int bind_with_mode(int fd, const struct sockaddr_un *addr, mode_t mode)
{
	mode_t old = umask(0777 & ~mode);
	int r = bind(fd, (const struct sockaddr *)addr, sizeof(*addr)) < 0 ? -errno : 0;

	umask(old);
	return r;
}

/* Only what was asked for: the sandbox of a unit may forbid the system call. */
static int change_owner(const struct frontend_socket_config *config)
{
	int r;

	if (config->owner == (uid_t)-1 && config->group == (gid_t)-1)
		return 0;
	r = lchown(config->path, config->owner, config->group) < 0 ? -errno : 0;
	if (r < 0)
		unlink(config->path);
	return r;
}

static int listen_unix(struct frontend_socket *fe)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	const char *path = fe->config.path;
	struct stat st;
	int fd, r;

	if (strlen(path) >= sizeof(addr.sun_path))
		return -ENAMETOOLONG;
	strcpy(addr.sun_path, path);
	if (lstat(path, &st) == 0 && S_ISSOCK(st.st_mode)) {
		if (is_listened_on(&addr))
			return -EADDRINUSE;
		unlink(path);
	}
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	r = bind_with_mode(fd, &addr, fe->config.mode);
	if (r == 0)
		r = change_owner(&fe->config);
	if (r < 0) {
		close(fd);
		return r;
	}
	if (lstat(path, &fe->identity) < 0)
		fe->identity = (struct stat){0};
	return add_listener(fe, fd);
}

unsigned frontend_n_inherited(void)
{
	const char *pid = getenv("LISTEN_PID"), *n = getenv("LISTEN_FDS");

	if (!pid || !n || strtol(pid, NULL, 10) != getpid())
		return 0;
	return (unsigned)MIN(strtoul(n, NULL, 10), FRONTEND_INHERITED_MAX);
}

/* ---- the front end ------------------------------------------------------------------------- */

static int fail(struct error *error, int r, const char *where)
{
	error->code = r == -EADDRINUSE		    ? EXIT_BUSY
		      : r == -EACCES || r == -EPERM ? EXIT_PRIVILEGE
						    : EXIT_FAILED;
	snprintf(error->message, sizeof(error->message), "cannot listen on %.200s: %s", where,
		 strerror(-r));
	snprintf(error->hint, sizeof(error->hint), "%s",
		 r == -EADDRINUSE ? "another program listens there; choose another address"
		 : r == -EAFNOSUPPORT
			 ? "it must be a unix socket; nbdkit-rblk-plugin serves NBD over TCP"
		 : r == -EPERM ? "only root may give a socket to another user or group"
			       : "");
	return (int)error->code;
}

static int start_stdio(struct frontend_socket *fe, struct error *error)
{
	struct frontend_host *host = fe->frontend.host;
	int fd, r;

	r = stdio_open(&fd);
	if (r == 0)
		r = host->add_conn(host, fd, false, true);
	return r < 0 ? fail(error, r, "standard input") : 0;
}

static int start(struct frontend *frontend, struct error *error)
{
	struct frontend_socket *fe = container_of(frontend, struct frontend_socket, frontend);
	const struct frontend_socket_config *config = &fe->config;
	int r;

	for (unsigned i = 0; i < config->n_inherited; i++) {
		r = inherit(fe, FIRST_INHERITED + (int)i);
		if (r < 0)
			return fail(error, r, "an inherited socket");
	}
	if (config->path) {
		r = listen_unix(fe);
		if (r < 0)
			return fail(error, r, config->path);
	}
	return config->is_stdio ? start_stdio(fe, error) : 0;
}

static void stop(struct frontend *frontend, bool may_leave)
{
	struct frontend_socket *fe = container_of(frontend, struct frontend_socket, frontend);
	struct stat st;

	for (unsigned i = 0; i < fe->n_listeners; i++) {
		struct listener *listener = &fe->listeners[i];

		loop_timer_stop(&listener->retry);
		loop_fd_remove(&listener->lfd);
		close(listener->lfd.fd);
	}
	fe->n_listeners = 0;
	if (fe->config.path && fe->identity.st_ino && lstat(fe->config.path, &st) == 0 &&
	    st.st_ino == fe->identity.st_ino && st.st_dev == fe->identity.st_dev)
		unlink(fe->config.path);
	fe->identity.st_ino = 0;
}

static void free_frontend(struct frontend *frontend)
{
	stop(frontend, false);
	stdio_finish();
	free(container_of(frontend, struct frontend_socket, frontend));
}

static const struct frontend_ops ops = {
	.name = "socket",
	.start = start,
	.has_room = has_room,
	.stop = stop,
	.free = free_frontend,
};

struct frontend *frontend_socket_new(struct frontend_host *host,
				     const struct frontend_socket_config *config)
{
	struct frontend_socket *fe = calloc(1, sizeof(*fe));

	if (!fe)
		return NULL;
	fe->frontend = (struct frontend){.ops = &ops, .host = host};
	fe->config = *config;
	return &fe->frontend;
}
