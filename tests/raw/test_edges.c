/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The smallest and the largest of each configurable size, with every command that moves data there;
 * and the effects of two commands on each other while the disk holds one of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/bits.h"
#include "base/clock.h"
#include "tests/raw/group.h"
#include "tests/raw/host.h"
#include "transport/wire/nvme_reservation.h"

enum {
	WAIT_MS = 60000,
	SECOND_AT = MIB, /* in q->data: the data of a pair's second half */
	BIGGEST = MIB,	 /* the most that a test moves: the host has 2 MiB */
};

static const struct sizes {
	const char *tuning;
	unsigned max_transfer, inline_data, depth;
} sizes[] = {
	{", max_transfer: 8KiB, buffers: 1MiB, inline_data: 0, queue_depth: 16, workers: 1",
	 8 * KIB, 0, 16},
	{", max_transfer: 8KiB, buffers: 1MiB, inline_data: 16KiB, queue_depth: 1024, workers: 8, shared_receives: 16",
	 8 * KIB, 16 * KIB, 1024},
	{", max_transfer: 8KiB, buffers: 1MiB, inline_data: 512, queue_depth: 1024, workers: 1",
	 8 * KIB, 512, 1024},
	{", max_transfer: 16KiB, buffers: 1MiB, inline_data: 16KiB, queue_depth: 16, workers: 8",
	 16 * KIB, 16 * KIB, 16},
	{", max_transfer: 32KiB, buffers: 1MiB, inline_data: 16KiB, queue_depth: 1024, workers: 1",
	 32 * KIB, 16 * KIB, 1024},
	{", max_transfer: 16MiB, buffers: 32MiB, inline_data: 16KiB, queue_depth: 1024, workers: 1",
	 16 * MIB, 16 * KIB, 1024},
};

static unsigned block_of(uint32_t nsid)
{
	return nsid == DAEMON_RAM ? 512 : 4096;
}

/* ---- a host that sends nothing in the capsule unless it is told to --------------------------- */

static void open_host(struct raw_host *h, unsigned depth)
{
	struct raw_connect c;
	struct nvme_cqe cqe;

	raw_host_open_admin(h, d.port, RAW_SUBNQN);
	assert_int_equal(raw_open(&h->io, d.port, 1, depth), 0);
	raw_connect_init(&c, &h->io, 0, (uint16_t)(depth - 1), h->cntlid);
	c.cmd.qid = put_le16(1);
	assert_int_equal(raw_connect(&h->io, &c, &cqe), NVME_OK);
}

static void send_command(struct raw_queue *q, struct nvme_sqe *sqe, size_t offset, unsigned n,
			 bool is_in_capsule)
{
	uint8_t capsule[RAW_CAPSULE_MAX];

	if (!is_in_capsule) {
		if (n)
			raw_describe(q, sqe, offset, n);
		raw_send(q, sqe, sizeof(*sqe));
		return;
	}
	sqe->sgl = (struct nvme_sgl){
		.block = {.length = put_le32(n), .type = NVME_SGL_DATA_BLOCK_OFFSET}};
	memcpy(capsule, sqe, sizeof(*sqe));
	memcpy(capsule + sizeof(*sqe), q->data + offset, n);
	raw_send(q, capsule, (uint32_t)sizeof(*sqe) + n);
}

static enum nvme_status answer(struct raw_queue *q)
{
	struct nvme_cqe cqe;

	if (!raw_receive(q, &cqe, WAIT_MS))
		fail_msg("no answer");
	return get_nvme_status(cqe.status);
}

static enum nvme_status io(struct raw_queue *q, uint8_t opcode, uint32_t nsid, unsigned n_bytes,
			   bool is_in_capsule)
{
	struct nvme_sqe sqe = raw_blocks(q, opcode, nsid, 0, n_bytes / block_of(nsid));

	send_command(q, &sqe, 0, n_bytes, is_in_capsule);
	return answer(q);
}

static void send_pair_at(struct raw_queue *q, uint32_t nsid, uint64_t slba, unsigned n_bytes,
			 bool is_in_capsule)
{
	unsigned n = n_bytes / block_of(nsid);
	struct nvme_sqe first = raw_blocks(q, NVME_IO_COMPARE, nsid, slba, n);
	struct nvme_sqe second = raw_blocks(q, NVME_IO_WRITE, nsid, slba, n);

	first.flags |= NVME_FLAGS_FUSE_FIRST;
	second.flags |= NVME_FLAGS_FUSE_SECOND;
	send_command(q, &first, 0, n_bytes, is_in_capsule);
	send_command(q, &second, SECOND_AT, n_bytes, is_in_capsule);
}

