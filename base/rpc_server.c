/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server alternates between reading from a client and writing to it. It reads nothing while an
 * answer is being sent, so a client that does not read its answers costs one answer and 64 KiB of
 * requests. The client's timer runs while a message is incomplete or an answer waits; when it
 * expires, the client is disconnected.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/check.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/rpc.h"
#include "base/rpc_request.h"
#include "base/rpc_server.h"

enum {
	MAX_CLIENTS = 64,
	MAX_MESSAGE = 64 * 1024,
	BACKLOG = 64,
	TIMEOUT_S = 5,
	ACCEPT_BATCH = 16, /* per turn, so that a client that connects in a loop starves no other */
	LOCK_TRIES = 500,
	LOCK_PAUSE_MS = 10,
};

struct rpc_server {
	/* Thread: the loop's */
	struct loop *loop; /* borrowed: outlives the server */
	const struct rpc_method *methods;
	void *context;
	struct loop_fd listener;
	struct loop_timer retry_accept;
	struct list clients;
	unsigned n_clients;
	uid_t owner;
	struct log_limit log_limit;
	struct sockaddr_un addr;
	struct stat identity; /* of the socket file: the server removes only its own */
};

struct client {
	struct rpc_server *server; /* borrowed: the server frees its clients before itself */
	struct list node;
	struct loop_fd lfd;
	struct loop_timer timer;
	char *out; /* owned: the answer that is being written, or NULL */
	size_t n_out, at_out;
	size_t n_in;
	bool must_close; /* once out is written */
	char in[MAX_MESSAGE];
};

static void client_free(struct client *client)
{
	loop_timer_stop(&client->timer);
	loop_fd_remove(&client->lfd);
	close(client->lfd.fd);
	list_remove(&client->node);
	client->server->n_clients--;
	free(client->out);
	free(client);
}

static void on_timeout(struct loop_timer *timer)
{
	client_free(container_of(timer, struct client, timer));
}

/* Lines */

static void answer_with(struct client *client, struct rpc_answer answer)
{
	check(!client->out);
	client->at_out = 0;
	client->out = answer.line;
	client->n_out = answer.n;
	client->must_close |= answer.must_close;
}

/* Runs the first complete line in the buffer. False: there is none. */
static bool run_next_line(struct client *client)
{
	char *newline = memchr(client->in, '\n', client->n_in);
	size_t n_used;

	if (!newline) {
		if (client->n_in < sizeof(client->in))
			return false;
		answer_with(client, rpc_answer_too_long());
		return true;
	}
	answer_with(client, rpc_run_line(client->server->methods, client->server->context,
					 client->in, (size_t)(newline - client->in)));
	n_used = (size_t)(newline - client->in) + 1;
	client->n_in -= n_used;
	memmove(client->in, newline + 1, client->n_in);
	/* The time of the next message starts now: the method itself took some of it. */
	loop_timer_stop(&client->timer);
	return true;
}

/* Connections */

/* False: the peer has disconnected. */
static bool write_answer(struct client *client)
{
	while (client->out) {
		ssize_t n = send(client->lfd.fd, client->out + client->at_out,
				 client->n_out - client->at_out, MSG_NOSIGNAL);

		if (n < 0)
			return errno == EAGAIN || errno == EINTR;
		loop_timer_stop(&client->timer); /* the client reads: its time restarts */
		client->at_out += (size_t)n;
		if (client->at_out == client->n_out) {
			free(client->out);
			client->out = NULL;
		}
	}
	return true;
}

/* Handles the bytes that were read. Frees the client when its connection ends. */
static void advance(struct client *client)
{
	bool is_there = write_answer(client);

	while (is_there && !client->out && !client->must_close && run_next_line(client))
		is_there = write_answer(client);
	if (!is_there || (client->must_close && !client->out) ||
	    loop_fd_modify(&client->lfd, client->out ? EPOLLOUT : EPOLLIN) < 0) {
		client_free(client);
		return;
	}
	if (!client->out && !client->n_in)
		loop_timer_stop(&client->timer);
	else if (!loop_timer_is_running(&client->timer))
		loop_timer_start(client->server->loop, &client->timer, TIMEOUT_S * NSEC_PER_SEC);
}

