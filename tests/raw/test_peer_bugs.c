/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Faults of other targets that a peer could reach over RDMA, each played against a whole rblkd by a
 * hostile host in raw verbs. README.md has the list; faults that other programs here play are not
 * repeated.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/bits.h"
#include "base/clock.h"
#include "tests/raw/good_host.h"
#include "tests/raw/group.h"
#include "tests/raw/host.h"
#include "softrdma/fabric/seg.h"

enum {
	DEPTH = 31,
	WAIT_MS = 60000,
	FIXED_BYTES = 1024 * 1024, /* of DAEMON_READ_ONLY */
};

static int start_few_receives(void **state)
{
	return start_tuned(", shared_receives: 64");
}

/* ---- in-capsule data (CVE-2026-72129) -------------------------------------------------------- */

static enum nvme_status write_in_capsule(struct raw_host *h, uint64_t slba, uint64_t offset,
					 uint32_t length, const void *data, uint32_t n_sent)
{
	struct nvme_sqe sqe = raw_sqe(&h->io, NVME_IO_WRITE, DAEMON_RAM);
	struct nvme_cqe cqe;

	sqe.cdw10 = put_le32((uint32_t)slba);
	sqe.cdw12 = put_le32(MAX(length / 512, 1u) - 1);
	sqe.sgl = (struct nvme_sgl){.block = {.offset = put_le64(offset),
					      .length = put_le32(length),
					      .type = NVME_SGL_DATA_BLOCK_OFFSET}};
	return raw_run(&h->io, &sqe, data, n_sent, &cqe);
}

/*
 * The receive buffers are full of a secret that longer capsules brought earlier. A short capsule
 * whose descriptor points beyond the received bytes must store neither the secret nor anything
 * else.
 */
static void in_capsule_data_beyond_what_came(void **state)
{
	static const struct {
		uint64_t offset;
		uint32_t length, n_sent;
	} cases[] = {
		{0, 512, 0},	   {512, 512, 512},  {512, 512, 1023},
		{3584, 512, 512},  {0, 4096, 512},   {256, 512, 512},
		{4096, 512, 4096}, {4095, 512, 512}, {UINT64_MAX - 63, 512, 512},
	};
	char secret[4096], zeroes[4096] = {0};
	struct raw_host h;

	raw_host_open(&h, d.port);
	memset(secret, 'S', sizeof(secret));
	for (unsigned i = 0; i < 128; i++) /* each receive of the poller */
		assert_int_equal(write_in_capsule(&h, 64, 0, 4096, secret, 4096), NVME_OK);
	memset(h.io.data, 0, 4096);
	assert_int_equal(raw_io(&h.io, NVME_IO_WRITE, DAEMON_RAM, 0, 8, 4096), NVME_OK);
	for (unsigned i = 0; i < ARRAY_LEN(cases); i++) {
		enum nvme_status status = write_in_capsule(&h, 0, cases[i].offset, cases[i].length,
							   zeroes, cases[i].n_sent);

		assert_true(status == (NVME_SGL_LENGTH_INVALID | NVME_DNR) ||
			    status == (NVME_SGL_OFFSET_INVALID | NVME_DNR));
	}
	memset(h.io.data, 0xee, 4096);
	assert_int_equal(raw_io(&h.io, NVME_IO_READ, DAEMON_RAM, 0, 8, 4096), NVME_OK);
	assert_memory_equal(h.io.data, zeroes, sizeof(zeroes));
	raw_host_close(&h);
}

/* ---- responses (CVE-2024-41079, rule R4) ----------------------------------------------------- */

/* Each byte that the command does not define is zero. */
static void expect_clean(struct raw_queue *q, const struct nvme_sqe *sqe, enum nvme_status wanted,
			 uint16_t qid)
{
	struct nvme_cqe cqe;

	assert_int_equal(raw_run(q, sqe, NULL, 0, &cqe), wanted);
	assert_int_equal(get_le32(cqe.dw0), 0);
	assert_int_equal(get_le32(cqe.dw1), 0);
	assert_true(get_le16(cqe.sqhd) < RAW_DEPTH);
	assert_int_equal(get_le16(cqe.sqid), qid);
}

