/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control thread of a process; see process.h.
 *
 * The sign is a page that holds 1, and that the kernel clears in a child (MADV_WIPEONFORK): so a
 * child knows itself at the cost of two loads, whatever way of forking the program takes.
 */
#include "library/process.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "base/spin.h"

const volatile unsigned *process_sign;
int (*process_choose_fabric)(const char *fabric, struct error *error);

static struct {
	/* Thread: any, under lock */
	pthread_mutex_t lock;
	unsigned n_users;
	pthread_t thread;
	struct loop loop; /* the control thread's while it runs */
} process = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int make_sign(void)
{
	size_t n = (size_t)sysconf(_SC_PAGESIZE);
	unsigned *sign;

	if (process_sign)
		return 0;
	sign = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (sign == MAP_FAILED)
		return -errno;
	if (madvise(sign, n, MADV_WIPEONFORK) < 0) {
		munmap(sign, n);
		return -errno;
	}
	*sign = 1;
	process_sign = sign;
	return 0;
}

static void *run_control(void *arg)
{
	pthread_setname_np(pthread_self(), "rblk-control");
	loop_run(&process.loop);
	return NULL;
}

/* Signals are the program's: none is delivered to this thread. */
static int start_thread(void)
{
	sigset_t all, before;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = -pthread_create(&process.thread, NULL, run_control, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return r;
}

static int start(void)
{
	int r = make_sign();

	if (r == 0)
		r = loop_init(&process.loop, 0, NULL);
	if (r < 0)
		return r;
	r = start_thread();
	if (r < 0)
		loop_deinit(&process.loop);
	return r;
}

int process_take(struct error *error)
{
	int r = 0;

	if (process_is_child())
		return error_refuse(error, -ECHILD,
				    "this process was forked from one that uses the library");
	pthread_mutex_lock(&process.lock);
	if (!process.n_users)
		r = start();
	process.n_users += r == 0;
	pthread_mutex_unlock(&process.lock);
	return r < 0 ? error_refuse(error, r, "cannot start the control thread: %s", strerror(-r))
		     : 0;
}

void process_give(void)
{
	pthread_mutex_lock(&process.lock);
	check(process.n_users > 0);
	if (!--process.n_users) {
		loop_stop(&process.loop);
		pthread_join(process.thread, NULL);
		loop_deinit(&process.loop);
	}
	pthread_mutex_unlock(&process.lock);
}

struct loop *process_loop(void)
{
	return &process.loop;
}

struct call {
	struct loop_msg msg;
	void (*run)(void *arg);
	void *arg;
	sem_t done;
};

static void on_call(struct loop_msg *msg)
{
	struct call *call = container_of(msg, struct call, msg);

	call->run(call->arg);
	sem_post(&call->done);
}

void process_call(void (*run)(void *arg), void *arg)
{
	struct call call = {.msg.run = on_call, .run = run, .arg = arg};

	sem_init(&call.done, 0, 0);
	loop_send(&process.loop, &call.msg);
	while (sem_wait(&call.done) < 0)
		check(errno == EINTR);
	sem_destroy(&call.done);
}
