/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/rpc.h"
#include "base/rpc_client.h"

enum {
	MAX_ANSWER = 16 * 1024 * 1024,
	MAX_DEPTH = 32,
	RETRY_MS = 10,
};

/* Milliseconds until the deadline, in the form of poll(2). */
static int remaining_ms(uint64_t deadline_ns)
{
	uint64_t now = clock_ns();

	if (deadline_ns == UINT64_MAX)
		return -1;
	if (now >= deadline_ns)
		return 0;
	return (int)MIN((deadline_ns - now + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC, INT32_MAX);
}

static int wait_for(int fd, short events, uint64_t deadline_ns)
{
	struct pollfd pfd = {.fd = fd, .events = events};
	int r;

	do
		r = poll(&pfd, 1, remaining_ms(deadline_ns));
	while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : r == 0 ? -ETIMEDOUT : 0;
}

static int connect_to(const char *path, uint64_t deadline_ns, int *ret_fd)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	_autoclose_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	if (strlen(path) >= sizeof(addr.sun_path))
		return -ENAMETOOLONG;
	strcpy(addr.sun_path, path);
	while (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
		/* With a full backlog, a unix socket returns EAGAIN and poll cannot wait for it. */
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
		if (remaining_ms(deadline_ns) == 0)
			return -ETIMEDOUT;
		poll(NULL, 0, RETRY_MS);
	}
	*ret_fd = take_fd(&fd);
	return 0;
}

static int send_all(int fd, const char *data, size_t n, uint64_t deadline_ns)
{
	while (n) {
		ssize_t n_sent = send(fd, data, n, MSG_NOSIGNAL);
		int r;

		if (n_sent >= 0) {
			data += n_sent;
			n -= (size_t)n_sent;
			continue;
		}
		if (errno == EPIPE)
			return 0; /* refused by the server: its answer has the reason */
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
		r = wait_for(fd, POLLOUT, deadline_ns);
		if (r < 0)
			return r;
	}
	return 0;
}

static int send_request(int fd, const char *method, struct json_object *params,
			uint64_t deadline_ns)
{
	struct json_object *request = json_object_new_object();
	_autofree_ char *line = NULL;
	const char *text;
	size_t n;

	json_add(request, "jsonrpc", json_object_new_string("2.0"));
	json_add(request, "id", json_object_new_int(1));
	json_add(request, "method", json_object_new_string(method));
	if (params)
		json_add(request, "params", json_object_get(params));
	if (!json_is_whole()) {
		json_object_put(request);
		return -ENOMEM;
	}
	text = json_object_to_json_string_length(request, JSON_C_TO_STRING_PLAIN, &n);
	line = text ? malloc(n + 1) : NULL;
	if (line) {
		memcpy(line, text, n);
		line[n] = '\n';
	}
	json_object_put(request);
	return line ? send_all(fd, line, n + 1, deadline_ns) : -ENOMEM;
}

/* Bytes read, 0 at the end of the stream, or -errno. */
static ssize_t receive_some(int fd, char *buf, size_t n, uint64_t deadline_ns)
{
	for (;;) {
		ssize_t n_read = recv(fd, buf, n, 0);
		int r;

		if (n_read >= 0)
			return n_read;
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
		r = wait_for(fd, POLLIN, deadline_ns);
		if (r < 0)
			return r;
	}
}

/* One line, terminated without its newline, owned by the caller. */
static int receive_line(int fd, uint64_t deadline_ns, char **ret_line)
{
	_autofree_ char *buf = NULL;
	size_t size = 0, n = 0;

	for (;;) {
		ssize_t n_read;
		char *newline;

		if (n == size) {
			char *grown = size < MAX_ANSWER ? realloc(buf, size + size / 2 + 4096)
							: NULL;

			if (!grown)
				return size < MAX_ANSWER ? -ENOMEM : -EPROTO;
			buf = grown;
			size += size / 2 + 4096;
		}
		n_read = receive_some(fd, buf + n, size - n, deadline_ns);
		if (n_read <= 0)
			return n_read ? (int)n_read : -ECONNRESET;
		newline = memchr(buf + n, '\n', (size_t)n_read);
		n += (size_t)n_read;
		if (newline) {
			*newline = '\0';
			*ret_line = take_ptr(buf);
			return 0;
		}
	}
}

static const char *string_member(struct json_object *object, const char *key)
{
	struct json_object *value;

	if (!json_object_is_type(object, json_type_object) ||
	    !json_object_object_get_ex(object, key, &value) ||
	    !json_object_is_type(value, json_type_string))
		return "";
	return json_object_get_string(value);
}

static void read_error(struct json_object *json, struct error *error)
{
	struct json_object *code = NULL, *data = NULL;
	int value;

	json_object_object_get_ex(json, "code", &code);
	json_object_object_get_ex(json, "data", &data);
	value = json_object_get_int(code);
	*error = (struct error){.code = EXIT_FAILED};
	if (value >= EXIT_FAILED && value <= EXIT_PRIVILEGE)
		error->code = (enum exit_code)value;
	snprintf(error->message, sizeof(error->message), "%s", string_member(json, "message"));
	snprintf(error->hint, sizeof(error->hint), "%s", string_member(data, "hint"));
}

static int read_answer(struct json_object *answer, struct json_object **ret_result,
		       struct error *error)
{
	struct json_object *value;

	if (!json_object_is_type(answer, json_type_object))
		return -EPROTO;
	if (json_object_object_get_ex(answer, "error", &value) &&
	    json_object_is_type(value, json_type_object)) {
		read_error(value, error);
		return -EREMOTEIO;
	}
	if (!json_object_object_get_ex(answer, "result", &value))
		return -EPROTO;
	*ret_result = json_object_get(value);
	return 0;
}

static int parse_answer(const char *line, struct json_object **ret_result, struct error *error)
{
	struct json_tokener *tokener = json_tokener_new_ex(MAX_DEPTH);
	struct json_object *answer;
	int r = -EPROTO;

	if (!tokener)
		return -ENOMEM;
	answer = json_tokener_parse_ex(tokener, line, (int)strlen(line) + 1);
	if (json_tokener_get_error(tokener) == json_tokener_success)
		r = read_answer(answer, ret_result, error);
	json_object_put(answer);
	json_tokener_free(tokener);
	return r;
}

int rpc_call(const char *path, const char *method, struct json_object *params, int timeout_ms,
	     struct json_object **ret_result, struct error *error)
{
	uint64_t deadline_ns = timeout_ms < 0 ? UINT64_MAX
					      : clock_ns() + (uint64_t)timeout_ms * NSEC_PER_MSEC;
	_autofree_ char *line = NULL;
	_autoclose_ int fd = -1;
	int r = connect_to(path, deadline_ns, &fd);

	if (r < 0)
		return r;
	r = send_request(fd, method, params, deadline_ns);
	if (r < 0)
		return r;
	r = receive_line(fd, deadline_ns, &line);
	if (r < 0)
		return r;
	return parse_answer(line, ret_result, error);
}
