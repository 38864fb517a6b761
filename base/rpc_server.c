/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control socket's server; see rpc.h. Everything runs on the loop it was created
 * with.
 *
 * A client takes turns between reading and writing: while an answer is on its way out,
 * nothing more is read, so a client that does not take its answers holds one of them and
 * 64 KiB of requests, no more. Its timer runs while a message is incomplete or an answer
 * waits, and ends it.
 *
 * What is not JSON ends the connection after an answer that says so; a proper message
 * with a mistake in it is answered, and the connection goes on.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdarg.h>
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
#include "base/json.h"
#include "base/rpc.h"

enum {
	MAX_CLIENTS = 64,
	MAX_MESSAGE = 64 * 1024,
	MAX_DEPTH = 16,
	BACKLOG = 64,
	TIMEOUT_S = 5,
	ACCEPT_BATCH = 16, /* per turn, so that connecting in a loop starves nobody */
	LOCK_TRIES = 500,
	LOCK_PAUSE_MS = 10,
};

/* Reserved by JSON-RPC 2.0, section 5.1. */
enum {
	RPC_NOT_JSON = -32700,
	RPC_NOT_A_REQUEST = -32600,
	RPC_NO_SUCH_METHOD = -32601,
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
	struct stat identity; /* of the socket file, to remove no one else's */
};

struct client {
	struct rpc_server *server; /* borrowed: frees its clients before itself */
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

/* Answers */

static struct json_object *error_to_json(int code, const char *message, const char *hint)
{
	struct json_object *error = json_object_new_object();

	json_add(error, "code", json_object_new_int(code));
	json_add(error, "message", json_object_new_string(message));
	if (hint && *hint) {
		struct json_object *data = json_object_new_object();

		json_add(data, "hint", json_object_new_string(hint));
		json_add(error, "data", data);
	}
	return error;
}

/* One line, owned by the caller. Takes over value; id is borrowed. NULL without memory.
 */
static char *format_answer(struct json_object *id, const char *key,
			   struct json_object *value, size_t *ret_n)
{
	struct json_object *answer = json_object_new_object();
	const char *text;
	char *line;
	size_t n;

	json_add(answer, "jsonrpc", json_object_new_string("2.0"));
	if (id)
		json_add(answer, "id", json_object_get(id));
	else
		json_add_null(answer, "id");
	json_add(answer, key, value);
	text = json_is_whole() ? json_object_to_json_string_length(
					 answer, JSON_C_TO_STRING_PLAIN, &n)
			       : NULL;
	line = text ? malloc(n + 1) : NULL;
	if (line) {
		memcpy(line, text, n);
		line[n] = '\n';
		*ret_n = n + 1;
	}
	json_object_put(answer);
	return line;
}

static void answer_with(struct client *client, struct json_object *id, const char *key,
			struct json_object *value)
{
	check(!client->out);
	client->at_out = 0;
	client->out = format_answer(id, key, value, &client->n_out);
	if (!client->out)
		client->must_close = true;
}

static void answer_error(struct client *client, struct json_object *id, int code,
			 const char *message)
{
	answer_with(client, id, "error", error_to_json(code, message, NULL));
}

/* Requests */

static const struct rpc_method *find_method(const struct rpc_server *server,
					    const char *name)
{
	for (const struct rpc_method *method = server->methods; method->name; method++)
		if (!strcmp(method->name, name))
			return method;
	return NULL;
}

static void call_method(struct client *client, const struct rpc_method *method,
			struct json_object *params, struct json_object *id,
			bool wants_answer)
{
	struct rpc_error error = {0};
	struct json_object *result;

	json_is_whole(); /* of what was made before, nobody wants to know */
	result = method->call(client->server->context, params, &error);
	if (!json_is_whole()) { /* what was asked for may have been done */
		json_object_put(result);
		result = NULL;
		error = (struct rpc_error){.code = EXIT_FAILED,
					   .message = "out of memory for the answer"};
	}
	if (!wants_answer)
		json_object_put(result);
	else if (result)
		answer_with(client, id, "result", result);
	else
		answer_with(client, id, "error",
			    error_to_json(error.code ? (int)error.code : EXIT_FAILED,
					  error.message, error.hint));
}

/* What is wrong with the members of a request, NULL if nothing is. */
static const char *find_fault(struct json_object *version, struct json_object *method,
			      struct json_object *params, struct json_object *id)
{
	if (!json_object_is_type(version, json_type_string) ||
	    strcmp(json_object_get_string(version), "2.0"))
		return "\"jsonrpc\" must be \"2.0\"";
	if (!json_object_is_type(method, json_type_string))
		return "\"method\" must be a string";
	if (params && !json_object_is_type(params, json_type_object) &&
	    !json_object_is_type(params, json_type_array))
		return "\"params\" must be an object or an array";
	if (json_object_is_type(id, json_type_object) ||
	    json_object_is_type(id, json_type_array) ||
	    json_object_is_type(id, json_type_boolean))
		return "\"id\" must be a string or a number";
	return NULL;
}

static void run_request(struct client *client, struct json_object *request)
{
	struct json_object *version = NULL, *name = NULL, *params = NULL, *id = NULL;
	const struct rpc_method *method;
	const char *fault;
	bool has_id;

	if (!json_object_is_type(request, json_type_object)) {
		answer_error(client, NULL, RPC_NOT_A_REQUEST,
			     "a request must be an object; batches are not supported");
		return;
	}
	json_object_object_get_ex(request, "jsonrpc", &version);
	json_object_object_get_ex(request, "method", &name);
	json_object_object_get_ex(request, "params", &params);
	has_id = json_object_object_get_ex(request, "id", &id);
	fault = find_fault(version, name, params, id);
	if (fault) {
		answer_error(client, NULL, RPC_NOT_A_REQUEST, fault);
		return;
	}
	method = find_method(client->server, json_object_get_string(name));
	if (method) {
		call_method(client, method, params, id, has_id);
	} else if (has_id) {
		char quoted[64], message[128];

		log_quote(quoted, sizeof(quoted), json_object_get_string(name),
			  (unsigned)json_object_get_string_len(name));
		snprintf(message, sizeof(message), "unknown method '%s'", quoted);
		answer_error(client, id, RPC_NO_SUCH_METHOD, message);
	}
}

/* NULL if it is no JSON, or has anything behind it. */
static struct json_object *parse_line(const char *line, size_t n)
{
	struct json_tokener *tokener = json_tokener_new_ex(MAX_DEPTH);
	struct json_object *value;