static void send_pair(struct raw_queue *q, uint32_t nsid, unsigned n_bytes, bool is_in_capsule)
{
	send_pair_at(q, nsid, 0, n_bytes, is_in_capsule);
}

/* ---- every command, of every size that counts ------------------------------------------------ */

static void fill(char *data, unsigned n, unsigned seed)
{
	for (unsigned i = 0; i < n; i++)
		data[i] = (char)(i * 7 + i / 512 + seed);
}

static void write_and_compare(struct raw_queue *q, uint32_t nsid, unsigned n, bool is_in_capsule)
{
	fill(q->data, n, n);
	assert_int_equal(io(q, NVME_IO_WRITE, nsid, n, is_in_capsule), NVME_OK);
	assert_int_equal(io(q, NVME_IO_COMPARE, nsid, n, is_in_capsule), NVME_OK);
	q->data[n - 1] ^= 1;
	assert_int_equal(io(q, NVME_IO_COMPARE, nsid, n, is_in_capsule),
			 NVME_COMPARE_FAILURE | NVME_DNR);
	q->data[n - 1] ^= 1;
	memset(q->data + SECOND_AT, 0, n);
	memcpy(q->data + SECOND_AT, q->data, MIN(n, SECOND_AT));
	memset(q->data, 0, n);
	assert_int_equal(io(q, NVME_IO_READ, nsid, n, false), NVME_OK);
	assert_memory_equal(q->data, q->data + SECOND_AT, n);
}

static void compare_and_write(struct raw_queue *q, uint32_t nsid, unsigned n, bool is_in_capsule)
{
	fill(q->data, n, 1);
	assert_int_equal(io(q, NVME_IO_WRITE, nsid, n, false), NVME_OK);
	fill(q->data + SECOND_AT, n, 2);
	send_pair(q, nsid, n, is_in_capsule);
	assert_int_equal(answer(q), NVME_OK);
	assert_int_equal(answer(q), NVME_OK);
	assert_int_equal(io(q, NVME_IO_READ, nsid, n, false), NVME_OK);
	assert_memory_equal(q->data, q->data + SECOND_AT, n);
	q->data[n - 1] ^= 1;
	send_pair(q, nsid, n, is_in_capsule);
	assert_int_equal(answer(q), NVME_COMPARE_FAILURE | NVME_DNR);
	assert_int_equal(answer(q), NVME_ABORTED_FAILED_FUSED | NVME_DNR);
}

/* As long as Identify reports. */
static unsigned largest_pair(struct raw_host *h, uint32_t nsid)
{
	struct nvme_sqe sqe = raw_sqe(&h->admin, NVME_ADMIN_IDENTIFY, nsid);
	const struct nvme_id_ns *id = (const struct nvme_id_ns *)(const void *)h->admin.data;

	sqe.cdw10 = put_le32(NVME_CNS_NS);
	send_command(&h->admin, &sqe, 0, 4096, false);
	assert_int_equal(answer(&h->admin), NVME_OK);
	return (get_le16(id->nacwu) + 1u) * block_of(nsid);
}

static void copy_and_discard(struct raw_queue *q, uint32_t nsid)
{
	struct nvme_sqe sqe = raw_sqe(q, NVME_IO_COPY, nsid);
	unsigned n = 128 * KIB / block_of(nsid);

	memset(q->data, 0, 4096);
	for (unsigned i = 0; i < 128; i++) {
		struct nvme_copy_range range = {.nlb = put_le16((uint16_t)(i ? 0 : n - 1))};

		memcpy(q->data + i * sizeof(range), &range, sizeof(range));
	}
	sqe.cdw10 = put_le32(MIB / block_of(nsid));
	sqe.cdw12 = put_le32(127);
	send_command(q, &sqe, 0, 4096, false);
	assert_int_equal(answer(q), NVME_OK);
	sqe = raw_sqe(q, NVME_IO_DSM, nsid);
	memset(q->data, 0, 4096);
	sqe.cdw10 = put_le32(255);
	sqe.cdw11 = put_le32(NVME_DSM_AD);
	send_command(q, &sqe, 0, 4096, false);
	assert_int_equal(answer(q), NVME_OK);
}