static void on_client_event(struct loop_fd *lfd, uint32_t events)
{
	struct client *client = container_of(lfd, struct client, lfd);
	ssize_t n;

	if (client->out) {
		advance(client);
		return;
	}
	n = recv(lfd->fd, client->in + client->n_in, sizeof(client->in) - client->n_in, 0);
	if (n > 0)
		client->n_in += (size_t)n;
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		client->must_close = true; /* complete requests are answered by now */
	advance(client);
}

static bool is_allowed(const struct rpc_server *server, int fd, uid_t *ret_uid)
{
	struct ucred cred = {.uid = (uid_t)-1};
	socklen_t n = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n) < 0)
		return false;
	*ret_uid = cred.uid;
	return cred.uid == 0 || cred.uid == server->owner;
}

/* Refuses a connection with an error. The socket is new, so its buffer has room for the line. */
static void turn_away(int fd, enum exit_code code, const char *message)
{
	struct rpc_answer answer = rpc_answer_error((int)code, message);
	_autofree_ char *line = answer.line;

	if (line && send(fd, line, answer.n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		return; /* the peer sees the connection end instead */
}

static void add_client(struct rpc_server *server, int accepted_fd)
{
	_autoclose_ int fd = accepted_fd;
	uid_t uid = (uid_t)-1;
	struct client *client;

	if (!is_allowed(server, fd, &uid)) {
		if (log_limit_pass(&server->log_limit, 5))
			log_warn("%s: refused user %u", server->addr.sun_path, uid);
		turn_away(fd, EXIT_DENIED, "only root and the owner of the service may call");
		return;
	}
	if (server->n_clients == MAX_CLIENTS) {
		turn_away(fd, EXIT_BUSY, "too many callers, try again later");
		return;
	}
	client = malloc(sizeof(*client));
	if (!client)
		return;
	/* Not in[]: its pages stay untouched until a request comes. */
	memset(client, 0, offsetof(struct client, in));
	client->server = server;
	client->timer.on_expiry = on_timeout;
	client->lfd = (struct loop_fd){.fd = fd, .events = EPOLLIN, .on_event = on_client_event};
	if (loop_fd_add(server->loop, &client->lfd) < 0) {
		free(client);
		return;
	}
	take_fd(&fd);
	list_add_tail(&server->clients, &client->node);
	server->n_clients++;
}

/* Without free descriptors the listener stays readable, and an immediate retry would spin. */
static void pause_accepting(struct rpc_server *server)
{
	loop_fd_modify(&server->listener, 0);
	loop_timer_start(server->loop, &server->retry_accept, 100 * NSEC_PER_MSEC);
}

static void on_retry_accept(struct loop_timer *timer)
{
	struct rpc_server *server = container_of(timer, struct rpc_server, retry_accept);

	if (loop_fd_modify(&server->listener, EPOLLIN) < 0)
		pause_accepting(server);
}

static void on_connection(struct loop_fd *lfd, uint32_t events)
{
	struct rpc_server *server = container_of(lfd, struct rpc_server, listener);

	for (unsigned i = 0; i < ACCEPT_BATCH; i++) {
		int fd = accept4(lfd->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			add_client(server, fd);
		} else {
			if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
				pause_accepting(server);
			return;
		}
	}
}

/*
 * Between bind and listen, a socket file looks stale. So a process that makes one, or removes a
 * stale one, holds a lock on the directory meanwhile. Returns the lock, which the caller closes,
 * or -errno. -EBUSY: another process has held the lock for LOCK_TRIES pauses.
 */
static int lock_directory(const char *path)
{
	_autofree_ char *copy = strdup(path);
	_autoclose_ int fd = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

	if (fd < 0)
		return -errno;
	for (unsigned i = 0; i < LOCK_TRIES; i++) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0)
			return take_fd(&fd);
		if (errno != EWOULDBLOCK && errno != EINTR)
			return -errno;
		clock_sleep_ns(LOCK_PAUSE_MS * NSEC_PER_MSEC);
	}
	return -EBUSY;
}

