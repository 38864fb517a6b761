/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Four hosts at once, each a process, on the same few blocks; everything they do and see is written
 * down with a number for its begin and its end, and judged afterwards in O(n).
 *
 * Compare and Write: each block is a register. A value is written once only, so the successful
 * pairs of a block must form one chain from zero, in which no pair sees what was not written yet,
 * or what was replaced before it was sent. Reservations: a host that has preempted writes its
 * generation. No host may read an older one after a younger one, which a late write of a preempted
 * host brings back.
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
#include "tests/raw/host.h"
#include "transport/wire/nvme_reservation.h"

enum {
	N_HOSTS = 4,
	N_BLOCKS = 8,
	FENCED_BLOCK = N_BLOCKS, /* under the reservation */
	BLOCK = 512,
	WAIT_MS = 60000,
	LOSE_EVERY = 997, /* operations of a host */
	FENCE_SHARE = 20, /* one of so many operations */
	WRITE_AT = 1024 * 1024,
};

enum outcome {
	NOTHING, /* it did not take place */
	SEEN,	 /* value was read */
	WRITTEN, /* value took the place of old */
	UNKNOWN, /* the same, or nothing: the connection was lost */
};

struct op {
	uint32_t begin, end; /* numbers of the clock, from 1 */
	uint32_t block;
	uint32_t old, value;
	uint8_t outcome; /* enum outcome */
};

