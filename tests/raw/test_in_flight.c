/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many commands in flight: a command that waits for a buffer, a READ credit or a receive must
 * continue, in any mixture, and data must be right. The daemon has 8 MiB of buffers, and the
 * commands need more.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include <json-c/json.h>

#include "tests/raw/group.h"
#include "tests/raw/host.h"

enum {
	DEPTH = 31,
	N_FLUSHES = 3,
	NS_BYTES = 16 * 1024 * 1024,
	WAIT_MS = 60000,
};

static int start_one_worker(void **state)
{
	/* One poller, so that all connections share it; few receives, so that they run out. */
	return start_tuned(", workers: 1, shared_receives: 64");
}

/* Every block contains its number and the round in which it was written. */
static void stamp(char *p, uint32_t n_bytes, uint64_t offset, unsigned round)
{
	for (uint32_t at = 0; at < n_bytes; at += 8) {
		uint64_t word = (offset + at) << 8 | (round & 0xff);

		memcpy(p + at, &word, 8);
	}
}

static bool is_stamped(const char *p, uint32_t n_bytes, uint64_t offset, unsigned round)
{
	for (uint32_t at = 0; at < n_bytes; at += 8) {
		uint64_t word;

		memcpy(&word, p + at, 8);
		if (word != ((offset + at) << 8 | (round & 0xff)))
			return false;
	}
	return true;
}

static unsigned shift_of(uint32_t nsid)
{
	return nsid == DAEMON_FILE ? 12 : 9;
}

static void send_one(struct raw_queue *q, uint8_t opcode, uint32_t nsid, uint64_t offset, size_t at,
		     uint32_t n_bytes)
{
	struct nvme_sqe sqe = raw_sqe(q, opcode, nsid);

	raw_describe(q, &sqe, at, n_bytes);
	sqe.cdw10 = put_le32((uint32_t)(offset >> shift_of(nsid)));
	sqe.cdw12 = put_le32((n_bytes >> shift_of(nsid)) - 1);
	raw_send(q, &sqe, sizeof(sqe));
}

static void collect_until_dropped(struct raw_queue *q)
{
	struct nvme_cqe cqe;

	while (raw_receive(q, &cqe, WAIT_MS))
		assert_int_equal(get_nvme_status(cqe.status), NVME_OK);
	assert_true(q->is_dead);
}

static void write_and_read_back(struct raw_queue *q, uint32_t nsid, uint32_t n_bytes,
				unsigned round)
{
	uint64_t base = (uint64_t)round * 65536 % (NS_BYTES / 2);

	for (unsigned i = 0; i < DEPTH; i++) {
		stamp(q->data + i * n_bytes, n_bytes, base + i * n_bytes, round);
		send_one(q, NVME_IO_WRITE, nsid, base + i * n_bytes, i * n_bytes, n_bytes);
	}
	assert_true(raw_collect(q, DEPTH, WAIT_MS));
	memset(q->data, 0, DEPTH * n_bytes);
	for (unsigned i = 0; i < DEPTH; i++)
		send_one(q, NVME_IO_READ, nsid, base + i * n_bytes, i * n_bytes, n_bytes);
	assert_true(raw_collect(q, DEPTH, WAIT_MS));
	assert_true(is_stamped(q->data, DEPTH * n_bytes, base, round));
}

