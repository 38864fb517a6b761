/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flush, of one namespace or of all. Poller of the queue.
 *
 * A flush that fails may have lost writes that were answered: the kernel reports that once and then
 * treats the pages as clean. From then on the namespace refuses writes and flushes until rblkd
 * starts again, so that no later flush succeeds over lost data.
 */
#include "target/command/io/io.h"
#include "target/engine/queue/queue_path.h"
#include "target/engine/request/request_enter.h"
#include "target/engine/request/request_run.h"
#include "target/export/io_errors.h"

static enum request_state execute(struct request *r);

static void on_done(struct backend_io *io, int error)
{
	struct request *r = container_of(io, struct request, io);

	counter_add(&r->counters->n_flushes, 1);
	if (error < 0)
		namespace_fail(r->ns, error);
	if (error < 0 || get_le32(r->sqe.nsid) != NVME_NSID_ALL || queue_is_dying(r->queue)) {
		request_run(r, io_end(r, io_status_of(BACKEND_FLUSH, error)));
		return;
	}
	r->range = r->ns->nsid;
	request_give_namespace(r);
	if (execute(r) == REQUEST_RESPOND)
		request_run(r, REQUEST_RESPOND);
}

/* Enters the next namespace above r->range, the last one that was flushed. Returns GONE once the
 * command is admitted, otherwise the next state. */
static enum request_state enter_next(struct request *r)
{
	const struct subsystem *subsystem = queue_subsystem(r->queue);
	struct namespace *ns = subsystem ? subsystem_next_namespace(subsystem, r->range) : NULL;
	enum nvme_status status;

	if (!ns)
		return request_end(r, NVME_OK);
	/* Success would claim a flush of a namespace that this controller does not reach. */
	status = queue_check_path(r->queue, ns->nsid);
	if (status != NVME_OK)
		return request_end(r, status);
	request_take_namespace(r, ns);
	r->pass.access = r->command->access;
	return request_enter(r);
}

static enum request_state execute(struct request *r)
{
	if (get_le32(r->sqe.nsid) == NVME_NSID_ALL) {
		enum request_state next = enter_next(r);

		if (next != REQUEST_GONE)
			return next;
	}
	if (atomic_load_explicit(&r->ns->backend->has_failed, memory_order_relaxed))
		return io_end(r, NVME_WRITE_FAULT | NVME_DNR);
	return io_start(r, (struct io_work){.op = BACKEND_FLUSH}, on_done);
}

static enum nvme_status parse(struct request *r)
{
	r->range = 0;
	return get_le32(r->sqe.nsid) == NVME_NSID_ALL ? NVME_OK : io_find_namespace(r);
}

const struct nvme_command flush_command = {
	.opcode = NVME_IO_FLUSH,
	.name = "Flush",
	.parse = parse,
	.execute = execute,
	.access = ACCESS_SETTLE,
	.effects = NVME_EFFECT_CSUPP,
};