/* Removes a socket file on which no process listens. 0, or -errno; -EADDRINUSE: it must stay. */
static int remove_stale(const struct sockaddr_un *addr)
{
	_autoclose_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct stat st;

	if (fd < 0)
		return -errno;
	if (lstat(addr->sun_path, &st) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode))
		return -EADDRINUSE;
	if (connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) == 0 || errno != ECONNREFUSED)
		return -EADDRINUSE;
	return unlink(addr->sun_path) < 0 && errno != ENOENT ? -errno : 0;
}

static int open_listener(struct rpc_server *server)
{
	const struct sockaddr *addr = (const struct sockaddr *)&server->addr;
	_autoclose_ int lock = lock_directory(server->addr.sun_path);
	_autoclose_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int r;

	if (fd < 0 || lock < 0)
		return lock < 0 ? lock : -errno;
	/* Before bind, too: the file must never have wider permissions, not even for a moment. */
	if (fchmod(fd, 0660) < 0)
		return -errno;
	if (bind(fd, addr, sizeof(server->addr)) < 0) {
		if (errno != EADDRINUSE)
			return -errno;
		r = remove_stale(&server->addr);
		if (r < 0)
			return r;
		if (bind(fd, addr, sizeof(server->addr)) < 0)
			return -errno;
	}
	if (lstat(server->addr.sun_path, &server->identity) < 0 ||
	    chmod(server->addr.sun_path, 0660) < 0 || listen(fd, BACKLOG) < 0)
		return -errno;
	server->listener.fd = fd;
	r = loop_fd_add(server->loop, &server->listener);
	server->listener.fd = r < 0 ? -1 : take_fd(&fd);
	return r;
}

int rpc_server_new(struct loop *loop, const char *path, const struct rpc_method *methods,
		   void *context, struct rpc_server **ret_server)
{
	struct rpc_server *server;
	int r;

	if (!*path) /* the kernel would choose an abstract address */
		return -EINVAL;
	if (strlen(path) >= sizeof(server->addr.sun_path))
		return -ENAMETOOLONG;
	server = malloc(sizeof(*server));
	if (!server)
		return -ENOMEM;
	*server = (struct rpc_server){
		.loop = loop,
		.methods = methods,
		.context = context,
		.listener = {.fd = -1, .events = EPOLLIN, .on_event = on_connection},
		.owner = geteuid(),
		.retry_accept.on_expiry = on_retry_accept,
		.addr.sun_family = AF_UNIX,
	};
	list_init(&server->clients);
	strcpy(server->addr.sun_path, path);
	r = open_listener(server);
	if (r < 0) {
		rpc_server_free(server);
		return r;
	}
	*ret_server = server;
	return 0;
}

static void remove_own_file(const struct rpc_server *server)
{
	struct stat st;

	if (lstat(server->addr.sun_path, &st) == 0 && server->identity.st_ino == st.st_ino &&
	    server->identity.st_dev == st.st_dev)
		unlink(server->addr.sun_path);
}

void rpc_server_free(struct rpc_server *server)
{
	if (!server)
		return;
	list_for_each_safe (node, &server->clients)
		client_free(list_entry(node, struct client, node));
	loop_timer_stop(&server->retry_accept);
	loop_fd_remove(&server->listener);
	if (server->identity.st_ino)
		remove_own_file(server);
	if (server->listener.fd >= 0)
		close(server->listener.fd);
	free(server);
}
