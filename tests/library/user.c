/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that uses librblk as its users do: user CASE URI. Each case is a function that ends the
 * program with a message when an expectation is not met. test_library.py starts it.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/library/user.h"

enum {
	N_THREADS = 4,
	N_ROUNDS = 200,
};

static void fill(unsigned char *p, size_t n, unsigned seed)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (unsigned char)((seed * 2654435761u + i) >> (i % 3));
}

static int is_zero(const unsigned char *p, size_t n)
{
	while (n--)
		if (p[n])
			return 0;
	return 1;
}

/* ---- each operation, with each kind of memory ---- */

static void check_operations(struct rblk_queue *queue, unsigned char *a, unsigned char *b,
			     struct rblk_memory *memory, size_t n)
{
	fill(a, n, (unsigned)n);
	expect(run(queue, RBLK_WRITE, a, BLOCK, n, memory) == 0);
	memset(b, 0, n);
	expect(run(queue, RBLK_READ, b, BLOCK, n, memory) == 0);
	expect_same(a, b, n);
	expect(run(queue, RBLK_FLUSH, NULL, 0, 0, NULL) == 0);
	expect(run(queue, RBLK_WRITE_ZEROES, NULL, BLOCK, n, NULL) == 0);
	expect(run(queue, RBLK_READ, b, BLOCK, n, memory) == 0);
	expect(is_zero(b, n));
	expect(run(queue, RBLK_DISCARD, NULL, BLOCK, n, NULL) == 0);
}

static void check_mistakes(struct rblk_volume *volume, struct rblk_queue *queue, void *buffer)
{
	struct rblk_info info;

	expect(rblk_get_info(volume, &info) == 0);
	expect(run(queue, RBLK_READ, buffer, 1, BLOCK, NULL) == -EINVAL);
	expect(run(queue, RBLK_READ, buffer, 0, 100, NULL) == -EINVAL);
	expect(run(queue, RBLK_READ, buffer, info.size_bytes, BLOCK, NULL) == -EINVAL);
	expect(run(queue, RBLK_READ, buffer, UINT64_MAX - BLOCK + 1, 2 * BLOCK, NULL) == -EINVAL);
	expect(run(queue, RBLK_READ, NULL, 0, BLOCK, NULL) == -EINVAL);
	expect(run(queue, 77, buffer, 0, BLOCK, NULL) == -EINVAL);
	expect(run(queue, RBLK_READ, buffer, 0, 0, NULL) == 0);
}

/* A target that cannot tell: all may hold data. */
static void check_no_extents(struct rblk_queue *queue)
{
	struct rblk_extents extents;

	expect(run(queue, RBLK_EXTENTS, &extents, BLOCK, 2 * BLOCK, NULL) == 0);
	expect(extents.n == 1 && !extents.of[0].is_hole && extents.of[0].length == 2 * BLOCK);
	expect(run(queue, RBLK_EXTENTS, NULL, 0, BLOCK, NULL) == -EINVAL);
	expect(run(queue, RBLK_EXTENTS, &extents, 0, 0, NULL) == -EINVAL);
	expect(run(queue, RBLK_EXTENTS, &extents, 100, BLOCK, NULL) == -EINVAL);
}

/* The first half of 4 MiB is a hole, and a block behind it has data. */
static void check_extents(struct rblk_queue *queue, void *block)
{
	const uint64_t half = 512 * BLOCK;
	struct rblk_extents extents;

	expect(run(queue, RBLK_DISCARD, NULL, 0, 2 * half, NULL) == 0);
	expect(run(queue, RBLK_WRITE, block, half, BLOCK, NULL) == 0);
	expect(run(queue, RBLK_EXTENTS, &extents, 0, 2 * half, NULL) == 0);
	expect(extents.n == 2 && extents.of[0].is_hole && extents.of[0].length == half);
	expect(!extents.of[1].is_hole && extents.of[1].length >= BLOCK &&
	       extents.of[1].length <= half);
}

