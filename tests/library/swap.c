/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compare and write by librblk: swap CASE URI. test_library.py starts it.
 *
 *   operations  results and limits, with each kind of memory, by each way of completion
 *   count       THREADS threads add 1 to the number on the volume, ROUNDS times each, and then
 *               until there is a STOP_FILE
 *   print       prints that number
 *   none        the target has no compare and write
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include "tests/library/user.h"

enum {
	THREADS = 2,
	CLIENTS_MAX = 8, /* processes */
	N_QUEUED = 40,
};

/* ---- results ---- */

static int swap(struct rblk_queue *queue, char *buffer, struct rblk_memory *memory, size_t n,
		char old, char new)
{
	memset(buffer, old, n);
	memset(buffer + n, new, n);
	return run(queue, RBLK_COMPARE_AND_WRITE, buffer, BLOCK, n, memory);
}

static void expect_data(struct rblk_queue *queue, size_t n, char value)
{
	char *buffer = new_buffer(n);

	expect(run(queue, RBLK_READ, buffer, BLOCK, n, NULL) == 0);
	for (size_t i = 0; i < n; i++)
		expect(buffer[i] == value);
	expect(munmap(buffer, n) == 0);
}

static void check_results(struct rblk_volume *volume, struct rblk_queue *queue, char *buffer,
			  struct rblk_memory *memory, size_t n)
{
	expect(run(queue, RBLK_WRITE_ZEROES, NULL, BLOCK, n, NULL) == 0);
	expect(swap(queue, buffer, memory, n, 0, 1) == 0);
	expect_data(queue, n, 1);
	expect(swap(queue, buffer, memory, n, 0, 2) == -EILSEQ);
	expect_data(queue, n, 1);
	expect(swap(queue, buffer, memory, n, 1, 2) == 0);
	expect_data(queue, n, 2);
}

static void check_mistakes(struct rblk_queue *queue, char *buffer, const struct rblk_info *info)
{
	uint64_t max = info->max_compare_bytes;

	expect(run(queue, RBLK_COMPARE_AND_WRITE, buffer, 0, max + BLOCK, NULL) == -EINVAL);
	expect(run(queue, RBLK_COMPARE_AND_WRITE, buffer, 1, BLOCK, NULL) == -EINVAL);
	expect(run(queue, RBLK_COMPARE_AND_WRITE, buffer, info->size_bytes, BLOCK, NULL) ==
	       -EINVAL);
	expect(run(queue, RBLK_COMPARE_AND_WRITE, NULL, 0, BLOCK, NULL) == -EINVAL);
}

/* ---- ways of completion ---- */

static unsigned n_done;

static void on_done(struct rblk_io *io)
{
	expect(io->result == 0);
	n_done++;
}

static void start(struct rblk_queue *queue, struct rblk_io *ios, char *buffer, char round,
		  void (*done)(struct rblk_io *io))
{
	memset(buffer, 0, 2 * N_QUEUED * BLOCK);
	for (unsigned i = 0; i < N_QUEUED; i++) {
		char *own = buffer + 2 * i * BLOCK;

		own[0] = (char)(round - 1);
		own[BLOCK] = round;
		ios[i] = (struct rblk_io){.op = RBLK_COMPARE_AND_WRITE,
					  .flags = i % 2 ? RBLK_FUA : 0,
					  .offset = (100 + i) * BLOCK,
					  .length = BLOCK,
					  .buffer = own,
					  .done = done};
		expect(rblk_submit(queue, &ios[i]) == 0);
	}
}

static void by_descriptor(struct rblk_queue *queue, struct rblk_io *ios, char *buffer)
{
	struct pollfd pollfd = {.fd = rblk_fd(queue), .events = POLLIN};
	struct rblk_io *ended[N_QUEUED];

	start(queue, ios, buffer, 3, NULL);
	rblk_send(queue);
	while (rblk_queue_depth(queue)) {
		int n;

		if (rblk_arm(queue) == 0)
			expect(poll(&pollfd, 1, 60000) == 1);
		n = rblk_poll(queue, ended, N_QUEUED);
		for (int i = 0; i < n; i++)
			expect(ended[i]->result == 0);
	}
}

static void check_ways(struct rblk_queue *queue)
{
	char *buffer = new_buffer(2 * N_QUEUED * BLOCK);
	struct rblk_io ios[N_QUEUED], *ended[N_QUEUED];

	expect(run(queue, RBLK_WRITE_ZEROES, NULL, 100 * BLOCK, N_QUEUED * BLOCK, NULL) == 0);
	n_done = 0;
	start(queue, ios, buffer, 1, on_done);
	while (rblk_queue_depth(queue))
		expect(rblk_poll(queue, NULL, 0) >= 0);
	expect(n_done == N_QUEUED);
	start(queue, ios, buffer, 2, NULL);
	while (rblk_queue_depth(queue)) {
		int n = rblk_wait(queue, ended, N_QUEUED, -1);

		for (int i = 0; i < n; i++)
			expect(ended[i]->result == 0);
	}
	by_descriptor(queue, ios, buffer);
	expect(munmap(buffer, 2 * N_QUEUED * BLOCK) == 0);
}