static void expect_clean_io(struct raw_host *h, uint8_t opcode, uint32_t nsid, uint32_t n_blocks,
			    uint32_t n_bytes, enum nvme_status wanted)
{
	struct nvme_sqe sqe = raw_sqe(&h->io, opcode, nsid);

	if (n_bytes)
		raw_describe(&h->io, &sqe, 0, n_bytes);
	sqe.cdw12 = put_le32(n_blocks - 1);
	expect_clean(&h->io, &sqe, wanted, 1);
}

static void expect_clean_admin(struct raw_host *h, uint8_t opcode, uint32_t nsid, uint32_t cdw10,
			       uint32_t n_bytes, enum nvme_status wanted)
{
	struct nvme_sqe sqe = raw_sqe(&h->admin, opcode, nsid);

	if (n_bytes)
		raw_describe(&h->admin, &sqe, 0, n_bytes);
	sqe.cdw10 = put_le32(cdw10);
	expect_clean(&h->admin, &sqe, wanted, 0);
}

static void r4_results_start_from_zero(void **state)
{
	const uint32_t smart = NVME_LOG_SMART | 127u << 16;
	struct raw_host h;

	raw_host_open(&h, d.port);
	for (unsigned i = 0; i < 3; i++) {
		uint64_t value;

		/* This response leaves nonzero bytes in the same place. */
		assert_int_equal(raw_property_get(&h.admin, NVME_PROP_CAP, true, &value), NVME_OK);
		assert_true(value >> 32 && (uint32_t)value);
		expect_clean_admin(&h, NVME_ADMIN_IDENTIFY, 0, NVME_CNS_CTRL, 4096, NVME_OK);
		expect_clean_admin(&h, NVME_ADMIN_IDENTIFY, 0, 0xff, 4096,
				   NVME_INVALID_FIELD | NVME_DNR);
		expect_clean_admin(&h, NVME_ADMIN_GET_LOG_PAGE, NVME_NSID_ALL, smart, 512, NVME_OK);
		expect_clean_admin(&h, NVME_ADMIN_KEEP_ALIVE, 0, 0, 0,
				   NVME_KATO_INVALID | NVME_DNR);
		expect_clean_admin(&h, 0xc1, 0, 0, 0, NVME_INVALID_OPCODE | NVME_DNR);
		expect_clean_io(&h, NVME_IO_WRITE, DAEMON_RAM, 8, 4096, NVME_OK);
		expect_clean_io(&h, NVME_IO_READ, DAEMON_FILE, 1, 4096, NVME_OK);
		expect_clean_io(&h, NVME_IO_FLUSH, DAEMON_FILE, 1, 0, NVME_OK);
		expect_clean_io(&h, NVME_IO_WRITE_ZEROES, DAEMON_FILE, 1, 0, NVME_OK);
		expect_clean_io(&h, NVME_IO_READ, 9, 8, 4096, NVME_INVALID_NSID | NVME_DNR);
		expect_clean_io(&h, NVME_IO_READ, DAEMON_RAM, 8, 512,
				NVME_SGL_LENGTH_INVALID | NVME_DNR);
		expect_clean_io(&h, 0xc1, DAEMON_RAM, 8, 0, NVME_INVALID_OPCODE | NVME_DNR);
	}
	raw_host_close(&h);
}

static void truncate_fixed(off_t size)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/fixed", d.folder);
	assert_int_equal(truncate(path, size), 0);
}

/* The file has become shorter: reading the missing part is an error, not zeroes. */
static void r4_short_reads_are_errors(void **state)
{
	const uint64_t half = FIXED_BYTES / 2 / 512;
	struct raw_host h;

	raw_host_open(&h, d.port);
	truncate_fixed(FIXED_BYTES / 2);
	assert_int_equal(raw_io(&h.io, NVME_IO_READ, DAEMON_READ_ONLY, half - 8, 8, 4096), NVME_OK);
	for (unsigned i = 0; i < 8; i++) { /* 0 to 7 of the 8 blocks exist */
		enum nvme_status status = raw_io(&h.io, NVME_IO_READ, DAEMON_READ_ONLY, half - i, 8,
						 4096);

		assert_int_not_equal(status, NVME_OK);
		assert_int_not_equal(status, NVME_LBA_OUT_OF_RANGE | NVME_DNR);
	}
	truncate_fixed(FIXED_BYTES);
	assert_int_equal(raw_io(&h.io, NVME_IO_READ, DAEMON_READ_ONLY, half, 8, 4096), NVME_OK);
	raw_host_close(&h);
}