/* Memory that an I/O uses is not forgotten, and any other is. */
static void check_forget(struct rblk_volume *volume, struct rblk_queue *queue, char *buffer)
{
	struct rblk_io io = {.op = RBLK_READ, .length = BLOCK, .buffer = buffer}, *ended;

	expect(run(queue, RBLK_READ, buffer + BLOCK, 0, BLOCK, NULL) == 0);
	expect(rblk_submit(queue, &io) == 0);
	expect(rblk_memory_forget(volume, buffer + BLOCK, BLOCK) == 0);
	expect(rblk_memory_forget(volume, buffer, 2 * BLOCK) == -EBUSY);
	expect(rblk_memory_forget(volume, buffer + BLOCK - 1, 1) == -EBUSY);
	expect(rblk_wait(queue, &ended, 1, -1) == 1 && io.result == 0);
	expect(rblk_memory_forget(volume, buffer, 2 * BLOCK) == 0);
}

static void operations(const char *uri)
{
	static const size_t sizes[] = {BLOCK, 16 * BLOCK, 1024 * BLOCK};
	static const char *const caches[] = {"0", "1MiB", "64MiB"};
	size_t n = 1024 * BLOCK;
	unsigned char *a = new_buffer(2 * n), *b = a + n;

	for (unsigned i = 0; i < 3; i++) {
		struct rblk_volume *volume = must_open(uri, "cache", caches[i]);
		struct rblk_queue *queue = must_open_queue(volume);
		struct rblk_memory *memory;

		expect(rblk_memory_register(volume, a, 2 * n, &memory, NULL) == 0);
		for (unsigned k = 0; k < 3; k++) {
			check_operations(queue, a, b, NULL, sizes[k]);
			check_operations(queue, a, b, memory, sizes[k]);
		}
		check_mistakes(volume, queue, a);
		check_no_extents(queue);
		expect(rblk_memory_forget(volume, a, 2 * n) == 0);
		if (i > 0) /* with a cache */
			check_forget(volume, queue, (char *)a);
		expect(rblk_close(volume) == -EBUSY);
		expect(rblk_memory_unregister(memory) == 0);
		expect(rblk_queue_close(queue) == 0);
		expect(rblk_close(volume) == 0);
	}
}

/* ---- buffers that are not where they should be ---- */

static int submit(struct rblk_queue *queue, uint32_t op, void *buffer, uint64_t length,
		  struct rblk_memory *memory)
{
	struct rblk_io io = {.op = op, .length = length, .buffer = buffer, .memory = memory};
	int r = rblk_submit(queue, &io);

	expect(r < 0 && rblk_queue_depth(queue) == 0); /* it would never end */
	return r;
}

/* a: 4 blocks, the first 2 of which are in memory. */
static void check_outside(struct rblk_queue *queue, char *a, struct rblk_memory *memory)
{
	static const uint32_t ops[] = {RBLK_READ, RBLK_WRITE, RBLK_COMPARE_AND_WRITE};
	void *const buffers[] = {a + 2 * BLOCK - 512, a + BLOCK + 1, a + 2 * BLOCK, a - 1,
				 a - 2 * BLOCK,	      (void *)16,    (void *)-512,  NULL};

	for (unsigned i = 0; i < sizeof(ops) / sizeof(*ops); i++) {
		for (unsigned k = 0; k < sizeof(buffers) / sizeof(*buffers); k++)
			expect(submit(queue, ops[i], buffers[k], BLOCK, memory) == -EINVAL);
		expect(submit(queue, ops[i], a, 3 * BLOCK, memory) == -EINVAL);
		expect(run(queue, ops[i], a - 1, 0, 0, memory) == 0);
		expect(run(queue, ops[i], a, 0, ops[i] == RBLK_READ ? 2 * BLOCK : BLOCK, memory) ==
		       0);
	}
	expect(submit(queue, RBLK_COMPARE_AND_WRITE, a + BLOCK, BLOCK, memory) == -EINVAL);
	expect(run(queue, RBLK_WRITE_ZEROES, NULL, 0, BLOCK, memory) == 0);
}