struct history {
	_Atomic uint32_t clock;
	uint32_t n_each, n[N_HOSTS];
	struct op ops[];
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
	uint32_t known[N_BLOCKS + 1]; /* what it saw last */
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

static void compare_and_write(struct player *p, uint32_t block)
{
	struct op *op = begin(p, block);
	enum nvme_status first, second;

	op->old = p->known[block];
	op->value = new_value(p);
	fill(p->host.io.data, op->old);
	fill(p->host.io.data + WRITE_AT, op->value);
	send_block(p, NVME_IO_COMPARE, 1, block, 0);
	send_block(p, NVME_IO_WRITE, 2, block, WRITE_AT);
	if (p->n_done % LOSE_EVERY == LOSE_EVERY - 1) {
		lose_connection(p);
		end(p, op, UNKNOWN);
		return;
	}
	first = answer(p);
	second = answer(p);
	if (first == NVME_OK && second == NVME_OK)
		p->known[block] = op->value;
	else if (first != NVME_COMPARE_FAILURE || second != NVME_ABORTED_FAILED_FUSED)
		_exit(3);
	end(p, op, first == NVME_OK ? WRITTEN : NOTHING);
}

static void play_registers(struct player *p)
{
	while (p->n_done < p->history->n_each) {
		uint32_t block = choose(p, N_BLOCKS);

		if (choose(p, 2))
			read_block(p, block, false);
		else
			compare_and_write(p, block);
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
static uint32_t seize(struct player *p)
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

/* Writes that the reservation of this generation allows; several, so that some are on their way
 * when the next host preempts. What it writes is the generation. */
static void write_generation(struct player *p, uint32_t generation)
{
	struct op *op = begin(p, FENCED_BLOCK);
	enum nvme_status status;

	op->value = generation;
	fill(p->host.io.data, generation);
	send_block(p, NVME_IO_WRITE, 0, FENCED_BLOCK, 0);
	if (p->n_done % (LOSE_EVERY / 8) == LOSE_EVERY / 8 - 1) {
		lose_connection(p);
		end(p, op, UNKNOWN);
		return;
	}
	status = answer(p);
	if (status != NVME_OK && status != NVME_RESERVATION_CONFLICT &&
	    status != NVME_ABORTED_PREEMPT)
		_exit(4);
	end(p, op, status == NVME_OK ? WRITTEN : NOTHING);
}

static void play_reservations(struct player *p)
{
	while (p->n_done + 4 <= p->history->n_each) {
		uint32_t generation = seize(p);

		for (unsigned i = 0; generation && i < 3; i++)
			write_generation(p, generation);
		read_block(p, FENCED_BLOCK, true);
	}
}

/* ---- judging -------------------------------------------------------------------------------- */

struct judge {
	const struct history *history;
	uint32_t n_ops, n_values;
	uint32_t *position; /* by value: its place in the chain of its block, from 1; 0: none */
	uint32_t *next;	    /* by value: the one that took its place; of 0 see first */
	uint32_t first[N_BLOCKS];
	bool *is_seen; /* by value: it did take place */
	uint32_t *by_tick;
	uint32_t *floor; /* by op: youngest position known of when it began */
	uint32_t youngest[N_BLOCKS + 1];
};

static const struct op *op_of(const struct judge *j, uint32_t i)
{
	return &j->history->ops[i];
}

static bool takes_place(const struct judge *j, const struct op *op)
{
	return op->outcome == WRITTEN || (op->outcome == UNKNOWN && j->is_seen[op->value]);
}

static void link_values(struct judge *j)
{
	for (uint32_t i = 0; i < j->n_ops; i++) {
		const struct op *op = op_of(j, i);

		if (op->outcome == SEEN)
			j->is_seen[op->value] = true;
		if (op->outcome == WRITTEN)
			j->is_seen[op->old] = true;
	}
	for (uint32_t i = 0; i < j->n_ops; i++) {
		const struct op *op = op_of(j, i);
		uint32_t *slot = op->old ? &j->next[op->old] : &j->first[op->block];

		if (!takes_place(j, op))
			continue;
		assert_int_equal(*slot, 0); /* two took the place of one */
		*slot = op->value;
	}
}

static void number_values(struct judge *j)
{
	uint32_t n_linked = 0, n_taken = 0;

	for (unsigned block = 0; block < N_BLOCKS; block++) {
		uint32_t position = 0;

		for (uint32_t v = j->first[block]; v; v = j->next[v]) {
			j->position[v] = ++position;
			n_linked++;
		}
	}
	for (uint32_t i = 0; i < j->n_ops; i++)
		n_taken += takes_place(j, op_of(j, i));
	assert_int_equal(n_linked, n_taken); /* each hangs on the chain that starts at 0 */
	assert_true(n_taken > 100);
}

/* In the order of the clock; is_writer_known: a value's op has its number. */
static void judge_times(struct judge *j, bool is_writer_known)
{
	uint32_t n_ticks = atomic_load(&j->history->clock);

	for (uint32_t t = 1; t <= n_ticks; t++) {
		uint32_t i = j->by_tick[t] - 1, position;
		const struct op *op = op_of(j, i);

		if (!j->by_tick[t])
			continue; /* an operation that was not finished */
		if (op->begin == t) {
			j->floor[i] = j->youngest[op->block];
			continue;
		}
		if (op->outcome != SEEN && op->outcome != WRITTEN)
			continue;
		position = j->position[op->value];
		assert_true(position >= j->floor[i]);
		if (is_writer_known && op->value)
			assert_true(op_of(j, op->value - 1)->begin <= t);
		if (position > j->youngest[op->block])
			j->youngest[op->block] = position;
	}
}

static void judge_init(struct judge *j, const struct history *history, uint32_t n_values)
{
	uint32_t n_ticks = atomic_load(&history->clock);

	*j = (struct judge){
		.history = history, .n_ops = history->n_each * N_HOSTS, .n_values = n_values};
	j->position = calloc(n_values, sizeof(*j->position));
	j->next = calloc(n_values, sizeof(*j->next));
	j->is_seen = calloc(n_values, sizeof(*j->is_seen));
	j->by_tick = calloc(n_ticks + 1, sizeof(*j->by_tick));
	j->floor = calloc(j->n_ops, sizeof(*j->floor));
	assert_true(j->position && j->next && j->is_seen && j->by_tick && j->floor);
	for (uint32_t i = 0; i < j->n_ops; i++)
		if (op_of(j, i)->end)
			j->by_tick[op_of(j, i)->begin] = j->by_tick[op_of(j, i)->end] = i + 1;
}

static void judge_deinit(struct judge *j)
{
	free(j->position);
	free(j->next);
	free(j->is_seen);
	free(j->by_tick);
	free(j->floor);
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

static void compare_and_write_is_one(void **state)
{
	uint32_t n = n_operations();
	struct history *history = play(n, play_registers);
	struct judge j;

	judge_init(&j, history, n + 2);
	link_values(&j);
	number_values(&j);
	judge_times(&j, true);
	judge_deinit(&j);
	munmap(history, sizeof(*history) + n * sizeof(struct op));
}

static void who_was_preempted_writes_no_more(void **state)
{
	uint32_t n = number_of("RBLK_HISTORY_RESERVED", n_operations() / FENCE_SHARE);
	struct history *history = play(n, play_reservations);
	struct judge j;

	/* A generation is its own place in the order. */
	judge_init(&j, history, n * 8);
	for (uint32_t i = 0; i < j.n_values; i++)
		j.position[i] = i;
	judge_times(&j, false);
	assert_true(j.youngest[FENCED_BLOCK] > 100);
	judge_deinit(&j);
	munmap(history, sizeof(*history) + n * sizeof(struct op));
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
