/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A block is whole for its readers: as one write left it, however writes and reads overlap, also
 * when the writer dies while its data is fetched. Chaos moves messages in pieces, with pauses
 * between them, so that missing order becomes visible.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/raw/good_host.h"
#include "tests/raw/group.h"
#include "tests/raw/host.h"

enum {
	WAIT_MS = 60000,
	BLOCK = 4096,
	SMALL = 512,
	READS = 300,
	KILLS = 15,
	KILL_BLOCKS = 64,
};

static int start_in_pieces(void **state)
{
	setenv("SOFTRDMA_CHAOS", "seed=5,chunk=60,delay=150", 1);
	start(state);
	unsetenv("SOFTRDMA_CHAOS");
	daemon_wait_registered(&d);
	return 0;
}

static bool is_uniform(const char *block, unsigned n_bytes)
{
	return memcmp(block, block + 1, n_bytes - 1) == 0;
}

/* ---- concurrent ------------------------------------------------------------------------------ */

struct place {
	uint32_t nsid, block, n_blocks;
};

static enum nvme_status write_in_capsule(struct raw_host *h, const struct place *place,
					 const char *data)
{
	uint32_t n_bytes = place->block * place->n_blocks;
	struct nvme_sqe sqe = raw_blocks(&h->io, NVME_IO_WRITE, place->nsid, 0, place->n_blocks);
	struct nvme_cqe cqe;

	sqe.sgl = (struct nvme_sgl){
		.block = {.length = put_le32(n_bytes), .type = NVME_SGL_DATA_BLOCK_OFFSET}};
	return raw_run(&h->io, &sqe, data, n_bytes, &cqe);
}

static void write_for_ever(const struct place *place, unsigned number)
{
	uint32_t n_bytes = place->block * place->n_blocks;
	struct raw_host h;

	raw_host_open_as(&h, d.port, number);
	for (unsigned i = number;; i += 3) {
		enum nvme_status status;

		memset(h.io.data, (int)(i & 0xff), n_bytes);
		if (i % 2 && n_bytes <= BLOCK)
			status = write_in_capsule(&h, place, h.io.data);
		else
			status = raw_io(&h.io, NVME_IO_WRITE, place->nsid, 0, place->n_blocks,
					n_bytes);
		if (status != NVME_OK)
			_exit(1);
	}
}

static void zero_for_ever(const struct place *place, unsigned number)
{
	struct raw_host h;

	raw_host_open_as(&h, d.port, number);
	for (;;)
		if (raw_io(&h.io, NVME_IO_WRITE_ZEROES, place->nsid, 0, place->n_blocks, 0) !=
		    NVME_OK)
			_exit(1);
}

static pid_t start_writer(const struct place *place, unsigned number,
			  void (*run)(const struct place *place, unsigned number))
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		run(place, number);
	return pid;
}

static void end_writer(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
}

/* Two hosts write the same blocks, a third zeroes them, and a fourth reads them. */
static void read_while_written(const struct place *place)
{
	uint32_t n_bytes = place->block * place->n_blocks;
	pid_t writers[] = {start_writer(place, 1, write_for_ever),
			   start_writer(place, 2, write_for_ever),
			   start_writer(place, 3, zero_for_ever)};
	unsigned n_torn = 0, n_changes = 0;
	struct raw_host h;
	char last = 0;

	raw_host_open(&h, d.port);
	for (unsigned n = 0; n < READS || n_changes < READS / 10; n++) {
		memset(h.io.data, 0xaa, n_bytes);
		assert_int_equal(
			raw_io(&h.io, NVME_IO_READ, place->nsid, 0, place->n_blocks, n_bytes),
			NVME_OK);
		for (unsigned i = 0; i < place->n_blocks; i++)
			n_torn += !is_uniform(h.io.data + i * place->block, place->block);
		n_changes += h.io.data[0] != last;
		last = h.io.data[0];
	}
	for (unsigned i = 0; i < 3; i++)
		end_writer(writers[i]);
	raw_host_close(&h);
	if (n_torn)
		fail_msg("wrong data: %u blocks are torn", n_torn);
}

static void blocks_in_memory(void **state)
{
	read_while_written(&(struct place){DAEMON_BIG_RAM, BLOCK, 1});
	read_while_written(&(struct place){DAEMON_BIG_RAM, BLOCK, 8});
	read_while_written(&(struct place){DAEMON_RAM, SMALL, 3});
}

