/* SPDX-License-Identifier: BSD-3-Clause */
/* The control socket: rpc_call against a server on another thread, and hostile clients on raw
 * sockets. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/rpc.h"
#include "base/rpc_client.h"
#include "base/rpc_server.h"

enum {
	BIG = 4 * 1024 * 1024,
	PATIENCE_MS = 60000 /* generous, for a busy machine */
};

static struct {
	struct loop loop;
	struct rpc_server *server;
	pthread_t thread;
	char dir[64], path[96];
	_Atomic unsigned n_calls;
} env;

/* Methods */

static struct json_object *call_echo(void *context, struct json_object *params, struct error *error)
{
	env.n_calls++;
	return params ? json_object_get(params) : json_object_new_string(context);
}

static struct json_object *call_fail(void *context, struct json_object *params, struct error *error)
{
	*error = (struct error){
		.code = EXIT_NOT_FOUND, .message = "no \"such\" thing\n", .hint = "look elsewhere"};
	return NULL;
}

static struct json_object *call_silent(void *context, struct json_object *params,
				       struct error *error)
{
	return NULL;
}

static struct json_object *call_big(void *context, struct json_object *params, struct error *error)
{
	_autofree_ char *text = malloc(BIG);

	memset(text, 'x', BIG);
	return json_object_new_string_len(text, BIG);
}

static const struct rpc_method methods[] = {
	{"echo", call_echo}, {"fail", call_fail}, {"silent", call_silent},
	{"big", call_big},   {NULL, NULL},
};

static void *run_loop(void *arg)
{
	loop_run(&env.loop);
	return NULL;
}

static int start(void **state)
{
	strcpy(env.dir, "/tmp/test_rpc.XXXXXX");
	assert_non_null(mkdtemp(env.dir));
	snprintf(env.path, sizeof(env.path), "%s/socket", env.dir);
	env.n_calls = 0;
	assert_int_equal(loop_init(&env.loop, 0, NULL), 0);
	assert_int_equal(rpc_server_new(&env.loop, env.path, methods, (void *)env.dir, &env.server),
			 0);
	assert_int_equal(pthread_create(&env.thread, NULL, run_loop, NULL), 0);
	return 0;
}

static int stop(void **state)
{
	loop_stop(&env.loop);
	pthread_join(env.thread, NULL);
	rpc_server_free(env.server);
	loop_deinit(&env.loop);
	assert_int_equal(access(env.path, F_OK), -1);
	return rmdir(env.dir);
}

/* A client by hand */

static int dial(void)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strcpy(addr.sun_path, env.path);
	assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	return fd;
}

static void say_n(int fd, const char *text, size_t n)
{
	assert_int_equal(send(fd, text, n, MSG_NOSIGNAL), n);
}

static void say(int fd, const char *text)
{
	say_n(fd, text, strlen(text));
}

/* Reads one line; "" at the end of the stream. */
static void hear(int fd, char *line, size_t size)
{
	size_t n = 0;

	while (n < size - 1 && recv(fd, line + n, 1, 0) == 1 && line[n] != '\n')
		n++;
	line[n] = '\0';
}

static void expect(int fd, const char *wanted)
{
	char line[1024];

	hear(fd, line, sizeof(line));
	assert_string_equal(line, wanted);
}

static void expect_error(int fd, const char *code)
{
	char line[1024];

	hear(fd, line, sizeof(line));
	if (!strstr(line, code))
		fail_msg("no %s in: %s", code, line);
}

static void test_call(void **state)
{
	struct json_object *params = json_tokener_parse("{\"a\":[1,2,{\"b\":\"\\u00e9\\n\"}]}");
	struct json_object *result = NULL;
	struct error error;

	assert_int_equal(rpc_call(env.path, "echo", params, PATIENCE_MS, &result, &error), 0);
	assert_true(json_object_equal(params, result));
	json_object_put(result);
	json_object_put(params);
	assert_int_equal(rpc_call(env.path, "echo", NULL, -1, &result, &error), 0);
	assert_string_equal(json_object_get_string(result), env.dir);
	json_object_put(result);
}