	if (!tokener)
		return NULL;
	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	value = json_tokener_parse_ex(tokener, line, (int)n);
	if (json_tokener_get_error(tokener) != json_tokener_success ||
	    json_tokener_get_parse_end(tokener) != n) {
		json_object_put(value);
		value = NULL;
	}
	json_tokener_free(tokener);
	return value;
}

static void run_line(struct client *client, const char *line, size_t n)
{
	struct json_object *request;

	while (n && strchr(" \t\r", line[n - 1]) && line[n - 1])
		n--;
	if (!n)
		return;
	request = parse_line(line, n);
	if (request) {
		run_request(client, request);
		json_object_put(request);
	} else {
		answer_error(client, NULL, RPC_NOT_JSON,
			     "not a JSON object on one line, at most 16 levels deep");
		client->must_close = true;
	}
}

/* Runs the first complete line in the buffer; false if there is none. */
static bool run_next_line(struct client *client)
{
	char *newline = memchr(client->in, '\n', client->n_in);
	size_t n_used;

	if (!newline) {
		if (client->n_in < sizeof(client->in))
			return false;
		answer_error(client, NULL, RPC_NOT_JSON,
			     "a message is longer than 64 KiB");
		client->must_close = true;
		return true;
	}
	run_line(client, client->in, (size_t)(newline - client->in));
	n_used = (size_t)(newline - client->in) + 1;
	client->n_in -= n_used;
	memmove(client->in, newline + 1, client->n_in);
	/* The time of the next message starts now, that of this one was used by us. */
	loop_timer_stop(&client->timer);
	return true;
}

/* Connections */

/* False when the peer is gone. */
static bool write_answer(struct client *client)
{
	while (client->out) {
		ssize_t n = send(client->lfd.fd, client->out + client->at_out,
				 client->n_out - client->at_out, MSG_NOSIGNAL);

		if (n < 0)
			return errno == EAGAIN || errno == EINTR;
		loop_timer_stop(
			&client->timer); /* it takes something: its time restarts */
		client->at_out += (size_t)n;
		if (client->at_out == client->n_out) {
			free(client->out);
			client->out = NULL;
		}
	}
	return true;
}

/* Does all that can be done with what was read; frees the client when that was the end of
 * it. */
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
		loop_timer_start(client->server->loop, &client->timer,
				 TIMEOUT_S * NSEC_PER_SEC);
}