static void blocks_of_a_file(void **state)
{
	read_while_written(&(struct place){DAEMON_FILE, BLOCK, 1});
}

/* ---- the end of a host ----------------------------------------------------------------------- */

static void write_and_wait(int told)
{
	struct raw_host h;
	struct nvme_sqe sqe;

	raw_host_open_as(&h, d.port, 1);
	memset(h.io.data, 'n', KILL_BLOCKS * BLOCK);
	sqe = raw_blocks(&h.io, NVME_IO_WRITE, DAEMON_BIG_RAM, 0, KILL_BLOCKS);
	raw_describe(&h.io, &sqe, 0, KILL_BLOCKS * BLOCK);
	raw_send(&h.io, &sqe, sizeof(sqe));
	if (write(told, "", 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

static void kill_a_writer(void)
{
	int told[2], status;
	char byte;
	pid_t pid;

	assert_int_equal(pipe(told), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		write_and_wait(told[1]);
	close(told[1]);
	assert_int_equal(read(told[0], &byte, 1), 1);
	close(told[0]);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
}

/* The host is killed while its data is fetched, in pieces: each block is the old or the new one. */
static void a_writer_that_dies(void **state)
{
	for (unsigned i = 0; i < KILLS; i++) {
		struct raw_host h;
		unsigned n_torn = 0;

		raw_host_open(&h, d.port);
		memset(h.io.data, 'o', KILL_BLOCKS * BLOCK);
		assert_int_equal(raw_io(&h.io, NVME_IO_WRITE, DAEMON_BIG_RAM, 0, KILL_BLOCKS,
					KILL_BLOCKS * BLOCK),
				 NVME_OK);
		raw_host_close(&h);
		kill_a_writer();
		daemon_wait_empty(&d);
		raw_host_open(&h, d.port);
		assert_int_equal(raw_io(&h.io, NVME_IO_READ, DAEMON_BIG_RAM, 0, KILL_BLOCKS,
					KILL_BLOCKS * BLOCK),
				 NVME_OK);
		for (unsigned b = 0; b < KILL_BLOCKS; b++)
			n_torn += !is_uniform(h.io.data + b * BLOCK, BLOCK);
		raw_host_close(&h);
		if (n_torn)
			fail_msg("wrong data: %u blocks are torn", n_torn);
	}
}

/* ---- hosts that do not take their data ------------------------------------------------------- */

/* Its receives are used up: the data of its reads arrives, but their responses do not. */
static void hold_a_read(struct raw_host *h)
{
	struct nvme_sqe sqe;
	struct nvme_cqe cqe;

	h->io.keeps_receives = true;
	for (unsigned i = 0; i < RAW_RECVS; i++) {
		sqe = raw_sqe(&h->io, NVME_IO_FLUSH, DAEMON_BIG_RAM);
		raw_send(&h->io, &sqe, sizeof(sqe));
		assert_true(raw_receive(&h->io, &cqe, WAIT_MS));
	}
	memset(h->io.data, 0xaa, BLOCK);
	sqe = raw_blocks(&h->io, NVME_IO_READ, DAEMON_BIG_RAM, 0, 1);
	raw_describe(&h->io, &sqe, 0, BLOCK);
	raw_send(&h->io, &sqe, sizeof(sqe));
	for (unsigned i = 0; *(volatile uint8_t *)h->io.data == 0xaa; i++) {
		assert_true(i < WAIT_MS);
		usleep(1000);
	}
}

/* It may delay a write for some seconds, then it is disconnected. */
static void a_reader_that_takes_nothing(void **state)
{
	struct raw_host reader, writer;

	raw_host_open_as(&reader, d.port, 1);
	hold_a_read(&reader);
	raw_host_open(&writer, d.port);
	memset(writer.io.data, 'w', BLOCK);
	assert_int_equal(raw_io(&writer.io, NVME_IO_WRITE, DAEMON_BIG_RAM, 0, 1, BLOCK), NVME_OK);
	assert_true(raw_is_dropped(&reader.io));
	raw_host_close(&writer);
	raw_host_close(&reader);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(blocks_in_memory, next_good_host),
		cmocka_unit_test_teardown(blocks_of_a_file, next_good_host),
		cmocka_unit_test_teardown(a_writer_that_dies, next_good_host),
		cmocka_unit_test_teardown(a_reader_that_takes_nothing, next_good_host),
	};

	return cmocka_run_group_tests_name("whole_blocks", tests, start_in_pieces, stop);
}