static void test_call_fails(void **state)
{
	struct json_object *result = NULL;
	struct error error = {0};

	assert_int_equal(rpc_call(env.path, "fail", NULL, PATIENCE_MS, &result, &error),
			 -EREMOTEIO);
	assert_int_equal(error.code, EXIT_NOT_FOUND);
	assert_string_equal(error.message, "no \"such\" thing\n");
	assert_string_equal(error.hint, "look elsewhere");
	assert_int_equal(rpc_call(env.path, "silent", NULL, PATIENCE_MS, &result, &error),
			 -EREMOTEIO);
	assert_int_equal(error.code, EXIT_FAILED);
	assert_int_equal(rpc_call(env.path, "nothing", NULL, PATIENCE_MS, &result, &error),
			 -EREMOTEIO);
	assert_string_equal(error.message, "unknown method 'nothing'");
	assert_null(result);
}

static void test_big_answer(void **state)
{
	struct json_object *result = NULL;
	struct error error;

	assert_int_equal(rpc_call(env.path, "big", NULL, PATIENCE_MS, &result, &error), 0);
	assert_int_equal(json_object_get_string_len(result), BIG);
	json_object_put(result);
}

static void test_nobody_listens(void **state)
{
	char path[sizeof(env.path) + 8];
	struct json_object *result;
	struct error error;

	snprintf(path, sizeof(path), "%s.not", env.path);
	assert_int_equal(rpc_call(path, "echo", NULL, PATIENCE_MS, &result, &error), -ENOENT);
	assert_int_equal(rpc_call("", "echo", NULL, PATIENCE_MS, &result, &error), -ECONNREFUSED);
}

static int listen_at(const char *path)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strcpy(addr.sun_path, path);
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(listen(fd, 0), 0);
	return fd;
}

static void test_server_is_silent(void **state)
{
	char path[sizeof(env.path) + 8];
	struct json_object *result = NULL;
	struct error error;
	int fd;

	snprintf(path, sizeof(path), "%s.bad", env.path);
	fd = listen_at(path);
	/* More connections than the backlog holds: connecting times out as well. */
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(rpc_call(path, "echo", NULL, 30, &result, &error), -ETIMEDOUT);
	close(fd);
	unlink(path);
}

static const char *const nonsense[] = {
	"", "{", "[]\n", "{\"a\":1}\n", "\xff\xff\n", "{\"error\":5}\n", "\n", "{} {}\n",
};

static void *talk_nonsense(void *arg)
{
	int *listener = arg;

	for (unsigned i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++) {
		_autoclose_ int fd = accept(*listener, NULL, NULL);
		char c;

		/* Only after the request was read: closing a socket with unread input would be
		 * another error. */
		while (recv(fd, &c, 1, 0) == 1 && c != '\n')
			;
		send(fd, nonsense[i], strlen(nonsense[i]), MSG_NOSIGNAL);
	}
	return NULL;
}

static void test_server_talks_nonsense(void **state)
{
	char path[sizeof(env.path) + 8];
	struct json_object *result = NULL;
	struct error error;
	pthread_t thread;
	int fd;

	snprintf(path, sizeof(path), "%s.bad", env.path);
	fd = listen_at(path);
	pthread_create(&thread, NULL, talk_nonsense, &fd);
	for (unsigned i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++) {
		int r = rpc_call(path, "echo", NULL, PATIENCE_MS, &result, &error);

		assert_int_equal(r, strchr(nonsense[i], '\n') ? -EPROTO : -ECONNRESET);
	}
	pthread_join(thread, NULL);
	close(fd);
	unlink(path);
	assert_null(result);
}

#define ECHO_1	      "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\",\"params\":[1]}"
#define ECHO_1_ANSWER "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[1]}"