/* ---- identifiers (CVE-2022-50717, CVE-2026-23112, CVE-2026-89968) ---------------------------- */

/* Command identifiers are the host's: it may use any, even one for all, and each comes back. */
static void any_command_identifier(void **state)
{
	static const uint16_t cids[] = {0, 1, 127, 128, 0x7fff, 0x8000, 0xffff};
	struct nvme_cqe cqe;
	struct raw_host h;

	raw_host_open(&h, d.port);
	for (unsigned i = 0; i < ARRAY_LEN(cids); i++) {
		for (unsigned j = 0; j < DEPTH; j++) {
			struct nvme_sqe sqe = raw_sqe(&h.io, j & 1 ? NVME_IO_WRITE : NVME_IO_READ,
						      1 + j / 2 % 2);

			raw_describe(&h.io, &sqe, j * 4096, 4096);
			sqe.cid = put_le16(cids[i]);
			sqe.cdw12 = put_le32(j / 2 % 2 ? 0 : 7);
			raw_send(&h.io, &sqe, sizeof(sqe));
		}
		for (unsigned j = 0; j < DEPTH; j++) {
			assert_true(raw_receive(&h.io, &cqe, WAIT_MS));
			assert_int_equal(get_nvme_status(cqe.status), NVME_OK);
			assert_int_equal(get_le16(cqe.cid), cids[i]);
		}
	}
	raw_host_close(&h);
}

/* Unsolicited data: less than a command, or as much as a further capsule behind one. */
static void unsolicited_data(void **state)
{
	static const uint8_t data[64 + 4096];
	struct raw_host h;
	struct nvme_sqe sqe;
	struct nvme_cqe cqe;

	raw_host_open(&h, d.port);
	sqe = raw_sqe(&h.io, NVME_IO_READ, DAEMON_RAM);
	raw_describe(&h.io, &sqe, 0, 512);
	assert_int_equal(raw_run(&h.io, &sqe, data, 4096, &cqe), NVME_OK);
	sqe = raw_sqe(&h.io, NVME_IO_FLUSH, DAEMON_RAM);
	assert_int_equal(raw_run(&h.io, &sqe, data, 4096, &cqe), NVME_OK);
	raw_send(&h.io, data, 63);
	assert_true(raw_is_dropped(&h.io));
	raw_host_close(&h);
}

/* ---- lifetimes (CVE-2023-53116, CVE-2026-23148, CVE-2024-42152, CVE-2026-93151) -------------- */

static void send_numbered(struct raw_queue *q, unsigned number)
{
	uint32_t nsid = number & 1 ? DAEMON_RAM : DAEMON_FILE;
	struct nvme_sqe sqe = raw_sqe(q, number & 2 ? NVME_IO_READ : NVME_IO_WRITE, nsid);

	raw_describe(q, &sqe, number % 16 * 65536, 65536);
	sqe.cdw12 = put_le32((nsid == DAEMON_RAM ? 65536 / 512 : 65536 / 4096) - 1);
	raw_send(q, &sqe, sizeof(sqe));
}

/*
 * The fabric notifies the target late that a response was sent: the host has it, and its next
 * command is in the same place before the completion.
 */
static void answered_requests_are_used_again_at_once(void **state)
{
	struct good_host next_of_own;
	struct daemon own;
	struct raw_host h;
	struct nvme_cqe cqe;
	unsigned n_sent = 0;

	setenv("SOFTRDMA_CHAOS", "seed=5,late-ack=60,remote-first=30,delay=400", 1);
	daemon_start(&own, ", workers: 1");
	unsetenv("SOFTRDMA_CHAOS");
	good_host_first(&next_of_own, &own);
	raw_host_open(&h, own.port);
	while (n_sent < DEPTH)
		send_numbered(&h.io, n_sent++);
	for (unsigned i = 0; i < 3000; i++) {
		assert_true(raw_receive(&h.io, &cqe, WAIT_MS));
		assert_int_equal(get_nvme_status(cqe.status), NVME_OK);
		if (n_sent < 3000)
			send_numbered(&h.io, n_sent++);
	}
	raw_host_close(&h);
	good_host_next(&next_of_own);
	daemon_stop(&own);
}

