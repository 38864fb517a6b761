/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * I/O commands: Read, Write, Flush, Write Zeroes, Dataset Management. The queue's poller.
 *
 * Parsing checks all that can be checked before data moves: namespace, range without overflow,
 * length against the SGL, write protection. Executing hands a backend_io to the backend, or, for
 * memory, is done already when the data is there. Of the namespace only its immutable parts are
 * used; the request counts in its n_in_flight until it finishes.
 *
 * A flush that fails may have lost writes that were acknowledged: the kernel reports that once and
 * then calls the pages clean. From then on the namespace refuses writes and flushes until restart,
 * so that no later flush says "all is safe" (reliability F9).
 */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/rcu.h"
#include "base/shared_memory.h"
#include "target/engine/controller.h"
#include "target/command/io/io.h"
#include "target/export/io_errors.h"

/* ---- outcomes ------------------------------------------------------------------------------ */

enum nvme_status io_status_of(enum backend_op op, int error)
{
	switch (-error) {
	case 0:
		return NVME_OK;
	case ENOSPC:
	case EDQUOT:
		return NVME_CAPACITY_EXCEEDED | NVME_DNR;
	case EROFS:
	case EPERM:
		return NVME_NS_WRITE_PROTECTED | NVME_DNR;
	case EOPNOTSUPP:
		return NVME_INVALID_OPCODE | NVME_DNR;
	case EAGAIN:
	case ENOMEM:
	case EBUSY:
	case EINTR:
		return NVME_INTERRUPTED; /* the host may try again */
	default:
		return (op == BACKEND_READ ? NVME_UNRECOVERED_READ : NVME_WRITE_FAULT) | NVME_DNR;
	}
}

static inline void count_read(struct request *r, uint32_t n_bytes, uint32_t n_blocks)
{
	struct namespace_counters *counters = r->counters;
	struct queue_counters *mine = &r->queue->counters;

	counter_add(&mine->n_reads, 1);
	counter_add(&mine->read_bytes, n_bytes);
	counter_add(&counters->n_reads, 1);
	counter_add(&counters->read_blocks, n_blocks);
}

/* What SMART counts as reads and writes of hosts (NVM Command Set 4.1.4.2). */
static void count(struct request *r)
{
	struct namespace_counters *counters = r->counters;
	struct queue_counters *mine = &r->queue->counters;
	uint64_t n_bytes = io_n_bytes(r), n_blocks = n_bytes >> r->ns->block_shift;

	switch (r->sqe.opcode) {
	case NVME_IO_READ:
		count_read(r, r->length, (uint32_t)n_blocks);
		break;
	case NVME_IO_COMPARE:
		counter_add(&counters->n_reads, 1);
		/* fall through */
	case NVME_IO_VERIFY:
		counter_add(&counters->read_blocks, n_blocks);
		break;
	case NVME_IO_WRITE:
		counter_add(&counters->n_writes, 1);
		counter_add(&counters->written_blocks, n_blocks);
		counter_add(&mine->n_writes, 1);
		counter_add(&mine->written_bytes, n_bytes);
		break;
	case NVME_IO_COPY:
		counter_add(&counters->n_writes, 1);
		counter_add(&counters->written_blocks, r->n_moved >> r->ns->block_shift);
		break;
	default:
		break;
	}
}

/* Of what the medium has lost or does not take. */
static bool is_media_error(enum nvme_status status)
{
	enum nvme_status code = nvme_status_code(status);

	return code == NVME_UNRECOVERED_READ || code == NVME_WRITE_FAULT;
}

enum request_state io_settle(struct request *r, enum nvme_status status)
{
	struct namespace_counters *counters = r->counters;

	if (status == NVME_OK)
		count(r);
	else
		counter_add(&counters->n_errors, 1);
	if (is_media_error(status))
		counter_add(&counters->n_media_errors, 1);
	return request_end(r, status);
}

enum request_state io_end(struct request *r, enum nvme_status status)
{
	/* A write brings a block back that was uncorrectable. */
	if (status == NVME_OK && r->direction != DIRECTION_C2H && uncorrectable_must_heal(r))
		return uncorrectable_heal(r);
	return io_settle(r, status);
}

static void on_io_done(struct backend_io *io, int error)
{
	struct request *r = container_of(io, struct request, io);
	enum request_state next = io_end(r, io_status_of(io->op, error));

	request_run(r, next);
}