static void check_handles(struct rblk_volume *volume, struct rblk_queue *queue, char *a)
{
	struct rblk_volume *other_volume = must_open(getenv("URI"), NULL, NULL);
	struct rblk_memory *memory, *other;
	struct rblk_error error;

	expect(rblk_memory_register(other_volume, a, 2 * BLOCK, &other, NULL) == 0);
	expect(submit(queue, RBLK_READ, a, BLOCK, other) == -EINVAL);
	expect(rblk_close(other_volume) == 0);
	expect(rblk_memory_register(volume, a, BLOCK, &memory, NULL) == 0);
	expect(rblk_memory_unregister(memory) == 0);
	expect(rblk_memory_register(volume, a, BLOCK, &other, NULL) == 0);
	expect(submit(queue, RBLK_READ, a, BLOCK, memory) == -EINVAL);
	expect(rblk_memory_unregister(memory) == -EINVAL);
	expect(run(queue, RBLK_READ, a, 0, BLOCK, other) == 0);
	expect(rblk_memory_unregister(other) == 0);
	expect(rblk_memory_register(volume, a, SIZE_MAX, &other, &error) == -EINVAL);
	expect(!other && strstr(error.message, "address space"));
	expect(rblk_memory_register(volume, NULL, BLOCK, &other, NULL) == -EINVAL);
	expect(rblk_memory_register(volume, a, 0, &other, NULL) == -EINVAL);
}

static void check_unmapped(struct rblk_volume *volume, struct rblk_queue *queue)
{
	struct rblk_memory *memory;

	expect(submit(queue, RBLK_READ, (void *)16, BLOCK, NULL) == -EFAULT);
	expect(submit(queue, RBLK_WRITE, (void *)-512, BLOCK, NULL) == -EINVAL);
	expect(rblk_memory_register(volume, (void *)BLOCK, BLOCK, &memory, NULL) == -EFAULT);
}

static int status_has(struct rblk_volume *volume, const char *text)
{
	char *json;
	int has;

	expect(rblk_get_status(volume, &json) == 0);
	has = strstr(json, text) != NULL;
	rblk_free(json);
	return has;
}

/* The target is away when the program ends a line, and comes back after the next. */
static void outside(const char *uri)
{
	struct rblk_volume *volume = must_open(uri, NULL, NULL);
	struct rblk_queue *queue = must_open_queue(volume);
	char *a = new_buffer(8 * BLOCK);
	struct rblk_memory *first, *second;

	a += 2 * BLOCK;
	expect(rblk_memory_register(volume, a, 2 * BLOCK, &first, NULL) == 0);
	expect(rblk_memory_register(volume, a + 2 * BLOCK, 2 * BLOCK, &second, NULL) == 0);
	check_extents(queue, a);
	check_outside(queue, a, first);
	check_handles(volume, queue, a);
	check_unmapped(volume, queue);
	expect(rblk_memory_forget(volume, a, SIZE_MAX) == -EINVAL);
	puts("away");
	fflush(stdout);
	while (!status_has(volume, "nothing listens there")) /* no device has its memory then */
		poll(NULL, 0, 10);
	check_unmapped(volume, queue); /* and it would keep the volume from coming back */
	puts("back");
	fflush(stdout);
	expect(run(queue, RBLK_READ, a, 0, BLOCK, NULL) == 0);
	expect(rblk_queue_close(queue) == 0);
	expect(rblk_close(volume) == 0);
}

/* ---- the ways of completion ---- */

struct chain {
	struct rblk_io io;
	struct rblk_queue *queue;
	unsigned n_left;
};

static void on_chain(struct rblk_io *io)
{
	struct chain *chain = io->context;

	expect(io->result == 0);
	if (--chain->n_left)
		expect(rblk_submit(chain->queue, io) == 0);
}

static void by_callback(struct rblk_queue *queue, void *buffer, struct rblk_memory *memory)
{
	struct chain chains[8];

	for (unsigned i = 0; i < 8; i++) {
		chains[i] = (struct chain){.queue = queue, .n_left = N_ROUNDS};
		chains[i].io.offset = (uint64_t)i * BLOCK;
		chains[i].io.length = BLOCK;
		chains[i].io.buffer = (char *)buffer + i * BLOCK;
		chains[i].io.memory = memory;
		chains[i].io.done = on_chain;
		chains[i].io.context = &chains[i];
		expect(rblk_submit(queue, &chains[i].io) == 0);
	}
	expect(rblk_queue_close(queue) == -EBUSY);
	while (rblk_queue_depth(queue))
		expect(rblk_wait(queue, NULL, 0, -1) > 0);
}