static void test_pieces_and_pipelines(void **state)
{
	static const char two[] = ECHO_1 " \r\n\n" ECHO_1 "\n";
	int fd = dial();

	for (unsigned i = 0; i < sizeof(two) - 1; i++)
		say_n(fd, &two[i], 1);
	expect(fd, ECHO_1_ANSWER);
	expect(fd, ECHO_1_ANSWER);
	say(fd, ECHO_1 "\n" ECHO_1 "\n" ECHO_1);
	shutdown(fd, SHUT_WR); /* the last one is incomplete */
	expect(fd, ECHO_1_ANSWER);
	expect(fd, ECHO_1_ANSWER);
	expect(fd, "");
	close(fd);
}

static void test_notification(void **state)
{
	int fd = dial();

	say(fd, "{\"jsonrpc\":\"2.0\",\"method\":\"echo\"}\n"
		"{\"jsonrpc\":\"2.0\",\"method\":\"fail\"}\n"
		"{\"jsonrpc\":\"2.0\",\"method\":\"nothing\"}\n" ECHO_1 "\n");
	expect(fd, ECHO_1_ANSWER);
	assert_int_equal(env.n_calls, 2);
	close(fd);
}

/* An error in a well-formed message leaves the connection open. */
static void test_wrong_members(void **state)
{
	static const char *const wrong[] = {
		"[]",
		"[" ECHO_1 "]",
		"\"echo\"",
		"{}",
		"{\"method\":\"echo\",\"id\":1}",
		"{\"jsonrpc\":2.0,\"method\":\"echo\",\"id\":1}",
		"{\"jsonrpc\":\"2.0\",\"method\":5,\"id\":1}",
		"{\"jsonrpc\":\"2.0\",\"method\":\"echo\",\"id\":{}}",
		"{\"jsonrpc\":\"2.0\",\"method\":\"echo\",\"id\":true}",
		"{\"jsonrpc\":\"2.0\",\"method\":\"echo\",\"id\":1,\"params\":5}",
	};
	int fd = dial();

	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		say(fd, wrong[i]);
		say(fd, "\n");
		expect_error(fd, "-32600");
	}
	say(fd, "{\"jsonrpc\":\"2.0\",\"method\":\"\\u0000x\\\"\",\"id\":\"a\"}\n");
	expect_error(fd, "-32601");
	say(fd, "{\"jsonrpc\":\"2.0\",\"method\":\"echo\",\"id\":null,\"params\":[]}\n");
	expect(fd, "{\"jsonrpc\":\"2.0\",\"id\":null,\"result\":[]}");
	assert_int_equal(env.n_calls, 1);
	close(fd);
}

/* A message that is not JSON ends the connection. */
static void test_garbage(void **state)
{
	static const char *const garbage[] = {
		"x",
		"{",
		"{\"a\":1}}",
		"{\"a\":1} {}",
		"5",
		"{\"a\":\"\xff\"}",
		"null",
		"\x01\x02\xff",
		"GET / HTTP/1.0\r",
		"{\"a\":1,}",
		"[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]",
	};

	for (unsigned i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++) {
		int fd = dial();

		say(fd, garbage[i]);
		say(fd, "\n");
		expect_error(fd, "-32700");
		expect(fd, "");
		close(fd);
	}
}

static void test_nul_bytes(void **state)
{
	static const char with_nul[] = ECHO_1 "\0" ECHO_1 "\n";
	int fd = dial();

	say_n(fd, with_nul, sizeof(with_nul) - 1);
	expect_error(fd, "-32700");
	expect(fd, "");
	close(fd);
	assert_int_equal(env.n_calls, 0);
}

static void test_depth(void **state)
{
	char text[200] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\",\"params\":";
	size_t n = strlen(text);
	int fd = dial();

	/* The request itself is the first of 16 levels. */
	sprintf(text + n, "[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]}\n");
	say(fd, text);
	expect(fd, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]}");
	sprintf(text + n, "[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]}\n");
	say(fd, text);
	expect_error(fd, "-32700");
	close(fd);
}

