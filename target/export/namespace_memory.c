/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See namespace_memory.h. The control thread queues jobs. The register thread takes one after the
 * other, and publishes the registration itself, in namespace.registered. A job stays in the list
 * until it is over, so the lock makes both waiting and running jobs visible. The first job starts
 * the thread.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <linux/capability.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/huge_page.h"
#include "target/export/namespace_memory.h"
#include "target/export/namespace.h"

enum {
	STEP_BYTES = 8 * HUGE_PAGE_BYTES,
};

enum job_state {
	JOB_WAITS,
	JOB_RUNS,      /* on the register thread */
	JOB_CANCELLED, /* likewise, and it ends soon */
};

struct job {
	struct list node;
	struct namespace *ns;
	const struct domain *domain;
	size_t n_bytes;
	_Atomic unsigned state; /* enum job_state; changes under the lock */
	char what[NVMF_NQN_MAX + 32];
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t has_changed;
	struct list jobs; /* the first may be running */
	bool must_stop;
	/* Thread: control */
	bool has_thread;
	pthread_t thread;
} line = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.has_changed = PTHREAD_COND_INITIALIZER,
	.jobs = LIST_INIT(line.jobs),
};

/* Whether the kernel would register that much memory. Checked first: do not fault in pages that
 * registration would then refuse. */
static bool may_lock(size_t n_bytes)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct caps[2] = {0};
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur >= n_bytes)
		return true;
	return syscall(SYS_capget, &header, caps) == 0 && caps[0].effective & 1u << CAP_IPC_LOCK;
}

/* Faults the pages in, step by step, so that it can be cancelled: that is the slow part of a
 * registration, which then finds the pages present. Kernels before 5.14 cannot do it. */
static void find_pages(struct job *job)
{
	char *memory = job->ns->memory;

	if (!may_lock(job->n_bytes))
		return;
	for (size_t at = 0; at < job->n_bytes; at += STEP_BYTES) {
		size_t n = MIN(job->n_bytes - at, (size_t)STEP_BYTES);

		if (atomic_load(&job->state) == JOB_CANCELLED ||
		    huge_page_populate(memory + at, n) < 0)
			return;
	}
}

static void run(struct job *job)
{
	struct namespace *ns = job->ns;
	unsigned index = job->domain->device->index;
	char why[160];
	const char *hint;
	int r;

	find_pages(job);
	if (atomic_load(&job->state) == JOB_CANCELLED)
		return;
	r = mr_open(job->domain, ns->memory, job->n_bytes, MR_SINK, &ns->mrs[index]);
	if (r < 0) {
		hint = mr_explain(r, job->n_bytes, why, sizeof(why));
		log_warn("%s: %s: its data is copied%s%s", job->what, why, *hint ? "; " : "", hint);
		return;
	}
	ns->mr_bytes[index] = job->n_bytes;
	atomic_fetch_or(&ns->registered, 1U << index);
	log_debug("%s: registered with %s", job->what, job->domain->device->name);
}

/* ---- the thread ----------------------------------------------------------------------------- */

static struct job *take_job(void)
{
	struct job *job = NULL;

	pthread_mutex_lock(&line.lock);
	while (list_is_empty(&line.jobs) && !line.must_stop)
		pthread_cond_wait(&line.has_changed, &line.lock);
	if (!line.must_stop) {
		job = list_entry(line.jobs.next, struct job, node);
		atomic_store(&job->state, JOB_RUNS);
	}
	pthread_mutex_unlock(&line.lock);
	return job;
}

static void end_job(struct job *job)
{
	pthread_mutex_lock(&line.lock);
	list_remove(&job->node);
	pthread_cond_broadcast(&line.has_changed);
	pthread_mutex_unlock(&line.lock);
	free(job);
}

static void *run_jobs(void *arg)
{
	struct job *job;

	pthread_setname_np(pthread_self(), "register");
	while ((job = take_job())) {
		run(job);
		end_job(job);
	}
	return NULL;
}

/* ---- control -------------------------------------------------------------------------------- */

/* Caller holds the lock. */
static struct job *find_job(const struct namespace *ns, unsigned device_index)
{
	list_for_each (node, &line.jobs) {
		struct job *job = list_entry(node, struct job, node);

		if (job->ns == ns && job->domain->device->index == device_index)
			return job;
	}
	return NULL;
}

static bool is_known(const struct namespace *ns, unsigned device_index)
{
	bool is_it;

	pthread_mutex_lock(&line.lock);
	is_it = find_job(ns, device_index) || atomic_load(&ns->registered) >> device_index & 1;
	pthread_mutex_unlock(&line.lock);
	return is_it;
}

static bool has_thread(void)
{
	if (!line.has_thread)
		line.has_thread = !pthread_create(&line.thread, NULL, run_jobs, NULL);
	return line.has_thread;
}

void namespace_memory_register(struct namespace *ns, const struct domain *domain, const char *what)
{
	struct job now = {
		.ns = ns, .domain = domain, .n_bytes = (size_t)(ns->n_blocks << ns->block_shift)};
	struct job *job;

	check(domain->pd && domain->device->index < DEVICE_MAX);
	if (!ns->memory || is_known(ns, domain->device->index))
		return;
	snprintf(now.what, sizeof(now.what), "%s", what);
	job = has_thread() ? malloc(sizeof(*job)) : NULL;
	if (!job) {
		run(&now); /* without a thread: slow, but correct */
		return;
	}
	*job = now;
	pthread_mutex_lock(&line.lock);
	list_add_tail(&line.jobs, &job->node);
	pthread_cond_broadcast(&line.has_changed);
	pthread_mutex_unlock(&line.lock);
}

static void settle(const struct namespace *ns, unsigned device_index)
{
	struct job *job;

	pthread_mutex_lock(&line.lock);
	while ((job = find_job(ns, device_index)) && atomic_load(&job->state) != JOB_WAITS) {
		atomic_store(&job->state, JOB_CANCELLED);
		pthread_cond_wait(&line.has_changed, &line.lock);
	}
	if (job)
		list_remove(&job->node);
	pthread_mutex_unlock(&line.lock);
	free(job);
}

void namespace_memory_forget(struct namespace *ns, unsigned device_index)
{
	if (!ns->memory)
		return;
	settle(ns, device_index);
	atomic_fetch_and(&ns->registered, ~(1U << device_index));
	mr_close(&ns->mrs[device_index]);
}

void namespace_memory_end(void)
{
	if (!line.has_thread)
		return;
	check(list_is_empty(&line.jobs));
	pthread_mutex_lock(&line.lock);
	line.must_stop = true;
	pthread_cond_broadcast(&line.has_changed);
	pthread_mutex_unlock(&line.lock);
	pthread_join(line.thread, NULL);
	line.has_thread = line.must_stop = false;
}
