/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control socket's server, with any bytes from a client that has the permission to call: the
 * whole input at once, or repeated until it is too long, then the end of the stream. The method
 * echoes its parameters, so that they pass the writer as well.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/check.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/rpc.h"
#include "base/rpc_request.h"
#include "base/rpc_server.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum {
	IS_LONG = 1, /* first byte */
};

static struct {
	struct loop loop;
	struct rpc_server *server;
	struct sockaddr_un addr;
	char directory[32];
} env = {.addr.sun_family = AF_UNIX, .directory = "/tmp/fuzz_rpc.XXXXXX"};

static struct json_object *call_echo(void *context, struct json_object *params, struct error *error)
{
	return params ? json_object_get(params) : json_object_new_object();
}

static struct json_object *call_fail(void *context, struct json_object *params, struct error *error)
{
	return rpc_refuse(error, EXIT_NOT_FOUND, "x", "no %s", "such thing");
}

static const struct rpc_method methods[] = {
	{"echo", call_echo},
	{"fail", call_fail},
	{0},
};

static void stop(void)
{
	rpc_server_free(env.server);
	loop_deinit(&env.loop);
	rmdir(env.directory);
}

static void start(void)
{
	check(mkdtemp(env.directory));
	snprintf(env.addr.sun_path, sizeof(env.addr.sun_path), "%s/s", env.directory);
	check(loop_init(&env.loop, 0, NULL) == 0);
	check(rpc_server_new(&env.loop, env.addr.sun_path, methods, NULL, &env.server) == 0);
	atexit(stop);
}

/* Reads the answers so far. False at the end of the stream, which must follow a whole line. */
static bool take_answers(int fd, char *last)
{
	char answers[4096];
	ssize_t n;

	while ((n = recv(fd, answers, sizeof(answers), MSG_DONTWAIT)) > 0)
		*last = answers[n - 1];
	check(n != 0 || *last == '\n');
	return n != 0;
}

/* One byte more than the longest message that the server accepts. */
static void send_long(int fd, const uint8_t *data, size_t n)
{
	static uint8_t bytes[(64 << 10) + 1];
	size_t at = 0;

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = data[i % n];
	while (at < sizeof(bytes)) {
		ssize_t r = send(fd, bytes + at, sizeof(bytes) - at, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (r < 0)
			return;
		at += (size_t)r;
		loop_turn(&env.loop, 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	_autoclose_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char last = '\n';

	if (!env.server)
		start();
	check(fd >= 0);
	check(connect(fd, (const struct sockaddr *)&env.addr, sizeof(env.addr)) == 0);
	if (n > 1 && data[0] == IS_LONG)
		send_long(fd, data + 1, n - 1);
	else if (n && send(fd, data, n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		return 0;
	shutdown(fd, SHUT_WR);
	while (take_answers(fd, &last))
		loop_turn(&env.loop, NSEC_PER_MSEC);
	return 0;
}
