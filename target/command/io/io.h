/* SPDX-License-Identifier: BSD-3-Clause */
/* I/O commands: what their files offer one another. All of it runs on the queue's poller. */
#pragma once

#include "target/engine/controller.h"
#include "target/export/guard/reservation.h"

/* ---- what the commands have in common (io.c) ---- */

static inline uint64_t io_slba(const struct request *r)
{
	return get_le32(r->sqe.cdw10) | (uint64_t)get_le32(r->sqe.cdw11) << 32;
}
static inline uint32_t io_n_blocks(const struct request *r)
{
	return (get_le32(r->sqe.cdw12) & NVME_RW_NLB_MASK) + 1;
}
/* They need r->ns, and a range that was checked. */
static inline uint64_t io_offset(const struct request *r)
{
	return io_slba(r) << r->ns->block_shift;
}
static inline uint64_t io_n_bytes(const struct request *r)
{
	return (uint64_t)io_n_blocks(r) << r->ns->block_shift;
}

/* Takes the namespace, and checks that it can be written to, if that is wanted. */
enum nvme_status io_find_namespace(struct request *r, enum access access);
bool io_is_in_range(const struct namespace *ns, uint64_t slba, uint64_t n_blocks);
/* Checks the range and notes it as what the command touches. */
enum nvme_status io_take_range(struct request *r, uint64_t slba, uint64_t n_blocks);
/* The same for commands with SLBA and NLB at the usual places. */
enum nvme_status io_find_blocks(struct request *r, enum access access);
enum nvme_status io_status_of(enum backend_op op, int error);
/* Hands r->io to the backend. */
enum request_state io_start(struct request *r, void (*done)(struct backend_io *io, int error));
/* Heals uncorrectable blocks that were written, then settles. The next state. */
enum request_state io_end(struct request *r, enum nvme_status status);
/* Counts the outcome: nothing is left to do but answer. The next state, RESPOND. */
enum request_state io_settle(struct request *r, enum nvme_status status);

/* ---- commands with files of their own: parsers, as in request.h ---- */

enum nvme_status compare_parse(struct request *r);
enum nvme_status verify_parse(struct request *r);
enum nvme_status copy_parse(struct request *r);
enum nvme_status uncorrectable_parse(struct request *r);
enum nvme_status resv_register_parse(struct request *r);
enum nvme_status resv_acquire_parse(struct request *r);
enum nvme_status resv_release_parse(struct request *r);
enum nvme_status resv_report_parse(struct request *r);

/* Bytes of memory that one long command works with at once: Compare, Verify, Copy. */
uint32_t io_chunk_bytes(const struct target *target);

/* compare.c: largest Compare and Write, in bytes. */
uint32_t fused_max_bytes(const struct target *target);

/* copy.c: what Identify says of it. */
uint32_t copy_max_range_blocks(const struct namespace *ns);
uint32_t copy_max_blocks(const struct namespace *ns);
enum {
	COPY_RANGES_MAX = 128,
};

/* resv_command.c: who has the turn changes the namespace's reservation and ends the command. */
void resv_change(struct request *r, reservation_action *action,
		 const struct reservation_wish *wish);

/* uncorrectable.c */
bool uncorrectable_is_offered(const struct namespace *ns);
bool uncorrectable_must_heal(const struct request *r);

/* lost_blocks.c: declares the command's blocks lost. */
enum request_state uncorrectable_execute(struct request *r);
/* The state to return; once the blocks are healed, or could not be, the command settles. */
enum request_state uncorrectable_heal(struct request *r);
