/* SPDX-License-Identifier: BSD-3-Clause */
/* See io_errors.h. Pollers report errors; they wait for the lock only during a copy. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "target/export/io_errors.h"
#include "transport/wire/strings.h"

enum {
	BURST = 5, /* records of a namespace at once; then one a second */
};

static enum io_error_kind kind_of(enum backend_op op, int error)
{
	switch (-error) { /* as io_status_of() */
	case ENOSPC:
	case EDQUOT:
		return IO_ERROR_SPACE;
	case EAGAIN:
	case ENOMEM:
	case EBUSY:
	case EINTR:
		return IO_ERROR_BUSY;
	default:
		break;
	}
	switch (op) {
	case BACKEND_READ:
		return IO_ERROR_READ;
	case BACKEND_FLUSH:
		return IO_ERROR_FLUSH;
	case BACKEND_DISCARD:
		return IO_ERROR_DISCARD;
	case BACKEND_WRITE:
	case BACKEND_WRITE_ZEROES:
	case BACKEND_N_OPS:
		break;
	}
	return IO_ERROR_WRITE;
}

static const char *flush_of(enum backend_purpose purpose)
{
	switch (purpose) {
	case BACKEND_FOR_COMMAND:
		break;
	case BACKEND_FOR_SHUTDOWN:
		return "flush at shutdown";
	case BACKEND_FOR_END:
		return "last sync";
	}
	return "flush";
}

static const char *operation_of(struct backend_io *io)
{
	switch (io->op) {
	case BACKEND_READ:
		return "read";
	case BACKEND_WRITE:
		return io->is_fua ? "write with FUA" : "write";
	case BACKEND_FLUSH:
		return flush_of(io->purpose);
	case BACKEND_WRITE_ZEROES:
		return io->is_fua ? "write zeroes with FUA" : "write zeroes";
	case BACKEND_DISCARD:
		return "discard";
	case BACKEND_N_OPS:
		break;
	}
	return "I/O";
}

static const char *find_no_host(struct backend_io *io)
{
	return "";
}

static io_errors_host_fn *find_host = find_no_host;

void io_errors_find_hosts(io_errors_host_fn *find)
{
	find_host = find;
}

/* The kernel's "No data available" is a sector that it cannot read (BLK_STS_MEDIUM). */
static const char *words_of(struct backend_io *io, int error)
{
	if (io->is_short)
		return "it ends before that: file or device is smaller than the namespace";
	return error == -ENODATA ? "medium error" : strerror(-error);
}

static void describe(const struct namespace *ns, struct backend_io *io, int error,
		     struct io_error *ret_error)
{
	const char *name = strerrorname_np(-error);

	*ret_error = (struct io_error){
		.time_s = (uint64_t)clock_wall_s(),
		.lba = io->op == BACKEND_FLUSH ? 0 : io->offset >> ns->block_shift,
		.blocks = io->op == BACKEND_FLUSH ? 0 : io->length >> ns->block_shift,
	};
	snprintf(ret_error->host, sizeof(ret_error->host), "%s", find_host(io));
	snprintf(ret_error->operation, sizeof(ret_error->operation), "%s", operation_of(io));
	snprintf(ret_error->words, sizeof(ret_error->words), "%s", words_of(io, error));
	snprintf(ret_error->name, sizeof(ret_error->name), "%s", name ? name : "");
}

static void say(const struct namespace *ns, const struct io_error *error, unsigned n_unsaid)
{
	char range[64], host[NVMF_NQN_MAX + sizeof("; host ")] = "", unsaid[48] = "";

	nvme_range_format(range, sizeof(range), error->lba, error->blocks);
	/* Without one it is a sync of rblkd's own: as it ends, or closes the namespace. */
	if (error->host[0])
		snprintf(host, sizeof(host), "; host %s", error->host);
	if (n_unsaid)
		snprintf(unsaid, sizeof(unsaid), "; %u more before", n_unsaid);
	log_warn_about(
		LOG_ABOUT(.subsystem = ns->errors->subnqn, .nsid = ns->nsid, .host = error->host),
		"namespace %s/%u, %s: %s%s failed: %s%s%s", ns->errors->subnqn, ns->nsid,
		ns->path ? ns->path : ns->kind, error->operation, range, error->words, host,
		unsaid);
}

