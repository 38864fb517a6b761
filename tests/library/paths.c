/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Paths of a volume by librblk: paths CASE URI OTHER, where OTHER is the address of a second target
 * of the same namespace. test_paths.py starts it.
 *
 *   changes     paths come and go, while a thread does I/O, and queues are idle, asleep, or closed
 *   flushes     a path is removed that has acknowledged writes; no queue is open
 *   mistakes    what is refused changes nothing
 *   other       OTHER has another namespace
 *   finds       the path to OTHER is found by discovery
 *   stopped     OTHER is stopped: its path leaves as long as that takes, past a queue that closes
 *   lost        OTHER is killed: the path comes back while no queue is polled; then it is dead
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include "tests/library/user.h"

enum {
	PATIENCE_MS = 60000,
	ROUNDS = 4,
	PATHS_MAX = 8,
};

/* The address in a URI. */
static const char *address_of(const char *uri)
{
	static char text[64];

	expect(sscanf(uri, "nvme+rdma://%63[^/]", text) == 1);
	return text;
}

static struct rblk_volume *open_both(const char *uri, const char *other)
{
	struct rblk_option options[] = {{"path", other},
					{"policy", "round-robin"},
					{"reconnect-delay", "100ms"},
					{NULL, NULL}};
	struct rblk_volume *volume;

	expect(rblk_open(uri, options, &volume, NULL) == 0);
	return volume;
}

/* How often a text is in the status. */
static unsigned count(struct rblk_volume *volume, const char *text)
{
	unsigned n = 0;
	char *json;

	expect(rblk_get_status(volume, &json) == 0);
	for (const char *at = json; (at = strstr(at, text)); at++)
		n++;
	rblk_free(json);
	return n;
}

