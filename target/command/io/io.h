/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Steps that I/O commands share: they find their namespace and their range, start work of the
 * backend, and end. Poller of the queue.
 */
#pragma once

#include "base/rcu.h"
#include "target/engine/request/aging.h"
#include "target/engine/record/controller.h"
#include "target/engine/record/command_table.h"
#include "target/engine/request/parse.h"
#include "target/engine/queue/queue_path.h"
#include "target/engine/request/request_settle.h"
#include "target/export/ana.h"

/* ---- checks of parsers ---------------------------------------------------------------------- */

/* As io_find_namespace. Inline, for Read and Write. */
static inline enum nvme_status io_take_namespace(struct request *r, enum access access)
{
	const struct subsystem *subsystem = queue_subsystem(r->queue);
	struct namespace *ns = subsystem ? subsystem_namespace(subsystem, get_le32(r->sqe.nsid))
					 : NULL;
	enum nvme_status status;

	if (!ns)
		return NVME_INVALID_NSID | NVME_DNR;
	if (rcu_get(&subsystem->ana)) {
		status = queue_check_path(r->queue, ns->nsid);
		if (status != NVME_OK)
			return status;
	}
	uses_note(&r->queue->controller->uses, ns->nsid);
	request_take_namespace(r, ns);
	r->pass.access = access;
	if (access != ACCESS_WRITE)
		return NVME_OK;
	if (ns->is_read_only)
		return NVME_NS_WRITE_PROTECTED | NVME_DNR;
	if (atomic_load_explicit(&ns->backend->has_failed, memory_order_relaxed))
		return NVME_WRITE_FAULT | NVME_DNR;
	return NVME_OK;
}
/* Whether the namespace has these blocks. The sum may overflow. */
static inline bool io_is_in_range(const struct namespace *ns, uint64_t slba, uint64_t n_blocks)
{
	uint64_t end_lba;

	return !__builtin_add_overflow(slba, n_blocks, &end_lba) && end_lba <= ns->n_blocks;
}
/* Checks the range, and records it in r->pass as what the command touches. */
static inline enum nvme_status io_take_range(struct request *r, uint64_t slba, uint64_t n_blocks)
{
	const struct namespace *ns = r->ns;

	if (!io_is_in_range(ns, slba, n_blocks))
		return NVME_LBA_OUT_OF_RANGE | NVME_DNR;
	r->pass.slba = slba;
	r->pass.n_blocks = n_blocks;
	return NVME_OK;
}

/* Takes the namespace of NSID, for the access in the command's entry, and checks its path and
 * whether it is writable. */
enum nvme_status io_find_namespace(struct request *r);
/* The same, and takes the range of a command with COMMAND_HAS_RANGE. */
enum nvme_status io_find_blocks(struct request *r);

/* ---- work of the backend -------------------------------------------------------------------- */

/* The change is to be durable before the answer, whatever the command asks for: the namespace
 * promises that, or the host knows of no cache that it would flush. */
static inline bool io_is_durable(const struct request *r)
{
	return r->ns->is_write_through ||
	       (r->ns->has_cache &&
		atomic_load_explicit(&r->queue->controller->sees_no_cache, memory_order_relaxed));
}
/* Force Unit Access: the data is durable before the answer (NVM Command Set, Read and Write). */
static inline bool io_is_fua(const struct request *r)
{
	return get_le32(r->sqe.cdw12) & NVME_RW_FUA || io_is_durable(r);
}

/* One piece of work; offset and length are bytes of the namespace. */
struct io_work {
	enum backend_op op;
	bool is_fua, may_unmap;
	uint64_t offset, length;
	void *buffer;
};

/* Called on the poller of the queue when the work is over. error: 0 or -errno. */
typedef void io_done(struct backend_io *io, int error);

/* Submits r->io to the backend of r->ns; never calls done from inside. Returns BACKEND. */
static inline enum request_state io_start(struct request *r, struct io_work work, io_done *done)
{
	timing_enter(&r->timing, STAGE_BACKEND);
	if (work.op != BACKEND_READ && !r->queue->poller->is_aging)
		aging_watch(r->queue->poller);
	r->io.op = work.op;
	r->io.is_fua = work.is_fua;
	r->io.may_unmap = work.may_unmap;
	r->io.offset = work.offset;
	r->io.length = work.length;
	r->io.buffer = work.buffer;
	r->io.done = done;
	backend_submit(r->ns->backend, r->queue->poller->backends, &r->io);
	return REQUEST_BACKEND;
}
/* Reads the next piece of the range: r->n_chunk bytes from r->n_moved on. */
enum request_state io_read_piece(struct request *r, void *buffer, io_done *done);
/* Checked between pieces: the connection is over, so the rest would be wasted work. */
static inline bool io_must_stop(const struct request *r)
{
	return queue_is_dying(r->queue) || qp_is_broken(r->queue->qp.state);
}
/* For commands with one piece of work: ends the command. */
io_done io_finish;
/* The status for an error of the backend. */
enum nvme_status io_status_of(enum backend_op op, int error);

/* Ends a command that is done with the medium: uncorrectable blocks that it has written become
 * valid before the answer. Returns the next state: RESPOND; or TURN, and request_run is called
 * later. */
enum request_state io_end(struct request *r, enum nvme_status status);

/* The bytes of a piece of a long command (Verify, Copy). */
uint32_t io_chunk_bytes(const struct target *target);

/* ---- limits that Identify reports ----------------------------------------------------------- */

enum {
	COPY_RANGES_MAX = 128,
};