static void operations(const char *uri)
{
	static const char *const caches[] = {"0", "1MiB"};

	for (unsigned i = 0; i < 2; i++) {
		struct rblk_volume *volume = must_open(uri, "cache", caches[i]);
		struct rblk_queue *queue = must_open_queue(volume);
		struct rblk_memory *memory;
		struct rblk_info info;
		size_t max, n;
		char *buffer;

		expect(rblk_get_info(volume, &info) == 0);
		max = info.max_compare_bytes;
		expect(max >= 8192 && max % info.block_size == 0);
		n = 2 * (max + BLOCK);
		buffer = new_buffer(n);
		expect(rblk_memory_register(volume, buffer, n, &memory, NULL) == 0);
		check_results(volume, queue, buffer, NULL, BLOCK);
		check_results(volume, queue, buffer, memory, BLOCK);
		check_results(volume, queue, buffer, NULL, max);
		check_results(volume, queue, buffer, memory, max);
		check_mistakes(queue, buffer, &info);
		check_ways(queue);
		expect(rblk_memory_forget(volume, buffer, n) == 0);
		expect(rblk_memory_unregister(memory) == 0);
		expect(rblk_queue_close(queue) == 0);
		expect(rblk_close(volume) == 0);
	}
}

static void none(const char *uri)
{
	struct rblk_volume *volume = must_open(uri, NULL, NULL);
	struct rblk_queue *queue = must_open_queue(volume);
	char *buffer = new_buffer(2 * BLOCK);
	struct rblk_info info;

	expect(rblk_get_info(volume, &info) == 0 && info.max_compare_bytes == 0);
	expect(run(queue, RBLK_COMPARE_AND_WRITE, buffer, 0, 512, NULL) == -EOPNOTSUPP);
	expect(run(queue, RBLK_READ, buffer, 0, 512, NULL) == 0);
	expect(rblk_queue_close(queue) == 0);
	expect(rblk_close(volume) == 0);
}

/* ---- a number that many add to ---- */

/* The first block of the volume. Each thread notes which of its rounds is in the number, so that it
 * can look, when it was not told. */
union page {
	struct {
		uint64_t number, last[CLIENTS_MAX * THREADS];
	} v;
	char bytes[BLOCK];
};

struct counter {
	pthread_t thread;
	struct rblk_volume *volume;
	unsigned index;
	uint64_t n_rounds, n_added, n_lost, n_misses;
};

static void read_page(struct rblk_queue *queue, union page *page)
{
	expect(run(queue, RBLK_READ, page, 0, BLOCK, NULL) == 0);
}

/* Adds 1, as round `round` of this thread. */
static void add(struct counter *counter, struct rblk_queue *queue, union page pages[2],
		uint64_t round)
{
	for (;;) {
		int r;

		pages[1] = pages[0];
		pages[1].v.number++;
		pages[1].v.last[counter->index] = round;
		r = run(queue, RBLK_COMPARE_AND_WRITE, pages, 0, BLOCK, NULL);
		if (r == 0) {
			pages[0] = pages[1];
			return;
		}
		expect(r == -EILSEQ || r == -ECONNRESET);
		counter->n_misses += r == -EILSEQ;
		counter->n_lost += r == -ECONNRESET;
		read_page(queue, pages);
		expect(r == -ECONNRESET || pages[0].v.last[counter->index] == round - 1);
		if (pages[0].v.last[counter->index] == round)
			return;
	}
}

static void *count_on(void *arg)
{
	const char *stop = getenv("STOP_FILE");
	struct counter *counter = arg;
	struct rblk_queue *queue = must_open_queue(counter->volume);
	union page *pages = new_buffer(2 * BLOCK);

	read_page(queue, pages);
	while (counter->n_added < counter->n_rounds || (stop && access(stop, F_OK) < 0))
		add(counter, queue, pages, ++counter->n_added);
	expect(rblk_queue_close(queue) == 0);
	return NULL;
}

/* Prints that it is connected; at the end how much was added, how often another was first, and how
 * often the outcome was not told. */
static void count(const char *uri)
{
	struct rblk_volume *volume = must_open(uri, "reconnect-delay", "100ms");
	unsigned client = (unsigned)atoi(getenv("CLIENT"));
	struct counter counters[THREADS];
	uint64_t n_added = 0, n_misses = 0, n_lost = 0;

	expect(client < CLIENTS_MAX);
	puts("connected");
	fflush(stdout);
	for (unsigned i = 0; i < THREADS; i++) {
		counters[i] = (struct counter){.volume = volume,
					       .index = client * THREADS + i,
					       .n_rounds = strtoull(getenv("ROUNDS"), NULL, 10)};
		expect(pthread_create(&counters[i].thread, NULL, count_on, &counters[i]) == 0);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(counters[i].thread, NULL);
		n_added += counters[i].n_added;
		n_misses += counters[i].n_misses;
		n_lost += counters[i].n_lost;
	}
	printf("%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", n_added, n_misses, n_lost);
	expect(rblk_close(volume) == 0);
}

static void print(const char *uri)
{
	struct rblk_volume *volume = must_open(uri, NULL, NULL);
	struct rblk_queue *queue = must_open_queue(volume);
	union page *page = new_buffer(BLOCK);

	read_page(queue, page);
	printf("%" PRIu64 "\n", page->v.number);
	expect(rblk_queue_close(queue) == 0);
	expect(rblk_close(volume) == 0);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(const char *uri);
	} cases[] = {
		{"operations", operations}, {"count", count}, {"print", print}, {"none", none}};

	for (unsigned i = 0; argc == 3 && i < sizeof(cases) / sizeof(*cases); i++)
		if (!strcmp(cases[i].name, argv[1])) {
			cases[i].run(argv[2]);
			return 0;
		}
	fprintf(stderr, "usage: swap CASE URI\n");
	return 2;
}