static void start_reads(struct rblk_queue *queue, struct rblk_io *ios, unsigned n, void *buffer,
			struct rblk_memory *memory)
{
	for (unsigned i = 0; i < n; i++) {
		ios[i] = (struct rblk_io){.op = RBLK_READ,
					  .offset = (uint64_t)i * BLOCK,
					  .length = BLOCK,
					  .buffer = (char *)buffer + i * BLOCK,
					  .memory = memory};
		expect(rblk_submit(queue, &ios[i]) == 0);
	}
}

static void by_polling(struct rblk_queue *queue, void *buffer, struct rblk_memory *memory)
{
	struct rblk_io ios[300], *ended[7];
	unsigned n = 0;

	start_reads(queue, ios, 300, buffer, memory);
	while (n < 300) {
		int got = rblk_poll(queue, ended, 7);

		expect(got >= 0 && got <= 7);
		for (int i = 0; i < got; i++)
			expect(ended[i]->result == 0);
		n += (unsigned)got;
	}
	expect(rblk_queue_depth(queue) == 0);
	expect(rblk_wait(queue, ended, 7, 1) == 0); /* nothing to wait for: the time passes */
}

static void by_descriptor(struct rblk_queue *queue, void *buffer, struct rblk_memory *memory)
{
	struct pollfd pollfd = {.fd = rblk_fd(queue), .events = POLLIN};
	struct rblk_io ios[16], *ended[16];

	for (unsigned round = 0; round < N_ROUNDS; round++) {
		unsigned n = 0;

		start_reads(queue, ios, 16, buffer, memory);
		rblk_send(queue);
		while (n < 16) {
			if (rblk_arm(queue) == 0)
				expect(poll(&pollfd, 1, 60000) == 1);
			n += (unsigned)rblk_poll(queue, ended, 16);
		}
	}
}

static void completions(const char *uri)
{
	struct rblk_volume *volume = must_open(uri, NULL, NULL);
	struct rblk_queue *queue = must_open_queue(volume);
	size_t n = 300 * BLOCK;
	void *buffer = new_buffer(n);
	struct rblk_memory *memory;
	char *json;

	expect(rblk_memory_register(volume, buffer, n, &memory, NULL) == 0);
	by_callback(queue, buffer, memory);
	by_callback(queue, buffer, NULL);
	by_polling(queue, buffer, memory);
	by_descriptor(queue, buffer, memory);
	expect(status_has(volume, "\"state\": \"live\""));
	expect(rblk_get_status(volume, &json) == 0);
	puts(json);
	rblk_free(json);
	expect(rblk_queue_close(queue) == 0);
	expect(rblk_close(volume) == 0); /* with memory registered */
}

/* ---- threads ---- */

struct worker {
	pthread_t thread;
	struct rblk_volume *volume;
	unsigned index;
};

static void *work(void *arg)
{
	struct worker *worker = arg;
	size_t n = 8 * BLOCK;
	unsigned char *a = new_buffer(2 * n), *b = a + n;
	uint64_t offset = (uint64_t)worker->index * n;
	struct rblk_queue *queue = must_open_queue(worker->volume);
	struct rblk_memory *memory;

	for (unsigned i = 0; i < N_ROUNDS; i++) {
		fill(a, n, worker->index * 1000 + i);
		expect(run(queue, RBLK_WRITE, a, offset, n, NULL) == 0);
		expect(rblk_memory_register(worker->volume, b, n, &memory, NULL) == 0);
		expect(run(queue, RBLK_READ, b, offset, n, memory) == 0);
		expect(rblk_memory_unregister(memory) == 0);
		expect_same(a, b, n);
	}
	expect(rblk_memory_forget(worker->volume, a, 2 * n) == 0);
	munmap(a, 2 * n);
	expect(rblk_queue_close(queue) == 0);
	return NULL;
}