enum request_state io_start(struct request *r, void (*done)(struct backend_io *io, int error))
{
	timing_enter(&r->timing, STAGE_BACKEND);
	r->io.done = done;
	backend_submit(r->ns->backend, r->queue->poller->backends, &r->io);
	return REQUEST_BACKEND;
}

/* ---- checks -------------------------------------------------------------------------------- */

bool io_is_in_range(const struct namespace *ns, uint64_t slba, uint64_t n_blocks)
{
	uint64_t end_lba;

	return !__builtin_add_overflow(slba, n_blocks, &end_lba) && end_lba <= ns->n_blocks;
}

static inline enum nvme_status find_namespace(struct request *r, enum access access)
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
	request_take_namespace(r, ns);
	r->pass.access = access;
	if (access != ACCESS_WRITE || r->sqe.opcode == NVME_IO_FLUSH)
		return NVME_OK;
	if (ns->is_read_only)
		return NVME_NS_WRITE_PROTECTED | NVME_DNR;
	if (atomic_load_explicit(&ns->has_failed, memory_order_relaxed))
		return NVME_WRITE_FAULT | NVME_DNR;
	return NVME_OK;
}

enum nvme_status io_find_namespace(struct request *r, enum access access)
{
	return find_namespace(r, access);
}

enum nvme_status io_take_range(struct request *r, uint64_t slba, uint64_t n_blocks)
{
	if (!io_is_in_range(r->ns, slba, n_blocks))
		return NVME_LBA_OUT_OF_RANGE | NVME_DNR;
	r->pass.slba = slba;
	r->pass.n_blocks = n_blocks;
	return NVME_OK;
}

static inline enum nvme_status find_blocks(struct request *r, enum access access)
{
	enum nvme_status status = find_namespace(r, access);

	return status == NVME_OK ? io_take_range(r, io_slba(r), io_n_blocks(r)) : status;
}

enum nvme_status io_find_blocks(struct request *r, enum access access)
{
	return find_blocks(r, access);
}

/* ---- Read and Write ------------------------------------------------------------------------ */

/* Memory that the device can reach needs no buffer to be read; data in the capsule needs only the memory. */
static inline __attribute__((always_inline)) void choose_direct(struct request *r, uint64_t offset)
{
	struct namespace *ns = r->ns;
	unsigned device = r->queue->pd->device->index;
	bool is_registered = atomic_load_explicit(&ns->registered, memory_order_acquire) >> device &
			     1;

	/* What it grew by is not. */
	is_registered = is_registered && offset + r->length <= ns->mr_bytes[device];
	if (!ns->memory ||
	    !(r->direction == DIRECTION_C2H ? is_registered : r->sgl.place == SGL_CAPSULE))
		return;
	r->is_direct = true;
	r->data = (char *)ns->memory + offset;
	if (is_registered)
		r->lkey = ns->mrs[device].lkey;
}

/* To or from memory, if none of it is in use by others. */
static bool move_at_once(const struct request *r, uint64_t offset)
{
	const struct namespace *ns = r->ns;

	return r->length ==
	       (r->direction == DIRECTION_H2C
			? whole_write(ns->whole, ns->memory, offset, r->data, r->length)
			: whole_read(ns->whole, ns->memory, offset, r->data, r->length));
}

/* A write is at one of the blocks, or waits for it: the read gets a copy. It does not wait inside. */
static __attribute__((noinline)) enum request_state read_by_copy(struct request *r)
{
	pass_leave(&r->pass);
	r->is_direct = false;
	return REQUEST_TAKE_BUFFER;
}

/* Data is or goes to where no backend is needed for it, or it is. */
static __attribute__((noinline)) enum request_state transfer(struct request *r)
{
	bool is_write = r->direction == DIRECTION_H2C;
	uint64_t offset = io_offset(r);

	if (r->ns->memory && move_at_once(r, offset))
		return io_end(r, NVME_OK);
	r->io.op = is_write ? BACKEND_WRITE : BACKEND_READ;
	r->io.is_fua = get_le32(r->sqe.cdw12) & NVME_RW_FUA;
	r->io.may_unmap = false;
	r->io.offset = offset;
	r->io.length = r->length;
	r->io.buffer = r->data;
	return io_start(r, on_io_done);
}

static __attribute__((noinline)) enum request_state read_many(struct request *r)
{
	if (!whole_take(r->ns->whole, io_offset(r), r->length, &r->hold))
		return read_by_copy(r);
	count_read(r, r->length, r->length >> r->ns->block_shift);
	return request_end(r, NVME_OK);
}

