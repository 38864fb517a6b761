/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One NBD client, from its first byte to the end of its stream: the connection as it is, on a
 * worker's loop without a thread, over a small volume in memory (fuzz_volume.c). The first byte
 * chooses: with or without the handshake, and what the volume can do.
 */
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "nbd_bridge/nbd_conn.h"
#include "nbd_bridge/worker.h"
#include "tests/fuzz/fuzz_volume.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum {
	IS_KERNEL = 1 << 0,
	IS_READ_ONLY = 1 << 1,
	IS_SIMPLE = 1 << 2, /* neither Write Zeroes nor Dataset Management */
	HAS_4K = 1 << 3,
};

static struct {
	struct worker worker;
	struct nbd_conn *returned;
} env;

static void on_closed(struct worker *worker, struct nbd_conn *conn)
{
	env.returned = conn;
}

static unsigned poll_nothing(struct loop_source *source)
{
	return 0;
}

/* As worker.c's: what is dirty is sent at the end of a turn. */
static void flush_dirty(struct loop_source *source)
{
	struct list now, *node;

	list_init(&now);
	list_splice_tail(&now, &env.worker.dirty);
	while ((node = list_take_first(&now)))
		nbd_conn_flush(list_entry(node, struct nbd_conn, dirty));
}

static void start(void)
{
	struct worker *worker = &env.worker;

	check(loop_init(&worker->loop, 0, NULL) == 0);
	list_init(&worker->conns);
	list_init(&worker->dirty);
	worker->control = &worker->loop;
	worker->on_conn_closed = on_closed;
	worker->source = (struct loop_source){.poll = poll_nothing, .flush = flush_dirty};
	loop_source_add(&worker->loop, &worker->source);
	worker->queue = fuzz_volume_start(&worker->loop);
}

static void init_export(struct nbd_export *export, unsigned which)
{
	struct volume_info info = {
		.size_bytes = FUZZ_VOLUME_BYTES,
		.block_size = which & HAS_4K ? 4096 : 512,
		.max_io_bytes = FUZZ_IO_BYTES,
		.is_read_only = which & IS_READ_ONLY,
		.has_flush = true,
		.has_write_zeroes = !(which & IS_SIMPLE),
		.has_trim = !(which & IS_SIMPLE),
	};

	check(nbd_export_init(export, "a", "volume", &info, FUZZ_SLAB_BYTES) == 0);
	export->max_established = 2;
	nbd_export_update(export, &info, false);
}

/* Whatever the server says. */
static void swallow(int fd)
{
	char said[4096];

	while (recv(fd, said, sizeof(said), MSG_DONTWAIT) > 0)
		;
}

static void talk(struct nbd_export *export, bool is_kernel, const uint8_t *data, size_t n)
{
	struct nbd_conn *conn;
	int fds[2];

	check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) ==
	      0);
	conn = nbd_conn_new(export, 1, fds[0], is_kernel);
	check(conn);
	env.returned = NULL;
	worker_add_conn(&env.worker, conn);
	while (!env.returned) {
		ssize_t r = n ? send(fds[1], data, n, MSG_NOSIGNAL) : 0;

		data += r > 0 ? r : 0;
		n -= r > 0 ? (size_t)r : 0;
		if (n == 0)
			shutdown(fds[1], SHUT_WR);
		loop_turn(&env.worker.loop, NSEC_PER_MSEC);
		swallow(fds[1]);
	}
	close(fds[1]);
	nbd_conn_free(conn);
	fuzz_volume_check_idle();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct nbd_export *export;

	if (n == 0)
		return 0;
	if (!env.worker.queue)
		start();
	export = calloc(1, sizeof(*export));
	check(export);
	init_export(export, data[0]);
	talk(export, data[0] & IS_KERNEL, data + 1, n - 1);
	check(export->n_established == 0);
	nbd_export_deinit(export);
	free(export);
	return 0;
}