static void on_client_event(struct loop_fd *lfd, uint32_t events)
{
	struct client *client = container_of(lfd, struct client, lfd);
	ssize_t n;

	if (client->out) {
		advance(client);
		return;
	}
	n = recv(lfd->fd, client->in + client->n_in, sizeof(client->in) - client->n_in,
		 0);
	if (n > 0)
		client->n_in += (size_t)n;
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		client->must_close = true; /* complete requests were answered already */
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

/* To one that does not become a client. Its socket is new, so this line fits. */
static void turn_away(int fd, enum exit_code code, const char *message)
{
	size_t n;
	_autofree_ char *line = format_answer(
		NULL, "error", error_to_json((int)code, message, NULL), &n);

	if (line && send(fd, line, n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		return; /* it will see the connection end instead */
}

static void add_client(struct rpc_server *server, int accepted_fd)
{
	_autoclose_ int fd = accepted_fd;
	uid_t uid = (uid_t)-1;
	struct client *client;

	if (!is_allowed(server, fd, &uid)) {
		if (log_limit_pass(&server->log_limit, 5))
			log_warn("%s: refused user %u", server->addr.sun_path, uid);
		turn_away(fd, EXIT_DENIED,
			  "only root and the owner of the service may call");
		return;
	}
	if (server->n_clients == MAX_CLIENTS) {
		turn_away(fd, EXIT_BUSY, "too many callers, try again later");
		return;
	}
	client = malloc(sizeof(*client));
	if (!client)
		return;
	/* Not in[]: its pages should not be touched before they are needed. */
	memset(client, 0, offsetof(struct client, in));
	client->server = server;
	client->timer.on_expiry = on_timeout;
	client->lfd = (struct loop_fd){
		.fd = fd, .events = EPOLLIN, .on_event = on_client_event};
	if (loop_fd_add(server->loop, &client->lfd) < 0) {
		free(client);
		return;
	}
	take_fd(&fd);
	list_add_tail(&server->clients, &client->node);
	server->n_clients++;
}

/* Without free descriptors the listener stays readable; looking again at once would spin.
 */
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
 * Between bind and listen a socket looks like one that its owner left behind. So whoever makes
 * one, or removes one as stale, holds a lock on the directory meanwhile. Returns the lock, to
 * be closed, or -errno; -EBUSY: somebody keeps it for longer than this takes.
 */
static int lock_directory(const char *path)
{
	_autofree_ char *copy = strdup(path);
	_autoclose_ int fd = copy ? open(dirname(copy),
					 O_RDONLY | O_DIRECTORY | O_CLOEXEC)
				  : -1;

	if (fd < 0)
		return -errno;
	for (unsigned i = 0; i < LOCK_TRIES; i++) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0)
			return take_fd(&fd);
		if (errno != EWOULDBLOCK && errno != EINTR)
			return -errno;
		usleep(LOCK_PAUSE_MS * 1000);
	}
	return -EBUSY;
}

/* Removes a socket file that nobody listens on; 0, or why it may not be removed. */
static int remove_stale(const struct sockaddr_un *addr)
{
	_autoclose_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
				    0);
	struct stat st;

	if (fd < 0)
		return -errno;
	if (lstat(addr->sun_path, &st) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode))
		return -EADDRINUSE;
	if (connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) == 0 ||
	    errno != ECONNREFUSED)
		return -EADDRINUSE;
	return unlink(addr->sun_path) < 0 && errno != ENOENT ? -errno : 0;
}

static int open_listener(struct rpc_server *server)
{
	const struct sockaddr *addr = (const struct sockaddr *)&server->addr;
	_autoclose_ int lock = lock_directory(server->addr.sun_path);
	_autoclose_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
				    0);
	int r;

	if (fd < 0 || lock < 0)
		return lock < 0 ? lock : -errno;
	/* Before bind as well: the file must not be there with wider permissions for a
	 * moment. */
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

	if (!*path) /* would become an address that only the kernel knows */
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

	if (lstat(server->addr.sun_path, &st) == 0 &&
	    server->identity.st_ino == st.st_ino && server->identity.st_dev == st.st_dev)
		unlink(server->addr.sun_path);
}

void *rpc_refuse(struct rpc_error *error, enum exit_code code, const char *hint,
		 const char *fmt, ...)
{
	va_list args;

	error->code = code;
	snprintf(error->hint, sizeof(error->hint), "%s", hint);
	va_start(args, fmt);
	vsnprintf(error->message, sizeof(error->message), fmt, args);
	va_end(args);
	return NULL;
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