static void without_data(struct raw_queue *q, uint32_t nsid)
{
	static const uint8_t opcodes[] = {NVME_IO_VERIFY, NVME_IO_WRITE_ZEROES, NVME_IO_FLUSH};

	for (unsigned i = 0; i < ARRAY_LEN(opcodes); i++) {
		struct nvme_sqe sqe = raw_blocks(q, opcodes[i], nsid, 0, MIB / block_of(nsid));

		send_command(q, &sqe, 0, 0, false);
		assert_int_equal(answer(q), NVME_OK);
	}
}

static void report(struct raw_queue *q, uint32_t nsid, unsigned n)
{
	struct nvme_sqe sqe = raw_sqe(q, NVME_IO_RESERVATION_REPORT, nsid);

	sqe.cdw10 = put_le32(n / 4 - 1);
	sqe.cdw11 = put_le32(NVME_RESV_EDS);
	send_command(q, &sqe, 0, n, false);
	assert_int_equal(answer(q), NVME_OK);
}

static void log_page(struct raw_queue *q, unsigned n)
{
	struct nvme_sqe sqe = raw_sqe(q, NVME_ADMIN_GET_LOG_PAGE, NVME_NSID_ALL);

	sqe.cdw10 = put_le32(NVME_LOG_SMART | (n / 4 - 1) << 16);
	sqe.cdw11 = put_le32((n / 4 - 1) >> 16);
	send_command(q, &sqe, 0, n, false);
	assert_int_equal(answer(q), NVME_OK);
}

static void every_command(struct raw_host *h, const struct sizes *s, uint32_t nsid)
{
	unsigned block = block_of(nsid), max = MIN(s->max_transfer, BIGGEST);
	unsigned in_capsule = MIN(s->inline_data, max) / block * block;
	unsigned pair = MIN(largest_pair(h, nsid), BIGGEST);
	struct raw_queue *q = &h->io;

	write_and_compare(q, nsid, block, false);
	write_and_compare(q, nsid, max, false);
	compare_and_write(q, nsid, block, false);
	compare_and_write(q, nsid, pair, false);
	if (in_capsule) {
		write_and_compare(q, nsid, in_capsule, true);
		compare_and_write(q, nsid, MIN(in_capsule, pair), true);
	}
	copy_and_discard(q, nsid);
	without_data(q, nsid);
	report(q, nsid, max);
}

static void check_config(void)
{
	char command[512];

	snprintf(command, sizeof(command),
		 "LD_PRELOAD= %s --check --config %s/target.yaml >/dev/null 2>&1", getenv("RBLKD"),
		 d.folder);
	assert_int_equal(system(command), 0);
}

static void every_size_that_is_legal(void **state)
{
	for (unsigned i = 0; i < ARRAY_LEN(sizes); i++) {
		const struct sizes *s = &sizes[i];
		struct raw_host h, other;

		daemon_start(&d, s->tuning);
		check_config();
		open_host(&h, s->depth);
		every_command(&h, s, DAEMON_RAM);
		every_command(&h, s, DAEMON_FILE);
		log_page(&h.admin, MIN(s->max_transfer, BIGGEST));
		open_host(&other, s->depth);
		assert_int_equal(io(&other.io, NVME_IO_READ, DAEMON_FILE, 8 * KIB, false), NVME_OK);
		raw_host_close(&other);
		raw_host_close(&h);
		daemon_wait_empty(&d);
		daemon_stop(&d);
	}
}

/* ---- while the disk holds one of them -------------------------------------------------------- */

static void hang(bool is_hung)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/hung", d.folder);
	if (!is_hung) {
		unlink(path);
		return;
	}
	fd = open(path, O_CREAT | O_WRONLY, 0600);
	assert_true(fd >= 0);
	close(fd);
}

/* As daemon_start, but rblkd's disk can hang (hung_disk.c). */
static void start_hanging(const char *tuning)
{
	char preload[8192], *before = strdup(getenv("LD_PRELOAD"));

	snprintf(preload, sizeof(preload), "%s:%s", getenv("LIBHUNG"), before);
	setenv("LD_PRELOAD", preload, 1);
	daemon_start(&d, tuning);
	setenv("LD_PRELOAD", before, 1);
	free(before);
}