static void full_depth(void **state)
{
	struct raw_host h;

	raw_host_open(&h, d.port);
	for (unsigned round = 0; round < 40; round++)
		for (uint32_t n = 4096; n <= 65536; n *= 4) {
			write_and_read_back(&h.io, DAEMON_RAM, n, round);
			write_and_read_back(&h.io, DAEMON_FILE, n, round);
		}
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

/* 31 MiB of writes and reads on 4 MiB of buffers a poller. */
static void more_than_there_are_buffers(void **state)
{
	const uint32_t n = 1024 * 1024;
	struct raw_host h;

	raw_host_open(&h, d.port);
	for (unsigned round = 0; round < 4; round++) {
		stamp(h.io.data, n, 0, round);
		for (unsigned i = 0; i < DEPTH; i++)
			send_one(&h.io, NVME_IO_WRITE, DAEMON_FILE, (uint64_t)i % 16 * n, 0, n);
		assert_true(raw_collect(&h.io, DEPTH, WAIT_MS));
		for (unsigned i = 0; i < DEPTH; i++)
			send_one(&h.io, NVME_IO_READ, DAEMON_FILE, (uint64_t)i % 16 * n, n, n);
		assert_true(raw_collect(&h.io, DEPTH, WAIT_MS));
		assert_true(is_stamped(h.io.data + n, n, 0, round));
	}
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

static void send_in_capsule(struct raw_queue *q, uint64_t offset, unsigned round)
{
	struct {
		struct nvme_sqe sqe;
		char data[4096];
	} capsule = {.sqe = raw_sqe(q, NVME_IO_WRITE, DAEMON_FILE)};

	capsule.sqe.sgl = (struct nvme_sgl){
		.block = {.length = put_le32(4096), .type = NVME_SGL_DATA_BLOCK_OFFSET}};
	capsule.sqe.cdw10 = put_le32((uint32_t)(offset >> 12));
	stamp(capsule.data, 4096, offset, round);
	raw_send(q, &capsule, sizeof(capsule));
}

/* Three hosts with more capsules than there are receives: some data is copied, none is lost. */
static void many_in_capsules(void **state)
{
	const uint64_t share = DEPTH * 4096;
	struct raw_host h[3];

	for (unsigned i = 0; i < 3; i++)
		raw_host_open(&h[i], d.port);
	for (unsigned round = 0; round < 60; round++) {
		for (unsigned i = 0; i < 3 * DEPTH; i++)
			send_in_capsule(&h[i % 3].io, i % 3 * share + i / 3 * 4096, round);
		for (unsigned i = 0; i < 3; i++)
			assert_true(raw_collect(&h[i].io, DEPTH, WAIT_MS));
	}
	for (unsigned i = 0; i < 3; i++) {
		send_one(&h[i].io, NVME_IO_READ, DAEMON_FILE, i * share, 0, DEPTH * 4096);
		assert_true(raw_collect(&h[i].io, 1, WAIT_MS));
		assert_true(is_stamped(h[i].io.data, DEPTH * 4096, i * share, 59));
		raw_host_close(&h[i]);
	}
	daemon_wait_empty(&d);
}

/* A host that disconnects in the middle of everything, again and again; other hosts do not
 * notice. */
static void leaves_while_in_flight(void **state)
{
	struct raw_host steady, h;

	raw_host_open(&steady, d.port);
	for (unsigned round = 0; round < 30; round++) {
		raw_host_open(&h, d.port);
		for (unsigned i = 0; i < DEPTH; i++)
			send_one(&h.io, i & 1 ? NVME_IO_WRITE : NVME_IO_READ,
				 i & 2 ? DAEMON_FILE : DAEMON_RAM, 8 << 20, 0,
				 round & 1 ? 65536 : 1 << 20);
		raw_host_close(&h);
		write_and_read_back(&steady.io, DAEMON_RAM, 4096, round);
	}
	raw_host_close(&steady);
	daemon_wait_empty(&d);
}

static void hold_admin_alive(struct raw_host *h)
{
	struct nvme_sqe sqe = raw_sqe(&h->admin, NVME_ADMIN_KEEP_ALIVE, 0);
	struct nvme_cqe cqe;

	/* KATO is 0, so the status is an error, but the response comes. */
	assert_int_equal(raw_run(&h->admin, &sqe, NULL, 0, &cqe), NVME_KATO_INVALID | NVME_DNR);
}

/* Data that waits for buffers delays neither admin commands nor Connect. */
static void admin_beside_data(void **state)
{
	struct raw_host busy, other;

	raw_host_open(&busy, d.port);
	for (unsigned round = 0; round < 10; round++) {
		for (unsigned i = 0; i < DEPTH; i++)
			send_one(&busy.io, NVME_IO_WRITE, DAEMON_FILE, 0, 0, 1 << 20);
		hold_admin_alive(&busy);
		raw_host_open(&other, d.port);
		raw_host_close(&other);
		assert_true(raw_collect(&busy.io, DEPTH, WAIT_MS));
	}
	raw_host_close(&busy);
	daemon_wait_empty(&d);
}

/* This figure of the connection that is in the way of others most, in status. */
static uint64_t holder_figure(const char *key)
{
	struct json_object *status = daemon_ask(&d, "status");
	struct json_object *holders = json_object_object_get(status, "holders");
	uint64_t n = 0;

	if (json_object_array_length(holders))
		n = json_object_get_uint64(
			json_object_object_get(json_object_array_get_idx(holders, 0), key));
	json_object_put(status);
	return n;
}

/*
 * A host that takes no response: its reads fill the buffers and stay there. When another host waits
 * for a buffer, the first must be disconnected.
 */
static void host_that_takes_nothing(void **state)
{
	struct raw_host bad, good;

	raw_host_open(&bad, d.port);
	raw_host_open(&good, d.port);
	bad.io.keeps_receives = true;
	for (unsigned i = 0; i < RAW_RECVS; i++) {
		send_one(&bad.io, NVME_IO_READ, DAEMON_RAM, 0, 0, 512);
		assert_true(raw_collect(&bad.io, 1, WAIT_MS));
	}
	for (unsigned i = 0; i < DEPTH; i++)
		send_one(&bad.io, NVME_IO_READ, DAEMON_FILE, 0, 0, 1 << 20);
	while (!holder_figure("takes_no_data_s")) /* alone, it may take its time */
		usleep(10000);
	assert_true(holder_figure("buffer_bytes") >= 1 << 20);
	send_one(&good.io, NVME_IO_READ, DAEMON_FILE, 0, 0, 1 << 20);
	assert_true(raw_collect(&good.io, 1, WAIT_MS));
	assert_true(raw_is_dropped(&bad.io));
	daemon_wait_logged(&d, "it does not take its data, and others wait");
	raw_host_close(&bad);
	raw_host_close(&good);
	daemon_wait_empty(&d);
}

/* SIGTERM: commands in flight are answered or lost with their connection; the end is clean. */
static void stops_while_in_use(void **state)
{
	struct raw_host h[3];
	struct daemon own;

	daemon_start(&own, "");
	for (unsigned i = 0; i < 3; i++)
		raw_host_open(&h[i], own.port);
	for (unsigned i = 0; i < 3 * DEPTH; i++)
		send_one(&h[i % 3].io, i & 1 ? NVME_IO_WRITE : NVME_IO_READ,
			 i & 2 ? DAEMON_FILE : DAEMON_RAM, 0, 0, 1 << 20);
	daemon_terminate(&own);
	for (unsigned i = 0; i < 3; i++) {
		collect_until_dropped(&h[i].io);
		assert_true(raw_is_dropped(&h[i].admin));
	}
	daemon_stop(&own);
	for (unsigned i = 0; i < 3; i++)
		raw_host_close(&h[i]);
}

/* SIGTERM: commands that have arrived are answered, though the admin queue has none to wait for. */
static void answers_before_it_stops(void **state)
{
	struct nvme_cqe cqe;
	struct daemon own;
	struct raw_host h;
	unsigned n = 0;

	daemon_start(&own, "");
	raw_host_open(&h, own.port);
	for (unsigned i = 0; i < DEPTH; i++)
		send_one(&h.io, NVME_IO_WRITE, DAEMON_FILE, 0, 0, 1 << 20);
	while (daemon_n_commands(&own) < DEPTH + 1) /* and Connect */
		usleep(1000);
	daemon_terminate(&own);
	for (; raw_receive(&h.io, &cqe, WAIT_MS); n++)
		assert_int_equal(get_nvme_status(cqe.status), NVME_OK);
	assert_int_equal(n, DEPTH);
	assert_true(raw_is_dropped(&h.admin));
	daemon_stop(&own);
	raw_host_close(&h);
}

/* SIGTERM: responses that are on their way arrive, though no command is in flight any more. */
static void answers_arrive_before_it_stops(void **state)
{
	struct nvme_sqe sqe;
	struct daemon own;
	struct raw_host h;

	daemon_start(&own, "");
	raw_host_open(&h, own.port);
	h.io.keeps_receives = true;
	for (unsigned i = 0; i < RAW_RECVS; i++)
		assert_int_equal(raw_io(&h.io, NVME_IO_READ, DAEMON_RAM, 0, 1, 512), NVME_OK);
	for (unsigned i = 0; i < N_FLUSHES; i++) {
		sqe = raw_sqe(&h.io, NVME_IO_FLUSH, DAEMON_RAM);
		raw_send(&h.io, &sqe, sizeof(sqe));
	}
	while (daemon_n_commands(&own) < 1 + RAW_RECVS + N_FLUSHES)
		usleep(1000);
	daemon_terminate(&own);
	daemon_wait_logged(&own, "stopping: 2 connections to finish");
	raw_give_receives(&h.io);
	assert_true(raw_collect(&h.io, N_FLUSHES, WAIT_MS));
	assert_true(raw_is_dropped(&h.admin));
	daemon_stop(&own);
	raw_host_close(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(full_depth),
		cmocka_unit_test_teardown(more_than_there_are_buffers, next_good_host),
		cmocka_unit_test(many_in_capsules),
		cmocka_unit_test_teardown(leaves_while_in_flight, next_good_host),
		cmocka_unit_test(admin_beside_data),
		cmocka_unit_test_teardown(host_that_takes_nothing, next_good_host),
		cmocka_unit_test(stops_while_in_use),
		cmocka_unit_test(answers_before_it_stops),
		cmocka_unit_test(answers_arrive_before_it_stops),
	};

	return cmocka_run_group_tests_name("in_flight", tests, start_one_worker, stop);
}