void namespace_fail(struct namespace *ns, int error)
{
	bool was_told;

	atomic_store(&ns->backend->has_failed, true);
	pthread_mutex_lock(&ns->errors->lock);
	was_told = ns->errors->is_failure_told;
	ns->errors->is_failure_told = true;
	pthread_mutex_unlock(&ns->errors->lock);
	if (!was_told)
		log_err_about(
			LOG_ABOUT(.subsystem = ns->errors->subnqn, .nsid = ns->nsid),
			"namespace %u (%s): sync failed: %s; acknowledged writes may be lost: refusing writes and flushes until rblkd is restarted",
			ns->nsid, ns->path ? ns->path : ns->kind, strerror(-error));
}

static void on_error(struct backend *backend, struct backend_io *io, int error)
{
	struct namespace *ns = backend->owner;
	struct io_errors *errors = ns->errors;
	enum io_error_kind kind = kind_of(io->op, error);
	struct io_error last;
	bool must_say;
	unsigned n_unsaid;

	/* No host hears of it, and the store is the next owner's. */
	if (atomic_load(&backend->lost_why))
		return;
	/* Not an error: the store never supported this operation. */
	if (error == -EOPNOTSUPP && (io->op == BACKEND_DISCARD || io->op == BACKEND_WRITE_ZEROES))
		return;
	describe(ns, io, error, &last);
	pthread_mutex_lock(&errors->lock);
	errors->figures.counts[kind]++;
	errors->figures.is_degraded |= kind != IO_ERROR_BUSY;
	errors->figures.last = last;
	must_say = log_limit_pass(&errors->limit, BURST);
	n_unsaid = errors->limit.suppressed;
	if (must_say)
		errors->limit.suppressed = 0;
	pthread_mutex_unlock(&errors->lock);
	if (must_say)
		say(ns, &last, n_unsaid);
	if (atomic_load(&backend->has_failed))
		namespace_fail(ns, error);
}

bool io_errors_watch(struct namespace *ns, const char *subnqn)
{
	check(!ns->errors && !ns->backend->on_error);
	ns->errors = calloc(1, sizeof(*ns->errors));
	if (!ns->errors)
		return false;
	snprintf(ns->errors->subnqn, sizeof(ns->errors->subnqn), "%s", subnqn);
	pthread_mutex_init(&ns->errors->lock, NULL);
	ns->backend->owner = ns;
	ns->backend->on_error = on_error;
	return true;
}

void io_errors_free(struct namespace *ns)
{
	if (!ns->errors)
		return;
	pthread_mutex_destroy(&ns->errors->lock);
	free(ns->errors);
	ns->errors = NULL;
}

void io_errors_read(const struct namespace *ns, struct io_errors_figures *ret_figures)
{
	pthread_mutex_lock(&ns->errors->lock);
	*ret_figures = ns->errors->figures;
	pthread_mutex_unlock(&ns->errors->lock);
}

bool io_errors_clear(struct namespace *ns)
{
	bool was_degraded;

	pthread_mutex_lock(&ns->errors->lock);
	was_degraded = ns->errors->figures.is_degraded;
	ns->errors->figures.is_degraded = false;
	pthread_mutex_unlock(&ns->errors->lock);
	return was_degraded;
}

uint64_t io_errors_total(const struct io_errors_figures *figures)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < IO_ERROR_KINDS; i++)
		n += figures->counts[i];
	return n;
}

const char *io_error_kind_name(enum io_error_kind kind)
{
	static const char *const names[] = {
		[IO_ERROR_READ] = "read",      [IO_ERROR_WRITE] = "write",
		[IO_ERROR_FLUSH] = "flush",    [IO_ERROR_DISCARD] = "discard",
		[IO_ERROR_SPACE] = "no_space", [IO_ERROR_BUSY] = "busy",
	};

	return names[kind];
}