static uint32_t abort_command(struct raw_host *h, le16 cid)
{
	struct nvme_sqe sqe = raw_sqe(&h->admin, NVME_ADMIN_ABORT, 0);
	struct nvme_cqe cqe;

	sqe.cdw10 = put_le32(1 | (uint32_t)get_le16(cid) << 16);
	assert_int_equal(raw_run(&h->admin, &sqe, NULL, 0, &cqe), NVME_OK);
	return get_le32(cqe.dw0);
}

/* Waits until the disk holds what it was given. */
static void wait_held(void)
{
	uint64_t deadline = clock_ns() + WAIT_MS * NSEC_PER_MSEC;
	char path[128];

	snprintf(path, sizeof(path), "%s/held", d.folder);
	while (access(path, F_OK)) {
		if (clock_ns() > deadline)
			fail_msg("nothing comes to the disk");
		usleep(2000);
	}
}

/* The CID of the nth command from the last. */
static le16 cid_before(const struct raw_queue *q, unsigned n)
{
	return put_le16((uint16_t)(q->next_cid - n));
}

/* The disk has the pair: neither half can be aborted, and Abort reports that. */
static void a_pair_that_has_begun_is_not_aborted(void **state)
{
	struct raw_host h;

	start_hanging("");
	raw_host_open(&h, d.port);
	memset(h.io.data, 0, 4096);
	memset(h.io.data + SECOND_AT, 0x5a, 4096);
	hang(true);
	send_pair(&h.io, DAEMON_FILE, 4096, false);
	wait_held();
	assert_int_equal(abort_command(&h, cid_before(&h.io, 2)), 1);
	assert_int_equal(abort_command(&h, cid_before(&h.io, 1)), 1);
	hang(false);
	assert_int_equal(answer(&h.io), NVME_OK);
	assert_int_equal(answer(&h.io), NVME_OK);
	assert_int_equal(io(&h.io, NVME_IO_READ, DAEMON_FILE, 4096, false), NVME_OK);
	assert_memory_equal(h.io.data, h.io.data + SECOND_AT, 4096);
	raw_host_close(&h);
	daemon_wait_empty(&d);
	daemon_stop(&d);
}

/* The status of the command; all n responses have come. */
static enum nvme_status status_of(const struct nvme_cqe *cqes, unsigned n, le16 cid)
{
	for (unsigned i = 0; i < n; i++)
		if (!memcmp(&cqes[i].cid, &cid, sizeof(cid)))
			return get_nvme_status(cqes[i].status);
	fail_msg("a command was not answered");
	return NVME_OK;
}

/* The first pair is at the disk; Abort stops this half of the second one, which waits for its
 * turn. */
static void abort_half(struct raw_host *h, bool is_second)
{
	struct nvme_cqe cqes[4];

	memset(h->io.data, 0, 4096);
	memset(h->io.data + SECOND_AT, 0, 4096);
	hang(true);
	send_pair(&h->io, DAEMON_FILE, 4096, false);
	wait_held();
	memset(h->io.data + SECOND_AT, 0x5a, 4096);
	send_pair(&h->io, DAEMON_FILE, 4096, false);
	while (abort_command(h, cid_before(&h->io, 2 - is_second)))
		; /* until it has arrived */
	hang(false);
	for (unsigned i = 0; i < 4; i++)
		assert_true(raw_receive(&h->io, &cqes[i], WAIT_MS));
	assert_int_equal(status_of(cqes, 4, cid_before(&h->io, 4)), NVME_OK);
	assert_int_equal(status_of(cqes, 4, cid_before(&h->io, 3)), NVME_OK);
	assert_int_equal(status_of(cqes, 4, cid_before(&h->io, 2 - is_second)),
			 NVME_ABORTED_BY_REQUEST);
	assert_int_equal(status_of(cqes, 4, cid_before(&h->io, 1 + is_second)),
			 NVME_ABORTED_FAILED_FUSED | NVME_DNR);
	assert_int_equal(io(&h->io, NVME_IO_READ, DAEMON_FILE, 4096, false), NVME_OK);
	assert_int_equal(h->io.data[0], 0);
}

