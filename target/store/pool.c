/* SPDX-License-Identifier: BSD-3-Clause */
/*
 *   poller: backend_pool_start -> the backend's line -> worker: work -> loop_send -> poller: then
 *
 * A disk that hangs keeps every thread that works for it. So each backend has a line of its own,
 * served by N_EACH threads at most, and lines below that limit take turns. One slow disk delays no
 * other disk, nor Diffie-Hellman and other work without a backend.
 *
 * The pool starts a thread when work arrives and no thread is idle, up to N_MAX; idle threads use
 * no CPU. If none can be started, the work waits for a running one. If none runs at all, the poller
 * does the work itself, which is slow but correct, and reports the result through backend_skip.
 *
 * Two locks, taken in this order. `life` protects n_refs and is held while threads are joined, so
 * that a caller that takes a reference finds the pool stopped or running, never ending. `lock`
 * protects the rest, including backend->work; nothing is called while it is held. A worker touches
 * an io and its backend only between taking it from the line and loop_send.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include "base/check.h"
#include "target/store/pool.h"
#include "target/store/step.h"

enum {
	N_MAX = 32,
	N_EACH = 8, /* of one backend; N_MAX / N_EACH disks may hang at once */
};

static struct {
	pthread_mutex_t life, lock;
	pthread_cond_t has_work;
	struct list ready; /* of struct backend_work (node): lines with work that may run */
	struct backend_work others; /* without a backend */
	pthread_t threads[N_MAX];
	unsigned n_threads, n_idle, n_refs;
	unsigned n_runnable; /* waiting work that a thread may take now */
	bool must_stop;
} pool = {
	.life = PTHREAD_MUTEX_INITIALIZER,
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.has_work = PTHREAD_COND_INITIALIZER,
	.ready = LIST_INIT(pool.ready),
};

static void on_result(struct loop_msg *msg)
{
	struct backend_io *io = container_of(msg, struct backend_io, msg);

	backend_step(io)->then(io, io->result);
}

/* ---- lines (caller holds the lock) ---------------------------------------------------------- */

static struct backend_work *line_of(const struct backend_io *io)
{
	struct backend_work *line = io->backend ? &io->backend->work : &pool.others;

	if (!line->waiting.next) {
		list_init(&line->waiting);
		list_init(&line->node);
	}
	return line;
}

static unsigned n_runnable(const struct backend_work *line)
{
	unsigned room = N_EACH - line->n_running;

	return line->n_waiting < room ? line->n_waiting : room;
}

/* The line has more or less work now; n_before of it was runnable. */
static void line_changed(struct backend_work *line, unsigned n_before)
{
	unsigned n = n_runnable(line);

	pool.n_runnable += n - n_before;
	list_remove(&line->node);
	if (n)
		list_add_tail(&pool.ready, &line->node);
}

static void line_add(struct backend_work *line, struct backend_io *io)
{
	unsigned n_before = n_runnable(line);

	list_add_tail(&line->waiting, &io->node);
	line->n_waiting++;
	line_changed(line, n_before);
}

static struct backend_io *line_take(struct backend_work *line)
{
	unsigned n_before = n_runnable(line);
	struct list *node = list_take_first(&line->waiting);

	check(line->n_waiting > 0 && line->n_running < N_EACH);
	line->n_waiting--;
	line->n_running++;
	line_changed(line, n_before);
	return list_entry(node, struct backend_io, node);
}

/* ---- workers -------------------------------------------------------------------------------- */

static struct backend_io *take_work(void)
{
	struct backend_io *io = NULL;

	pthread_mutex_lock(&pool.lock);
	pool.n_idle++;
	while (list_is_empty(&pool.ready) && !pool.must_stop)
		pthread_cond_wait(&pool.has_work, &pool.lock);
	pool.n_idle--;
	if (!list_is_empty(&pool.ready))
		io = line_take(list_entry(pool.ready.next, struct backend_work, node));
	pthread_mutex_unlock(&pool.lock);
	return io;
}

/* If this makes work runnable, this worker finds it: it looks next. */
static void leave_line(const struct backend_io *io)
{
	struct backend_work *line;
	unsigned n_before;

	pthread_mutex_lock(&pool.lock);
	line = line_of(io);
	n_before = n_runnable(line);
	check(line->n_running > 0);
	line->n_running--;
	line_changed(line, n_before);
	pthread_mutex_unlock(&pool.lock);
}

/* A thread inherits the CPU of the poller that starts it; it may run wherever the process may. */
static void leave_poller_cpu(void)
{
	cpu_set_t cpus;

	if (sched_getaffinity(getpid(), sizeof(cpus), &cpus) == 0)
		sched_setaffinity(0, sizeof(cpus), &cpus);
}

static void *worker(void *unused)
{
	struct backend_io *io;

	leave_poller_cpu();
	while ((io = take_work())) {
		io->result = backend_step(io)->work(io);
		leave_line(io);
		io->msg.run = on_result;
		loop_send(io->loop, &io->msg);
	}
	return NULL;
}

/* Caller holds the lock. Signals are for the control thread. */
static void start_worker(void)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	if (pthread_create(&pool.threads[pool.n_threads], NULL, worker, NULL) == 0)
		pool.n_threads++;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void backend_pool_start(struct backend_io *io, int (*work)(struct backend_io *io))
{
	struct backend_work *line;
	bool has_worker;

	backend_step(io)->work = work;
	pthread_mutex_lock(&pool.lock);
	line = line_of(io);
	if (line->n_waiting + line->n_running < N_EACH && pool.n_idle <= pool.n_runnable &&
	    pool.n_threads < N_MAX)
		start_worker();
	has_worker = pool.n_threads > 0;
	if (has_worker) {
		line_add(line, io);
		pthread_cond_signal(&pool.has_work);
	}
	pthread_mutex_unlock(&pool.lock);
	if (!has_worker)
		backend_skip(io, work(io));
}

void backend_run(struct backend_thread *thread, struct backend_io *io,
		 int (*work)(struct backend_io *io))
{
	backend_take(NULL, thread, io);
	backend_pool_start(io, work);
}

void backend_pool_ref(void)
{
	pthread_mutex_lock(&pool.life);
	pool.n_refs++;
	pthread_mutex_unlock(&pool.life);
}

static void stop_workers(void)
{
	pthread_mutex_lock(&pool.lock);
	check(list_is_empty(&pool.ready));
	pool.must_stop = true;
	pthread_cond_broadcast(&pool.has_work);
	pthread_mutex_unlock(&pool.lock);
	for (unsigned i = 0; i < pool.n_threads; i++)
		pthread_join(pool.threads[i], NULL);
	pool.n_threads = 0;
	pool.must_stop = false;
}

void backend_pool_unref(void)
{
	pthread_mutex_lock(&pool.life);
	check(pool.n_refs > 0);
	if (--pool.n_refs == 0)
		stop_workers();
	pthread_mutex_unlock(&pool.life);
}