static void threads(const char *uri)
{
	struct rblk_volume *volumes[2] = {must_open(uri, NULL, NULL),
					  must_open(uri, "cache", "64KiB")};
	struct worker workers[N_THREADS];

	for (unsigned i = 0; i < N_THREADS; i++) {
		workers[i] = (struct worker){.volume = volumes[i % 2], .index = i};
		expect(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
	}
	for (unsigned i = 0; i < N_THREADS; i++)
		pthread_join(workers[i].thread, NULL);
	expect(rblk_close(volumes[0]) == 0);
	expect(rblk_close(volumes[1]) == 0);
}

/* ---- memory that comes and goes ---- */

static void registrations(const char *uri)
{
	const char *text = getenv("N_REGISTRATIONS");
	unsigned n = text ? (unsigned)atoi(text) : 1000000;
	struct rblk_volume *volume = must_open(uri, NULL, NULL);
	char *buffer = new_buffer(64 * BLOCK);
	struct rblk_memory *memory;

	for (unsigned i = 0; i < n; i++) {
		expect(rblk_memory_register(volume, buffer + i % 32 * BLOCK, (1 + i % 32) * BLOCK,
					    &memory, NULL) == 0);
		expect(rblk_memory_unregister(memory) == 0);
	}
	expect(rblk_close(volume) == 0);
}

/* ---- fork ---- */

static void in_child(struct rblk_volume *volume, struct rblk_queue *queue, const char *uri)
{
	struct rblk_volume *other;
	struct rblk_error error;
	struct rblk_info info;
	char buffer[BLOCK];

	expect(run(queue, RBLK_READ, buffer, 0, BLOCK, NULL) == -ECHILD);
	expect(rblk_get_info(volume, &info) == -ECHILD);
	expect(rblk_queue_close(queue) == -ECHILD);
	expect(rblk_close(volume) == -ECHILD);
	expect(rblk_open(uri, NULL, &other, &error) == -ECHILD);
	expect(*error.message);
	exit(0); /* a sanitizer looks for leaks */
}

static void exit_in_child(void)
{
	int status;
	pid_t pid = fork();

	if (!pid)
		exit(0);
	expect(waitpid(pid, &status, 0) == pid && status == 0);
}

static void forks(const char *uri)
{
	struct rblk_volume *volume = must_open(uri, NULL, NULL);
	struct rblk_queue *queue = must_open_queue(volume);
	unsigned char *a = new_buffer(BLOCK);
	struct rblk_memory *memory;

	expect(rblk_memory_register(volume, a, BLOCK, &memory, NULL) == 0);
	/* The queue is connected then. While a thread of the parent sets it up, memory that only
	 * that thread's stack knows would look like a leak of the child. */
	expect(run(queue, RBLK_READ, a, 0, BLOCK, memory) == 0);
	for (unsigned i = 0; i < 20; i++) {
		pid_t pid = fork();
		int status;

		if (!pid)
			in_child(volume, queue, uri);
		fill(a, BLOCK, i);
		expect(run(queue, RBLK_WRITE, a, 0, BLOCK, memory) == 0);
		memset(a, 0, BLOCK);
		expect(run(queue, RBLK_READ, a, 0, BLOCK, memory) == 0);
		expect(!is_zero(a, BLOCK));
		expect(waitpid(pid, &status, 0) == pid && status == 0);
	}
	expect(rblk_queue_close(queue) == 0);
	expect(rblk_close(volume) == 0);
	exit_in_child(); /* of a program that has closed all */
	expect(system("true") == 0);
}

/* ---- a target that goes and comes: one queue works, others idle ---- */

static void survives(const char *uri)
{
	const char *stop = getenv("STOP_FILE");
	struct rblk_volume *volume = must_open(uri, "reconnect-delay", "100ms");
	struct rblk_queue *queue = must_open_queue(volume), *idle = must_open_queue(volume);
	struct rblk_queue *asleep = must_open_queue(volume);
	struct pollfd pollfd = {.fd = rblk_fd(asleep), .events = POLLIN};
	unsigned char *a = new_buffer(2 * BLOCK), *b = a + BLOCK;
	struct rblk_memory *memory;

	expect(rblk_memory_register(volume, a, 2 * BLOCK, &memory, NULL) == 0);
	while (rblk_arm(asleep))
		rblk_poll(asleep, NULL, 0);
	for (unsigned i = 0; access(stop, F_OK) < 0; i++) {
		uint64_t offset = (uint64_t)(i % 1000) * BLOCK;

		fill(a, BLOCK, i);
		expect(run(queue, RBLK_WRITE, a, offset, BLOCK, i % 2 ? memory : NULL) == 0);
		expect(run(queue, RBLK_READ, b, offset, BLOCK, i % 2 ? memory : NULL) == 0);
		expect_same(a, b, BLOCK);
		if (!i)
			puts("ready");
		fflush(stdout);
		if (poll(&pollfd, 1, 0) == 1)
			while (rblk_poll(asleep, NULL, 0) >= 0 && rblk_arm(asleep))
				;
	}
	expect(run(idle, RBLK_READ, b, 0, BLOCK, memory) == 0);
	expect(rblk_queue_close(queue) == 0 && rblk_queue_close(idle) == 0);
	expect(rblk_queue_close(asleep) == 0);
	expect(rblk_close(volume) == 0);
}

/* ---- errors ---- */

static void refuses(const char *uri)
{
	static const char *const bad[] = {"",
					  "nvme+rdma://",
					  "nvme+rdma://127.0.0.1",
					  "nvme+rdma://127.0.0.1/x",
					  "nvme+rdma://127.0.0.1/nqn.x?ns=0",
					  "nvme+rdma://127.0.0.1/nqn.x?ns=1&x=1",
					  "nvme+rdma://127.0.0.1/nqn.%zz",
					  "nvme+rdma://127.0.0.1:99999/nqn.x",
					  "nvme+rdma://127.0.0.1/nqn.x?spin=often"};
	struct rblk_option options[] = {{"ns", "77"}, {NULL, NULL}};
	struct rblk_volume *volume;
	struct rblk_error error;

	for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		expect(rblk_open(bad[i], NULL, &volume, &error) == -EINVAL);
		expect(!volume && error.code == -EINVAL && *error.message);
		printf("%s: %s (%s)\n", bad[i], error.message, error.hint);
	}
	expect(rblk_open(uri, options, &volume, &error) == -ENOENT && *error.message);
	expect(*error.hint && !strstr(error.hint, "--")); /* those are rblk's */
	printf("%s (%s)\n", error.message, error.hint);
	expect(rblk_open("nvme+rdma://127.0.0.1:9/nqn.x", NULL, &volume, &error) < 0);
	printf("%d: %s (%s)\n", error.code, error.message, error.hint);
}

/* names: of options, divided by commas; none of them may be empty. */
static void options(const char *names)
{
	char copy[1024], *rest = copy;
	struct rblk_volume *volume;
	struct rblk_error error;

	snprintf(copy, sizeof(copy), "%s", names);
	for (char *name = strsep(&rest, ","); name; name = strsep(&rest, ",")) {
		struct rblk_option option[] = {{name, ""}, {NULL, NULL}};

		expect(rblk_open("nvme+rdma://127.0.0.1/nqn.x", option, &volume, &error) ==
		       -EINVAL);
		puts(error.message);
	}
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(const char *uri);
	} cases[] = {{"operations", operations},
		     {"outside", outside},
		     {"completions", completions},
		     {"threads", threads},
		     {"registrations", registrations},
		     {"forks", forks},
		     {"survives", survives},
		     {"refuses", refuses},
		     {"options", options}};

	for (unsigned i = 0; argc == 3 && i < sizeof(cases) / sizeof(*cases); i++)
		if (!strcmp(cases[i].name, argv[1])) {
			cases[i].run(argv[2]);
			return 0;
		}
	fprintf(stderr, "usage: user CASE URI\n");
	return 2;
}