static void a_pair_that_waits_is_aborted(void **state)
{
	struct raw_host h;

	start_hanging("");
	raw_host_open(&h, d.port);
	abort_half(&h, false);
	abort_half(&h, true);
	raw_host_close(&h);
	daemon_wait_empty(&d);
	daemon_stop(&d);
}

/* A first, then a command that does not describe its data with an SGL. */
static void break_pair(struct raw_queue *q, uint8_t fuse, enum nvme_status first_ends)
{
	struct nvme_sqe first = raw_blocks(q, NVME_IO_COMPARE, DAEMON_RAM, 0, 1);
	struct nvme_sqe next = raw_blocks(q, NVME_IO_WRITE, DAEMON_RAM, 0, 1);

	first.flags |= NVME_FLAGS_FUSE_FIRST;
	next.flags = fuse;
	send_command(q, &first, 0, block_of(DAEMON_RAM), false);
	send_command(q, &next, SECOND_AT, block_of(DAEMON_RAM), false);
	assert_int_equal(answer(q), first_ends | NVME_DNR);
	assert_int_equal(answer(q), NVME_INVALID_FIELD | NVME_DNR);
}

static void a_first_is_answered_whatever_follows(void **state)
{
	struct raw_host h;

	daemon_start(&d, "");
	raw_host_open(&h, d.port);
	break_pair(&h.io, 0, NVME_ABORTED_MISSING_FUSED);
	break_pair(&h.io, NVME_FLAGS_FUSE_SECOND, NVME_ABORTED_FAILED_FUSED);
	assert_int_equal(io(&h.io, NVME_IO_READ, DAEMON_RAM, block_of(DAEMON_RAM), false), NVME_OK);
	raw_host_close(&h);
	daemon_wait_empty(&d);
	daemon_stop(&d);
}

/*
 * A Copy in pieces of 28 KiB, and a Compare and Write of two blocks of its source, the last of one
 * piece and the first of the next: the copy has both old blocks or both new ones.
 */
static void a_copy_takes_a_pair_whole(void **state)
{
	enum {
		ROUNDS = 20,
		AT = 6, /* blocks of 4096 */
		TO = 1000,
	};
	struct raw_host h, other;

	start_hanging(", max_transfer: 8KiB, buffers: 1MiB, workers: 1");
	raw_host_open(&h, d.port);
	raw_host_open_as(&other, d.port, 1);
	memset(other.io.data + SECOND_AT, 0, 8 * KIB);
	for (unsigned round = 1; round <= ROUNDS; round++) {
		struct nvme_copy_range range = {.nlb = put_le16(20)};
		struct nvme_sqe sqe = raw_sqe(&h.io, NVME_IO_COPY, DAEMON_FILE);

		hang(true);
		memcpy(h.io.data, &range, sizeof(range));
		sqe.cdw10 = put_le32(TO);
		send_command(&h.io, &sqe, 0, sizeof(range), false);
		wait_held();
		memcpy(other.io.data, other.io.data + SECOND_AT, 8 * KIB);
		memset(other.io.data + SECOND_AT, (int)round, 8 * KIB);
		send_pair_at(&other.io, DAEMON_FILE, AT, 8 * KIB, false);
		/* The parser reads it before the disk resumes: this command follows it on the
		 * queue. */
		assert_int_equal(abort_command(&other, put_le16(1)), 1);
		hang(false);
		assert_int_equal(answer(&h.io), NVME_OK);
		assert_int_equal(answer(&other.io), NVME_OK);
		assert_int_equal(answer(&other.io), NVME_OK);
		sqe = raw_blocks(&h.io, NVME_IO_READ, DAEMON_FILE, TO + AT, 2);
		send_command(&h.io, &sqe, 0, 8 * KIB, false);
		assert_int_equal(answer(&h.io), NVME_OK);
		assert_int_equal(h.io.data[0], h.io.data[4096]);
	}
	raw_host_close(&h);
	raw_host_close(&other);
	daemon_wait_empty(&d);
	daemon_stop(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_size_that_is_legal),
		cmocka_unit_test(a_pair_that_has_begun_is_not_aborted),
		cmocka_unit_test(a_pair_that_waits_is_aborted),
		cmocka_unit_test(a_first_is_answered_whatever_follows),
		cmocka_unit_test(a_copy_takes_a_pair_whole),
	};

	return cmocka_run_group_tests_name("edges", tests, NULL, NULL);
}
