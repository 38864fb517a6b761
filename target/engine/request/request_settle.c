/* SPDX-License-Identifier: BSD-3-Clause */
/* See request_settle.h. */
#include "base/bits.h"
#include "target/engine/record/command_table.h"
#include "target/engine/request/request_settle.h"

/* Counts as SMART does reads and writes of hosts (NVM Command Set 1.0, 4.1.4.2). */
static void count(struct request *r)
{
	struct namespace_counters *counters = r->counters;
	struct queue_counters *mine = &r->queue->counters;
	unsigned flags = r->command->flags;
	/* A command that moves its data in pieces counts them in n_moved. */
	uint64_t n_bytes = r->n_moved ? r->n_moved : request_n_bytes(r);
	uint64_t n_blocks = n_bytes >> r->ns->block_shift;

	if (flags & COMMAND_COUNTS_READ)
		counter_add(&counters->n_reads, 1);
	if (flags & COMMAND_COUNTS_READ_BLOCKS)
		counter_add(&counters->read_blocks, n_blocks);
	if (flags & COMMAND_COUNTS_WRITE)
		counter_add(&counters->n_writes, 1);
	if (flags & COMMAND_COUNTS_WRITTEN_BLOCKS)
		counter_add(&counters->written_blocks, n_blocks);
	if (!(flags & COMMAND_COUNTS_IN_QUEUE))
		return;
	if (flags & COMMAND_COUNTS_READ) {
		counter_add(&mine->n_reads, 1);
		counter_add(&mine->read_bytes, n_bytes);
	} else {
		counter_add(&mine->n_writes, 1);
		counter_add(&mine->written_bytes, n_bytes);
	}
}

/* The medium lost the data, or rejects a write. */
static bool is_media_error(enum nvme_status status)
{
	enum nvme_status code = nvme_status_code(status);

	return code == NVME_UNRECOVERED_READ || code == NVME_WRITE_FAULT;
}

static NOINLINE void count_error(struct request *r, enum nvme_status status)
{
	counter_add(&r->counters->n_errors, 1);
	if (is_media_error(status))
		counter_add(&r->counters->n_media_errors, 1);
}

enum request_state request_settle(struct request *r, enum nvme_status status)
{
	if (status == NVME_OK)
		count(r);
	else
		count_error(r, status);
	return request_end(r, status);
}