static void test_longest_message(void **state)
{
	enum {
		MAX = 64 * 1024
	};
	_autofree_ char *text = malloc(MAX + 1);
	int fd = dial();

	memset(text, ' ', MAX + 1);
	memcpy(text, ECHO_1, sizeof(ECHO_1) - 1);
	text[MAX - 1] = '\n';
	say_n(fd, text, MAX);
	expect(fd, ECHO_1_ANSWER);
	text[MAX - 1] = ' ';
	text[MAX] = '\n';
	say_n(fd, text, MAX + 1);
	expect_error(fd, "64 KiB");
	close(fd);
}

/* Does not read its answers, and disconnects with most of them unread. */
static void test_disconnect_within_answer(void **state)
{
	char line[100];

	for (unsigned i = 0; i < 5; i++) {
		int fd = dial();

		for (unsigned j = 0; j < 20; j++)
			say(fd, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"big\"}\n");
		assert_int_equal(recv(fd, line, sizeof(line), MSG_WAITALL), sizeof(line));
		close(fd);
	}
	test_call(state);
}

static void test_too_many_clients(void **state)
{
	enum {
		MAX = 64
	};
	int fds[MAX], fd;

	for (unsigned i = 0; i < MAX; i++) {
		fds[i] = dial();
		say(fds[i], ECHO_1 "\n");
		expect(fds[i], ECHO_1_ANSWER);
	}
	fd = dial();
	expect_error(fd, "too many callers");
	expect(fd, "");
	close(fd);
	say(fds[0], ECHO_1 "\n");
	expect(fds[0], ECHO_1_ANSWER);
	for (unsigned i = 0; i < MAX; i++)
		close(fds[i]);
	/* A place is free as soon as the server has processed the end of one stream. */
	for (bool is_served = false; !is_served;) {
		struct json_object *result = NULL;
		struct error error;

		is_served = rpc_call(env.path, "echo", NULL, PATIENCE_MS, &result, &error) == 0;
		json_object_put(result);
	}
}

/* A message that is never finished, and an answer that is never read, end the connection after 5
 * s. */
static void test_slow_clients(void **state)
{
	uint64_t start_ns = clock_ns();
	int unfinished = dial(), untaken = dial(), idle = dial();
	struct pollfd hangup = {.fd = untaken}; /* poll always reports POLLHUP */
	char line[100];

	say(unfinished, "{\"jsonrpc\":");
	say(untaken, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"big\"}\n");
	expect(unfinished, "");
	assert_in_range(clock_ns() - start_ns, 4900 * NSEC_PER_MSEC, PATIENCE_MS * NSEC_PER_MSEC);
	/* Reading one byte before the server hangs up would restart its timer. */
	assert_int_equal(poll(&hangup, 1, PATIENCE_MS), 1);
	while (recv(untaken, line, sizeof(line), 0) > 0)
		;
	assert_true(line[0] == 'x');
	say(idle, ECHO_1 "\n");
	expect(idle, ECHO_1_ANSWER);
	close(unfinished);
	close(untaken);
	close(idle);
}

