/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Four hosts at once, each a process, on the same few blocks; everything they do and see is written
 * down with a number for its begin and its end, and judged afterwards (history.c).
 *
 * Compare and Write: each block is a register, which pairs and plain Writes change. A value is
 * written once only, so the history shows whether a pair saw what was not written yet, or what was
 * replaced before it was sent, and whether another change came between its halves. Reservations: a
 * host that has preempted writes its generation, alone or in pairs. No host may read an older one
 * after a younger one, which a late write of a preempted host brings back, and no host may write
 * any after another one holds the reservation.
 *
 * Connections are lost on the way, with a pair or a write in flight: it may count, or not.
 * RBLK_HISTORY is the number of operations, by default 100000; RBLK_HISTORY_RESERVED is that of
 * those under a reservation, by default a share of the other, because each is many commands.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/raw/group.h"
#include "tests/raw/history.h"
#include "tests/raw/host.h"
#include "transport/wire/nvme_reservation.h"

enum {
	N_HOSTS = HISTORY_HOSTS,
	N_BLOCKS = HISTORY_BLOCKS,
	BLOCK = 512,
	WAIT_MS = 60000,
	LOSE_EVERY = 997, /* operations of a host */
	FENCE_SHARE = 20, /* one of so many operations */
	WRITE_AT = 1024 * 1024,
};

static uint32_t number_of(const char *name, uint32_t by_default)
{
	const char *n = getenv(name);

	return n ? (uint32_t)strtoul(n, NULL, 10) : by_default;
}

static uint32_t n_operations(void)
{
	return number_of("RBLK_HISTORY", 100000);
}

/* ---- the hosts ------------------------------------------------------------------------------ */

struct player {
	struct history *history;
	struct raw_host host;
	unsigned number;
	uint32_t known[HISTORY_PLACES]; /* what it saw last */
	uint32_t n_done, seed;
};

static uint32_t tick(struct player *p)
{
	return atomic_fetch_add(&p->history->clock, 1) + 1;
}

static unsigned choose(struct player *p, unsigned n)
{
	p->seed = p->seed * 1664525 + 1013904223;
	return (p->seed >> 16) % n;
}

/* 0 is what a block holds at first. */
static uint32_t new_value(const struct player *p)
{
	return p->number * p->history->n_each + p->n_done + 1;
}

static struct op *begin(struct player *p, uint32_t block)
{
	struct op *op = &p->history->ops[p->number * p->history->n_each + p->n_done];

	*op = (struct op){.begin = tick(p), .block = block};
	return op;
}

static void end(struct player *p, struct op *op, enum outcome outcome)
{
	op->outcome = (uint8_t)outcome;
	op->end = tick(p);
	p->history->n[p->number] = ++p->n_done;
}

static void fill(char *at, uint32_t value)
{
	for (unsigned i = 0; i < BLOCK; i += sizeof(value))
		memcpy(at + i, &value, sizeof(value));
}

static uint32_t value_at(const char *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	for (unsigned i = 0; i < BLOCK; i += sizeof(value))
		if (memcmp(at + i, &value, sizeof(value)) != 0) {
			dprintf(STDOUT_FILENO, "# wrong data: a block is torn at byte %u\n", i);
			_exit(2);
		}
	return value;
}

/* may_be_aborted: Preempt and Abort ends what the victim has waiting, reads too. */
static void read_block(struct player *p, uint32_t block, bool may_be_aborted)
{
	struct op *op = begin(p, block);
	enum nvme_status status = raw_io(&p->host.io, NVME_IO_READ, DAEMON_RAM, block, 1, BLOCK);

	if (may_be_aborted && nvme_status_code(status) == NVME_ABORTED_PREEMPT) {
		end(p, op, NOTHING);
		return;
	}
	assert_int_equal(status, NVME_OK);
	op->value = p->known[block] = value_at(p->host.io.data);
	end(p, op, SEEN);
}

static void send_block(struct player *p, uint8_t opcode, unsigned fuse, uint32_t block,
		       size_t offset)
{
	struct raw_queue *q = &p->host.io;
	struct nvme_sqe sqe = raw_sqe(q, opcode, DAEMON_RAM);

	sqe.flags |= (uint8_t)fuse;
	sqe.cdw10 = put_le32(block);
	raw_describe(q, &sqe, offset, BLOCK);
	raw_send(q, &sqe, sizeof(sqe));
}

static enum nvme_status answer(struct player *p)
{
	struct nvme_cqe cqe;

	assert_true(raw_receive(&p->host.io, &cqe, WAIT_MS));
	return nvme_status_code(get_nvme_status(cqe.status));
}