static void send_connect(struct raw_queue *q, struct raw_connect *c)
{
	struct {
		struct nvmf_connect_cmd cmd;
		struct nvmf_connect_data data;
	} capsule = {c->cmd, c->data};

	raw_send(q, &capsule, sizeof(capsule));
}

/* An I/O queue's Connect in flight while its association ends, from either side. */
static void connect_races_with_teardown(void **state)
{
	for (unsigned round = 0; round < 60; round++) {
		struct raw_queue io[3];
		struct raw_host h;

		raw_host_open_admin(&h, d.port, RAW_SUBNQN);
		for (uint16_t i = 0; i < 3; i++)
			assert_int_equal(raw_open(&io[i], d.port, i + 1, 32), 0);
		for (uint16_t i = 0; i < 3; i++) {
			struct raw_connect c;

			raw_connect_init(&c, &io[i], i + 1, 31, h.cntlid);
			if (i == round % 4)
				raw_close(&h.admin);
			send_connect(&io[i], &c);
		}
		if (round % 4 == 3 && round & 4)
			assert_int_equal(raw_property_set(&h.admin, NVME_PROP_CC, 0), NVME_OK);
		raw_close(&h.admin);
		for (unsigned i = 0; i < 3; i++)
			raw_close(&io[(i + round) % 3]);
	}
}

/* Responses without receives at the host, while the queue is torn down. */
static void teardown_with_unsent_responses(void **state)
{
	for (unsigned round = 0; round < 10; round++) {
		struct raw_host h;

		raw_host_open(&h, d.port);
		h.io.keeps_receives = true;
		for (unsigned i = 0; i < RAW_RECVS + DEPTH; i++) {
			struct nvme_sqe sqe = raw_sqe(&h.io, NVME_IO_FLUSH, 1 + (i + round) % 2);
			struct nvme_cqe cqe;

			raw_send(&h.io, &sqe, sizeof(sqe));
			if (i + 1 < RAW_RECVS) /* the first was Connect's */
				assert_true(raw_receive(&h.io, &cqe, WAIT_MS));
		}
		raw_host_close(&h);
	}
}

/* ---- no remote right on any memory (rule R7) ------------------------------------------------- */

/* The peer's work request must fail, and its connection with it. */
static void probe(enum ibv_wr_opcode opcode, uint64_t address, uint32_t rkey)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = {.wr_id = 0,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = opcode,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {.remote_addr = address, .rkey = rkey}},
			   *bad;
	uint64_t deadline = clock_ns() + 60 * NSEC_PER_SEC;
	struct raw_queue q;
	struct ibv_wc wc;
	int n = 0;

	assert_int_equal(raw_open(&q, d.port, 0, 32), 0);
	sge = (struct ibv_sge){.addr = (uintptr_t)q.data, .length = 8, .lkey = q.mr->lkey};
	assert_int_equal(ibv_post_send(q.id->qp, &wr, &bad), 0);
	while ((n = ibv_poll_cq(q.cq, 1, &wc)) == 0 && clock_ns() < deadline)
		usleep(20);
	assert_int_equal(n, 1);
	/* Not even a READ may leave: the target has no responder resources. */
	assert_int_equal(wc.status,
			 opcode == IBV_WR_RDMA_READ ? IBV_WC_LOC_QP_OP_ERR : IBV_WC_REM_ACCESS_ERR);
	raw_close(&q);
}