static void test_socket_file(void **state)
{
	struct rpc_server *other = NULL;
	struct loop loop; /* env's loop runs on its thread */
	char path[sizeof(env.path) + 8], too_long[200];
	struct stat st;
	int fd;

	assert_int_equal(loop_init(&loop, 0, NULL), 0);
	assert_int_equal(stat(env.path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0660);
	assert_int_equal(rpc_server_new(&loop, env.path, methods, NULL, &other), -EADDRINUSE);

	snprintf(path, sizeof(path), "%s.two", env.path);
	fd = open(path, O_CREAT | O_WRONLY, 0600);
	close(fd);
	assert_int_equal(rpc_server_new(&loop, path, methods, NULL, &other), -EADDRINUSE);
	assert_int_equal(unlink(path), 0); /* it was left alone */

	close(listen_at(path)); /* stale */
	assert_int_equal(rpc_server_new(&loop, path, methods, NULL, &other), 0);
	rpc_server_free(other);
	assert_int_equal(unlink(path), -1);

	assert_int_equal(rpc_server_new(&loop, path, methods, NULL, &other), 0);
	unlink(path);
	fd = listen_at(path); /* now another file, not its own */
	rpc_server_free(other);
	assert_int_equal(unlink(path), 0);
	close(fd);

	memset(too_long, 'a', sizeof(too_long) - 1);
	too_long[sizeof(too_long) - 1] = '\0';
	assert_int_equal(rpc_server_new(&loop, too_long, methods, NULL, &other), -ENAMETOOLONG);
	assert_int_equal(rpc_server_new(&loop, "", methods, NULL, &other), -EINVAL);
	assert_int_equal(rpc_server_new(&loop, "/nonexistent/x", methods, NULL, &other), -ENOENT);
	rpc_server_free(NULL);
	loop_deinit(&loop);
}

/* Another process has bound its socket and does not listen yet: the file is in use, not stale. */
static void *listen_late(void *arg)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int lock = open(env.dir, O_RDONLY | O_DIRECTORY);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strcpy(addr.sun_path, arg);
	check(flock(lock, LOCK_EX) == 0);
	check(bind(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0);
	while (!env.n_calls) /* the others have begun */
		usleep(1000);
	usleep(50000);
	check(listen(fd, 1) == 0);
	close(lock);
	return (void *)(intptr_t)fd;
}

static void test_two_at_a_time(void **state)
{
	struct rpc_server *other = NULL;
	struct loop loop; /* env's loop runs on its thread */
	char path[sizeof(env.path) + 8];
	pthread_t thread;
	void *fd;

	assert_int_equal(loop_init(&loop, 0, NULL), 0);
	snprintf(path, sizeof(path), "%s.two", env.path);
	assert_int_equal(pthread_create(&thread, NULL, listen_late, path), 0);
	while (access(path, F_OK))
		usleep(1000);
	env.n_calls = 1;
	assert_int_equal(rpc_server_new(&loop, path, methods, NULL, &other), -EADDRINUSE);
	pthread_join(thread, &fd);
	close((int)(intptr_t)fd);
	assert_int_equal(rpc_server_new(&loop, path, methods, NULL, &other), 0);
	rpc_server_free(other);
	loop_deinit(&loop);
}

static void test_free_with_clients(void **state)
{
	struct rpc_server *other = NULL;
	struct loop loop;
	int fd;

	loop_init(&loop, 0, NULL);
	unlink(env.path);
	assert_int_equal(rpc_server_new(&loop, env.path, methods, NULL, &other), 0);
	fd = dial();
	say(fd, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"big\"}\n{");
	loop_turn(&loop, 0);
	loop_turn(&loop, 0);
	rpc_server_free(other);
	loop_deinit(&loop);
	close(fd);
}

/* Linux records the credentials of the thread that calls connect. */
static void test_other_user(void **state)
{
	char line[256] = "";
	int fd;

	if (geteuid() != 0)
		skip();
	assert_int_equal(chmod(env.dir, 0755), 0);
	assert_int_equal(chmod(env.path, 0666), 0);
	assert_int_equal(seteuid(65534), 0);
	fd = dial();
	assert_int_equal(seteuid(0), 0);
	hear(fd, line, sizeof(line));
	close(fd);
	assert_non_null(strstr(line, "{\"code\":8,"));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, start, stop)
	const struct CMUnitTest tests[] = {
		TEST(test_call),
		TEST(test_call_fails),
		TEST(test_big_answer),
		TEST(test_nobody_listens),
		TEST(test_two_at_a_time),
		TEST(test_server_is_silent),
		TEST(test_server_talks_nonsense),
		TEST(test_pieces_and_pipelines),
		TEST(test_notification),
		TEST(test_wrong_members),
		TEST(test_garbage),
		TEST(test_nul_bytes),
		TEST(test_depth),
		TEST(test_longest_message),
		TEST(test_disconnect_within_answer),
		TEST(test_too_many_clients),
		TEST(test_slow_clients),
		TEST(test_socket_file),
		TEST(test_free_with_clients),
		TEST(test_other_user),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