static void lose_connection(struct player *p)
{
	raw_host_close(&p->host);
	raw_host_open_as(&p->host, d.port, p->number);
}

static void send_pair(struct player *p, const struct op *op)
{
	fill(p->host.io.data, op->old);
	fill(p->host.io.data + WRITE_AT, op->value);
	send_block(p, NVME_IO_COMPARE, NVME_FLAGS_FUSE_FIRST, op->block, 0);
	send_block(p, NVME_IO_WRITE, NVME_FLAGS_FUSE_SECOND, op->block, WRITE_AT);
}

static void send_change(struct player *p, const struct op *op)
{
	if (!op->is_plain) {
		send_pair(p, op);
		return;
	}
	fill(p->host.io.data, op->value);
	send_block(p, NVME_IO_WRITE, 0, op->block, 0);
}

/* Why a change did not take place: of a pair, the status of the half that was at fault. */
static enum nvme_status answer_to(struct player *p, const struct op *op)
{
	enum nvme_status first = answer(p), second;

	if (op->is_plain)
		return first;
	second = answer(p);
	if (first == second)
		return first;
	if (first != NVME_ABORTED_FAILED_FUSED && second != NVME_ABORTED_FAILED_FUSED)
		fail_msg("halves of a pair have statuses %x and %x", first, second);
	return second == NVME_ABORTED_FAILED_FUSED ? first : second;
}

static bool is_to_be_lost(const struct player *p, unsigned every)
{
	return p->n_done % every == every - 1;
}

/* Returns the answer; NVME_OK if the connection was lost. */
static enum nvme_status change(struct player *p, struct op *op, unsigned lose_every)
{
	enum nvme_status status;

	send_change(p, op);
	if (is_to_be_lost(p, lose_every)) {
		lose_connection(p);
		end(p, op, UNKNOWN);
		return NVME_OK;
	}
	status = answer_to(p, op);
	if (status == NVME_OK)
		p->known[op->block] = op->value;
	end(p, op, status == NVME_OK ? WRITTEN : NOTHING);
	return status;
}

static void change_register(struct player *p, uint32_t block)
{
	struct op *op = begin(p, block);
	enum nvme_status status;

	op->old = p->known[block];
	op->value = new_value(p);
	op->is_plain = choose(p, 4) == 0;
	status = change(p, op, LOSE_EVERY);
	if (status != NVME_OK && (status != NVME_COMPARE_FAILURE || op->is_plain))
		fail_msg("a change of a register has status %x", status);
}

static void play_registers(struct player *p)
{
	while (p->n_done < p->history->n_each) {
		uint32_t block = choose(p, N_BLOCKS);

		if (choose(p, 2))
			read_block(p, block, false);
		else
			change_register(p, block);
	}
}

/* ---- reservations --------------------------------------------------------------------------- */

static enum nvme_status reserve(struct player *p, uint8_t opcode, uint32_t cdw10, uint64_t crkey,
				uint64_t key)
{
	struct raw_queue *q = &p->host.io;
	struct nvme_sqe sqe = raw_sqe(q, opcode, DAEMON_RAM);
	le64 keys[2] = {put_le64(crkey), put_le64(key)};
	struct nvme_cqe cqe;

	memcpy(q->data, keys, sizeof(keys));
	raw_describe(q, &sqe, 0, sizeof(keys));
	sqe.cdw10 = put_le32(cdw10);
	return nvme_status_code(raw_run(q, &sqe, NULL, 0, &cqe));
}

/* The key of the holder, or 0; and the generation. */
static uint64_t holder(struct player *p, uint32_t *ret_generation)
{
	struct raw_queue *q = &p->host.io;
	struct nvme_resv_registrant registrant;
	enum nvme_status status;
	struct nvme_cqe cqe;

	do {
		struct nvme_sqe sqe = raw_sqe(q, NVME_IO_RESERVATION_REPORT, DAEMON_RAM);

		raw_describe(q, &sqe, 0, 64 * (1 + N_HOSTS));
		sqe.cdw10 = put_le32(16 * (1 + N_HOSTS) - 1);
		sqe.cdw11 = put_le32(NVME_RESV_EDS);
		status = nvme_status_code(raw_run(q, &sqe, NULL, 0, &cqe));
	} while (status == NVME_ABORTED_PREEMPT); /* as its reads are */
	assert_int_equal(status, NVME_OK);
	*ret_generation = get_le32(((const struct nvme_resv_status *)(void *)q->data)->gen);
	for (unsigned i = 0; i < N_HOSTS; i++) {
		memcpy(&registrant, q->data + 64 * (1 + i), sizeof(registrant));
		if (registrant.rcsts & 1)
			return get_le64(registrant.rkey);
	}
	return 0;
}