static enum request_state execute_transfer(struct request *r)
{
	const struct namespace *ns = r->ns;
	uint32_t n_bytes = r->length;
	unsigned block_shift = ns->block_shift;
	uint64_t offset = io_slba(r) << block_shift;

	if (!r->is_direct || r->direction != DIRECTION_C2H)
		return transfer(r);
	/* What is kept in registers is loaded once: calls but those at the end would cost more. */
	if (__builtin_expect(!whole_is_one(offset, n_bytes), 0))
		return read_many(r);
	if (__builtin_expect(!whole_take_one(ns->whole, offset, &r->hold), 0))
		return read_by_copy(r);
	/* as io_end: the device takes the data from where it is */
	count_read(r, n_bytes, n_bytes >> block_shift);
	return request_end(r, NVME_OK);
}

static inline enum nvme_status parse_transfer(struct request *r, enum direction direction)
{
	enum access access = direction == DIRECTION_H2C ? ACCESS_WRITE : ACCESS_READ;
	enum nvme_status status = find_blocks(r, access);

	if (status != NVME_OK)
		return status;
	r->direction = direction;
	r->length = (uint32_t)io_n_bytes(r); /* at most 2^16 blocks of 2^12 bytes */
	r->execute = execute_transfer;
	status = request_check_sgl(r, true);
	if (status == NVME_OK && !request_fuse(r))
		choose_direct(r, io_offset(r));
	return status;
}

/* ---- Flush --------------------------------------------------------------------------------- */

static enum request_state flush_from(struct request *r);

static void on_flush_done(struct backend_io *io, int error)
{
	struct request *r = container_of(io, struct request, io);

	counter_add(&r->counters->n_flushes, 1);
	if (error < 0)
		namespace_fail(r->ns, error);
	if (error < 0 || get_le32(r->sqe.nsid) != NVME_NSID_ALL || r->queue->is_dying) {
		request_run(r, io_end(r, io_status_of(BACKEND_FLUSH, error)));
		return;
	}
	r->range = r->ns->nsid;
	request_give_namespace(r);
	if (flush_from(r) == REQUEST_RESPOND)
		request_run(r, REQUEST_RESPOND);
}

/* Flushes r->ns, or, of all namespaces, the next one above r->range. */
static enum request_state flush_from(struct request *r)
{
	const struct subsystem *subsystem;
	enum request_state next;
	enum nvme_status status;
	struct namespace *ns;

	if (get_le32(r->sqe.nsid) == NVME_NSID_ALL) {
		subsystem = queue_subsystem(r->queue);
		ns = subsystem ? subsystem_next_namespace(subsystem, r->range) : NULL;
		if (!ns)
			return request_end(r, NVME_OK);
		/* "All is safe" must not be said of what is not reached. */
		status = queue_check_path(r->queue, ns->nsid);
		if (status != NVME_OK)
			return request_end(r, status);
		request_take_namespace(r, ns);
		r->pass.access = ACCESS_WRITE;
		next = (enum request_state)guard_enter(r);
		if (next != REQUEST_GONE)
			return next;
	}
	if (atomic_load_explicit(&r->ns->has_failed, memory_order_relaxed))
		return io_end(r, NVME_WRITE_FAULT | NVME_DNR);
	r->io.op = BACKEND_FLUSH;
	r->io.offset = r->io.length = 0;
	return io_start(r, on_flush_done);
}

static enum nvme_status parse_flush(struct request *r)
{
	r->execute = flush_from;
	r->range = 0;
	return get_le32(r->sqe.nsid) == NVME_NSID_ALL ? NVME_OK
						      : io_find_namespace(r, ACCESS_WRITE);
}

/* ---- Write Zeroes -------------------------------------------------------------------------- */

static enum request_state execute_zeroes(struct request *r)
{
	uint32_t cdw12 = get_le32(r->sqe.cdw12);

	r->io.op = BACKEND_WRITE_ZEROES;
	r->io.is_fua = cdw12 & NVME_RW_FUA;
	r->io.may_unmap = cdw12 & NVME_WZ_DEAC;
	r->io.offset = io_offset(r);
	r->io.length = io_n_bytes(r);
	r->io.buffer = NULL;
	return io_start(r, on_io_done);
}

static enum nvme_status parse_zeroes(struct request *r)
{
	r->execute = execute_zeroes;
	return io_find_blocks(r, ACCESS_WRITE);
}

/* ---- Dataset Management -------------------------------------------------------------------- */