/* The access rights that its queue pairs would grant to a READ all the same. */
static void expect_no_access(const struct seg *seg)
{
	struct raw_host h;
	unsigned n = 0;

	raw_host_open(&h, d.port);
	for (unsigned i = 0; i < SEG_MAX_QP; i++) {
		if (!atomic_load(&seg->qp[i].qpn))
			continue;
		n++;
		assert_int_equal(seg->qp[i].access & ~(unsigned)IBV_ACCESS_LOCAL_WRITE, 0);
		assert_int_equal(seg->qp[i].max_dest_rd, 0);
	}
	assert_int_equal(n, 2);
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

/* The attacker has more knowledge than is possible: each existing key, and the address of its
 * memory. */
static void r7_no_key_opens_anything(void **state)
{
	const struct seg *seg = good_host_map(&d);
	unsigned n = 0;

	assert_non_null(seg);
	expect_no_access(seg);
	for (unsigned i = 0; i < SEG_MAX_MR; i++) {
		const struct seg_mr *mr = &seg->mr[i];
		uint32_t key = atomic_load(&mr->lkey);

		if (!key)
			continue;
		n++;
		probe(IBV_WR_RDMA_READ, mr->iova, key);
		probe(IBV_WR_RDMA_WRITE, mr->iova, key);
		daemon_wait_empty(&d);
	}
	assert_true(n > 0);
	print_message("# %u keys\n", n);
	good_host_unmap(seg);
}

/* ---- the order of publishing (rule R11) ------------------------------------------------------ */

/* 'K': it was served. 'R': refused for now. 'N': refused for good. */
static char knock(uint16_t port)
{
	struct raw_connect c;
	struct raw_queue q;
	struct nvme_cqe cqe;
	char verdict = 'R';

	if (raw_open(&q, port, 0, NVMF_ADMIN_SQ_ENTRIES) == 0) {
		raw_connect_init(&c, &q, 0, NVMF_ADMIN_SQ_ENTRIES - 1, NVMF_CNTLID_DYNAMIC);
		memcpy(q.data, &c.data, sizeof(c.data));
		raw_send(&q, &c.cmd, sizeof(c.cmd));
		if (raw_receive(&q, &cqe, WAIT_MS)) {
			enum nvme_status status = get_nvme_status(cqe.status);

			verdict = status == NVME_OK ? 'K' : status & NVME_DNR ? 'N' : 'R';
		}
	}
	raw_close(&q);
	return verdict;
}

static void knock_until_told(uint16_t port, int told, int verdicts)
{
	char byte;

	while (read(told, &byte, 1) < 0) { /* it is non-blocking; end of file: told */
		byte = knock(port);
		if (write(verdicts, &byte, 1) != 1)
			break;
	}
	_exit(0);
}

/* A host that never stops connecting, while the target comes and goes: no refusal is final. */
static void r11_all_is_there_before_it_listens(void **state)
{
	int told[2], verdicts[2], status;
	unsigned n_served = 0;
	struct daemon own;
	char verdict;
	pid_t pid;

	daemon_start_limited(&own, "", ", connect_rate: 100000");
	assert_int_equal(pipe2(told, O_NONBLOCK | O_CLOEXEC), 0);
	assert_int_equal(pipe2(verdicts, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		close(told[1]);
		knock_until_told(own.port, told[0], verdicts[1]);
	}
	close(verdicts[1]);
	for (unsigned round = 0; round < 4; round++) {
		do
			assert_int_equal(read(verdicts[0], &verdict, 1), 1);
		while (verdict == 'R');
		assert_int_equal(verdict, 'K');
		n_served++;
		if (round < 3)
			daemon_restart(&own);
	}
	close(told[1]);
	while (read(verdicts[0], &verdict, 1) == 1)
		assert_int_not_equal(verdict, 'N');
	close(told[0]);
	close(verdicts[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(n_served, 4);
	daemon_stop(&own);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		/* first, because it forks */
		cmocka_unit_test_teardown(r11_all_is_there_before_it_listens, next_good_host),
		cmocka_unit_test_teardown(in_capsule_data_beyond_what_came, next_good_host),
		cmocka_unit_test_teardown(r4_results_start_from_zero, next_good_host),
		cmocka_unit_test_teardown(r4_short_reads_are_errors, next_good_host),
		cmocka_unit_test_teardown(any_command_identifier, next_good_host),
		cmocka_unit_test_teardown(unsolicited_data, next_good_host),
		cmocka_unit_test_teardown(answered_requests_are_used_again_at_once, next_good_host),
		cmocka_unit_test_teardown(connect_races_with_teardown, next_good_host),
		cmocka_unit_test_teardown(teardown_with_unsent_responses, next_good_host),
		cmocka_unit_test_teardown(r7_no_key_opens_anything, next_good_host),
	};

	return cmocka_run_group_tests_name("peer_bugs", tests, start_few_receives, stop);
}