/* The generation at which it came to hold the reservation; 0: another host was quicker. */
static uint32_t try_to_seize(struct player *p)
{
	const uint32_t type = NVME_RTYPE_WRITE_EXCLUSIVE << NVME_RESV_RTYPE_SHIFT;
	uint64_t own = p->number + 1, other;
	uint32_t generation;

	reserve(p, NVME_IO_RESERVATION_REGISTER, NVME_RREGA_REPLACE | NVME_RESV_IEKEY, 0, own);
	other = holder(p, &generation);
	if (other && other != own)
		reserve(p, NVME_IO_RESERVATION_ACQUIRE,
			type | (choose(p, 2) ? NVME_RACQA_PREEMPT : NVME_RACQA_PREEMPT_ABORT), own,
			other);
	else
		reserve(p, NVME_IO_RESERVATION_ACQUIRE, type, own, 0);
	return holder(p, &generation) == own ? generation : 0;
}

static uint32_t seize(struct player *p)
{
	struct op *op = begin(p, HISTORY_RESERVATION);

	op->value = try_to_seize(p);
	end(p, op, op->value ? SEEN : NOTHING);
	return op->value;
}

static bool is_refusal(enum nvme_status status)
{
	return status == NVME_RESERVATION_CONFLICT || status == NVME_ABORTED_PREEMPT;
}

/* Writes that the reservation of this generation allows; several, so that some are on their way
 * when the next host preempts. They write the generation: the first alone, the others also in
 * pairs, which find it there unless the next host has written. */
static void write_generation(struct player *p, uint32_t generation, bool is_first)
{
	struct op *op = begin(p, HISTORY_FENCED);
	enum nvme_status status;

	op->old = p->known[HISTORY_FENCED];
	op->value = generation;
	op->is_plain = is_first || choose(p, 2);
	status = change(p, op, LOSE_EVERY / 8);
	if (status != NVME_OK && !is_refusal(status) &&
	    (status != NVME_COMPARE_FAILURE || op->is_plain))
		fail_msg("a write under a reservation has status %x", status);
}

static void play_reservations(struct player *p)
{
	while (p->n_done + 5 <= p->history->n_each) {
		uint32_t generation = seize(p);

		for (unsigned i = 0; generation && i < 3; i++)
			write_generation(p, generation, i == 0);
		read_block(p, HISTORY_FENCED, true);
	}
}

/* ---- both games ----------------------------------------------------------------------------- */

static struct history *play(uint32_t n, void (*game)(struct player *p))
{
	size_t n_bytes = sizeof(struct history) + n * sizeof(struct op);
	struct history *history = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE,
				       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pids[N_HOSTS];
	int status;

	assert_true(history != MAP_FAILED);
	history->n_each = n / N_HOSTS;
	for (unsigned i = 0; i < N_HOSTS; i++) {
		static struct player p;

		pids[i] = fork();
		assert_true(pids[i] >= 0);
		if (pids[i])
			continue;
		/* a failed assertion says itself and ends this process, not the daemon of all */
		setenv("CMOCKA_TEST_ABORT", "1", 1);
		p = (struct player){.history = history, .number = i, .seed = i + 1};
		raw_host_open_as(&p.host, d.port, i);
		game(&p);
		raw_host_close(&p.host);
		_exit(0);
	}
	for (unsigned i = 0; i < N_HOSTS; i++) {
		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
	}
	daemon_wait_empty(&d);
	return history;
}

static void forget(struct history *history, uint32_t n)
{
	munmap(history, sizeof(*history) + n * sizeof(struct op));
}

static void compare_and_write_is_one(void **state)
{
	uint32_t n = n_operations();
	struct history *history = play(n, play_registers);

	history_judge_registers(history);
	forget(history, n);
}

static void who_was_preempted_writes_no_more(void **state)
{
	uint32_t n = number_of("RBLK_HISTORY_RESERVED", n_operations() / FENCE_SHARE);
	struct history *history = play(n, play_reservations);

	history_judge_generations(history, n * 8);
	forget(history, n);
}

/* All hosts come from one address, and come again as often as they are fast: that is no flood. */
static int start_open(void **state)
{
	return start_limited("", ", connect_rate: 100000, connect_rate_per_host: 100000");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(compare_and_write_is_one),
		cmocka_unit_test(who_was_preempted_writes_no_more),
	};

	return cmocka_run_group_tests_name("history", tests, start_open, stop);
}