/* Until a text is in the status; the time is a limit only. */
static void wait_status(struct rblk_volume *volume, const char *text)
{
	for (unsigned ms = 0; !count(volume, text); ms++) {
		expect(ms < PATIENCE_MS);
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
}

/* ---- changes ---- */

struct load {
	pthread_t thread;
	struct rblk_volume *volume;
	_Atomic unsigned n;
	atomic_bool is_over;
};

static void *do_io(void *arg)
{
	struct load *load = arg;
	struct rblk_queue *queue = must_open_queue(load->volume);
	unsigned char *a = new_buffer(2 * BLOCK), *b = a + BLOCK;

	for (unsigned i = 0; !load->is_over; i++) {
		uint64_t offset = (uint64_t)(i % 1000) * BLOCK;

		memset(a, (int)(i % 255), BLOCK);
		expect(run(queue, RBLK_WRITE, a, offset, BLOCK, NULL) == 0);
		expect(run(queue, RBLK_READ, b, offset, BLOCK, NULL) == 0);
		expect_same(a, b, BLOCK);
		load->n++;
	}
	expect(rblk_queue_close(queue) == 0);
	return NULL;
}

static void wait_io(struct load *load)
{
	unsigned before = load->n;

	for (unsigned ms = 0; load->n < before + 20; ms++) {
		expect(ms < PATIENCE_MS);
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
}

static void exchange(struct load *load, const char *new, const char *old)
{
	expect(rblk_path_add(load->volume, new, 0, PATIENCE_MS, NULL) == 0);
	expect(count(load->volume, "\"address\"") == 2);
	wait_io(load);
	expect(rblk_path_remove(load->volume, old, 0, PATIENCE_MS, NULL) == 0);
	expect(count(load->volume, "\"address\"") == 1);
	wait_io(load);
}

/* A queue that is never polled, and one whose caller sleeps, are in the way of nothing. */
static void changes(const char *uri, const char *other)
{
	struct load load = {.volume = must_open(uri, "policy", "round-robin")};
	struct rblk_queue *idle = must_open_queue(load.volume);
	struct rblk_queue *asleep = must_open_queue(load.volume);
	const char *first = address_of(uri);
	char *buffer = new_buffer(BLOCK);

	expect(rblk_fd(asleep) >= 0);
	while (rblk_arm(asleep))
		rblk_poll(asleep, NULL, 0);
	expect(pthread_create(&load.thread, NULL, do_io, &load) == 0);
	wait_io(&load);
	for (unsigned i = 0; i < ROUNDS; i++)
		exchange(&load, i % 2 ? first : other, i % 2 ? other : first);
	load.is_over = true;
	pthread_join(load.thread, NULL);
	expect(run(idle, RBLK_READ, buffer, 0, BLOCK, NULL) == 0);
	expect(rblk_queue_close(idle) == 0 && rblk_queue_close(asleep) == 0);
	expect(rblk_close(load.volume) == 0);
}

/* ---- flushes ---- */

static void flushes(const char *uri, const char *other)
{
	struct rblk_volume *volume = must_open(uri, NULL, NULL);
	struct rblk_queue *queue = must_open_queue(volume);
	char *buffer = new_buffer(BLOCK);

	expect(run(queue, RBLK_WRITE, buffer, 0, BLOCK, NULL) == 0);
	expect(rblk_queue_close(queue) == 0);
	expect(rblk_path_add(volume, other, 0, PATIENCE_MS, NULL) == 0);
	expect(rblk_path_remove(volume, address_of(uri), 0, PATIENCE_MS, NULL) == 0);
	expect(rblk_close(volume) == 0);
}

/* ---- what is refused ---- */

static void refused(int r, int wanted, const struct rblk_error *error)
{
	printf("%d %s (%s)\n", r, error->message, error->hint);
	expect(r == wanted && error->code == wanted && *error->message);
}

static void mistakes(const char *uri, const char *other)
{
	struct rblk_volume *volume = must_open(uri, NULL, NULL);
	const char *first = address_of(uri);
	struct rblk_error e;

	refused(rblk_path_add(volume, first, 0, -1, &e), -EEXIST, &e);
	refused(rblk_path_add(volume, "?", 0, -1, &e), -EINVAL, &e);
	refused(rblk_path_add(volume, NULL, 0, -1, &e), -EINVAL, &e);
	refused(rblk_path_add(volume, other, RBLK_PATH_DEAD, -1, &e), -EINVAL, &e);
	refused(rblk_path_remove(volume, other, RBLK_PATH_KEEP, -1, &e), -EINVAL, &e);
	refused(rblk_path_remove(volume, other, 0, -1, &e), -ENOENT, &e);
	refused(rblk_path_remove(volume, first, 0, -1, &e), -EBUSY, &e);
	refused(rblk_path_remove(volume, first, RBLK_PATH_DEAD, -1, &e), -EISCONN, &e);
	expect(rblk_path_add(volume, "127.0.0.1:9", 0, 0, &e) < 0);
	expect(count(volume, "\"address\"") == 1);
	for (unsigned i = 1; i < PATHS_MAX; i++) {
		char none[32];

		snprintf(none, sizeof(none), "127.0.0.1:%u", i);
		expect(rblk_path_add(volume, none, RBLK_PATH_KEEP, 0, &e) < 0);
		expect(count(volume, "\"address\"") == 1 + i);
	}
	refused(rblk_path_add(volume, other, 0, -1, &e), -ENOSPC, &e);
	expect(rblk_path_remove(volume, "127.0.0.1:1", 0, PATIENCE_MS, &e) == 0);
	expect(rblk_path_add(volume, other, 0, PATIENCE_MS, &e) == 0);
	expect(rblk_close(volume) == 0); /* with paths that are tried */
}

static void other_namespace(const char *uri, const char *other)
{
	struct rblk_volume *volume = must_open(uri, NULL, NULL);
	struct rblk_error e;

	refused(rblk_path_add(volume, other, 0, -1, &e), -EIO, &e);
	expect(count(volume, "\"address\"") == 1);
	expect(rblk_close(volume) == 0);
}

/* ---- discovery ---- */

/* Has the test do something, and waits for it. */
static void ask(const char *what)
{
	char line[16];

	puts(what);
	fflush(stdout);
	expect(fgets(line, sizeof(line), stdin));
}

static void finds(const char *uri, const char *other)
{
	struct rblk_volume *volume = must_open(uri, "find-paths", "1");
	char text[120];

	wait_status(volume, "\"paths_live\": 2");
	snprintf(text, sizeof(text), "\"address\": \"%s\", \"state\": \"live\", \"found\": true",
		 other);
	expect(count(volume, text) == 1 && count(volume, "\"used\"") == 2);
	ask("refer no more");
	wait_status(volume, "\"paths\": 1");
	ask("refer");
	wait_status(volume, "\"paths_live\": 2");
	expect(rblk_close(volume) == 0);
}

/* Only OTHER answers. */
static void finds_by_other(const char *uri, const char *other)
{
	struct rblk_option options[] = {{"find-paths", "1"}, {"path", other}, {NULL, NULL}};
	struct rblk_volume *volume;
	struct rblk_error e;

	refused(rblk_open(uri, options + 2, &volume, &e), -EHOSTUNREACH, &e);
	expect(rblk_open(uri, options, &volume, &e) == 0);
	expect(count(volume, "\"used\"") == 2 && count(volume, "\"paths_live\": 1") == 1);
	expect(rblk_close(volume) == 0);
}

/* ---- a target that is stopped ---- */

/* The Flush that the path needs is on the wire when its queue is closed; another queue sends the
 * next. */
static void stopped(const char *uri, const char *other)
{
	struct rblk_volume *volume = open_both(uri, other);
	struct rblk_queue *queue = must_open_queue(volume);
	char *buffer = new_buffer(BLOCK);
	struct rblk_error e;

	wait_status(volume, "\"paths_live\": 2");
	for (uint64_t i = 0; i < 64; i++)
		expect(run(queue, RBLK_WRITE, buffer, i * BLOCK, BLOCK, NULL) == 0);
	ask("stop");
	refused(rblk_path_remove(volume, other, 0, 100, &e), -ETIMEDOUT, &e);
	expect(count(volume, "\"leaving\"") == 1);
	refused(rblk_path_remove(volume, address_of(uri), 0, 100, &e), -EBUSY, &e);
	puts("continue");
	fflush(stdout);
	expect(rblk_queue_close(queue) == 0);
	queue = must_open_queue(volume);
	wait_status(volume, "\"paths\": 1");
	expect(count(volume, other) == 0);
	expect(run(queue, RBLK_WRITE, buffer, 0, BLOCK, NULL) == 0);
	expect(rblk_queue_close(queue) == 0);
	expect(rblk_close(volume) == 0);
}

/* ---- a target that is lost ---- */

/* The test kills the target and starts it while this waits; a line says when. */
static void lost(const char *uri, const char *other)
{
	struct rblk_volume *volume = open_both(uri, other);
	struct rblk_queue *idle = must_open_queue(volume);
	char *buffer = new_buffer(BLOCK);

	wait_status(volume, "\"paths_live\": 2");
	puts("kill");
	fflush(stdout);
	wait_status(volume, "\"paths_live\": 1");
	puts("start");
	fflush(stdout);
	wait_status(volume, "\"paths_live\": 2"); /* no queue is polled */
	expect(run(idle, RBLK_READ, buffer, 0, BLOCK, NULL) == 0);
	puts("kill");
	fflush(stdout);
	wait_status(volume, "\"paths_live\": 1");
	expect(rblk_path_remove(volume, other, RBLK_PATH_DEAD, PATIENCE_MS, NULL) == 0);
	expect(count(volume, "\"address\"") == 1);
	expect(rblk_queue_close(idle) == 0);
	expect(rblk_close(volume) == 0);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(const char *uri, const char *other);
	} cases[] = {{"changes", changes},   {"flushes", flushes},
		     {"mistakes", mistakes}, {"other", other_namespace},
		     {"finds", finds},	     {"finds_by_other", finds_by_other},
		     {"stopped", stopped},   {"lost", lost}};

	for (unsigned i = 0; argc == 4 && i < sizeof(cases) / sizeof(*cases); i++)
		if (!strcmp(cases[i].name, argv[1])) {
			cases[i].run(argv[2], argv[3]);
			return 0;
		}
	fprintf(stderr, "usage: paths CASE URI OTHER\n");
	return 2;
}