static struct nvme_dsm_range range_at(const struct request *r, unsigned i)
{
	struct nvme_dsm_range range;

	memcpy(&range, (const char *)r->data + i * sizeof(range), sizeof(range));
	return range;
}

static enum request_state discard_from(struct request *r);

static void on_discarded(struct backend_io *io, int error)
{
	struct request *r = container_of(io, struct request, io);
	enum request_state next;

	r->range++;
	/* Deallocating is a wish: a backend that cannot does nothing. */
	if (error < 0 && error != -EOPNOTSUPP)
		next = io_end(r, io_status_of(BACKEND_DISCARD, error));
	else if (r->queue->is_dying)
		next = REQUEST_RESPOND;
	else
		next = discard_from(r);
	if (next != REQUEST_BACKEND)
		request_run(r, next);
}

/* Hands the next range that is not empty to the backend. */
static enum request_state discard_from(struct request *r)
{
	for (; r->range < r->n_ranges; r->range++) {
		struct nvme_dsm_range range = range_at(r, r->range);

		if (!get_le32(range.nlb))
			continue;
		r->io.op = BACKEND_DISCARD;
		r->io.offset = get_le64(range.slba) << r->ns->block_shift;
		r->io.length = (uint64_t)get_le32(range.nlb) << r->ns->block_shift;
		r->io.buffer = NULL;
		return io_start(r, on_discarded);
	}
	return io_end(r, NVME_OK);
}

static enum request_state execute_dsm(struct request *r)
{
	for (unsigned i = 0; i < r->n_ranges; i++) {
		struct nvme_dsm_range range = range_at(r, i);

		if (!io_is_in_range(r->ns, get_le64(range.slba), get_le32(range.nlb)))
			return io_end(r, NVME_LBA_OUT_OF_RANGE | NVME_DNR);
	}
	/* Hints without Deallocate are taken note of, which is all they ask for. */
	if (!(get_le32(r->sqe.cdw11) & NVME_DSM_AD) || !r->ns->backend->limits.can_discard)
		return io_end(r, NVME_OK);
	return discard_from(r);
}

static enum nvme_status parse_dsm(struct request *r)
{
	enum nvme_status status = io_find_namespace(r, ACCESS_WRITE);

	if (status != NVME_OK)
		return status;
	r->pass.n_blocks = UINT64_MAX; /* its ranges are not known yet */
	r->n_ranges = (get_le32(r->sqe.cdw10) & NVME_DSM_NR_MASK) + 1;
	r->range = 0;
	r->direction = DIRECTION_H2C;
	r->length = r->n_ranges * (uint32_t)sizeof(struct nvme_dsm_range);
	r->execute = execute_dsm;
	/* Linux always describes 4096 bytes. */
	return request_check_sgl(r, false);
}

/* ---- dispatch ------------------------------------------------------------------------------ */

/* All but Read; apart, so that what a Read goes through stays small. */
static __attribute__((noinline)) enum nvme_status parse_other(struct request *r)
{
	switch (r->sqe.opcode) {
	case NVME_IO_WRITE:
		return parse_transfer(r, DIRECTION_H2C);
	case NVME_IO_FLUSH:
		return parse_flush(r);
	case NVME_IO_WRITE_ZEROES:
		return parse_zeroes(r);
	case NVME_IO_DSM:
		return parse_dsm(r);
	case NVME_IO_COMPARE:
		return compare_parse(r);
	case NVME_IO_VERIFY:
		return verify_parse(r);
	case NVME_IO_COPY:
		return copy_parse(r);
	case NVME_IO_WRITE_UNCORRECTABLE:
		return uncorrectable_parse(r);
	case NVME_IO_RESERVATION_REGISTER:
		return resv_register_parse(r);
	case NVME_IO_RESERVATION_ACQUIRE:
		return resv_acquire_parse(r);
	case NVME_IO_RESERVATION_RELEASE:
		return resv_release_parse(r);
	case NVME_IO_RESERVATION_REPORT:
		return resv_report_parse(r);
	default:
		return NVME_INVALID_OPCODE | NVME_DNR;
	}
}

enum nvme_status io_parse(struct request *r)
{
	if (!atomic_load_explicit(&r->queue->controller->is_ready, memory_order_acquire))
		return NVME_COMMAND_SEQUENCE | NVME_DNR;
	if (r->sqe.opcode == NVME_IO_READ)
		return parse_transfer(r, DIRECTION_C2H);
	return parse_other(r);
}
