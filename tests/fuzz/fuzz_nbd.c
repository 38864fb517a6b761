/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One NBD client, from its first byte to the end of its stream: the real connection, on a worker's
 * loop without a thread, over a small volume in memory (fuzz_volume.c). The first byte chooses the
 * handshake or none, the abilities of the volume, and whether two more bytes schedule a failure
 * (struct plan).
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "nbd_bridge/io/nbd_conn.h"
#include "nbd_bridge/io/nbd_part.h"
#include "nbd_bridge/io/nbd_reclaim.h"
#include "nbd_bridge/io/nbd_session.h"
#include "nbd_bridge/io/worker.h"
#include "tests/fuzz/fuzz_memory.h"
#include "tests/fuzz/fuzz_volume.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum {
	IS_KERNEL = 1 << 0,
	IS_READ_ONLY = 1 << 1,
	IS_SIMPLE = 1 << 2, /* neither Write Zeroes nor Dataset Management */
	HAS_4K = 1 << 3,
	HAS_PLAN = 1 << 4,
	IS_FULL = 1 << 5,	     /* the limit on connections is reached */
	IS_SHORT_OF_MEMORY = 1 << 6, /* the first byte of the plan: which call fails */
};

enum event {
	EVENT_NONE,
	EVENT_STOP,	  /* the server is stopped */
	EVENT_LATE,	  /* a deadline has passed */
	EVENT_HANG_UP,	  /* the client is gone, with replies unread */
	EVENT_NOT_TAKING, /* it stops reading replies */
	EVENT_SHORT,	  /* it sends a few bytes at a time from here on */
	EVENT_SHRINKS,	  /* the volume becomes smaller */
	EVENT_NO_PARTS,	  /* other connections hold all parts for a while */
	EVENTS,
};

/* The first byte: the errno (low bits), and one of how many I/Os fails with it; the second: an
 * event, and after how many turns it occurs (high bits). */
struct plan {
	int error;
	unsigned every;
	enum event event;
	unsigned turn;
	unsigned memory;
};

enum {
	TURNS_NOT_TAKING = 30, /* then the client reads again */
	TURNS_NO_PARTS = 4,
	SHORT_BYTES = 20,
};

static struct {
	struct worker worker;
	struct nbd_conn *returned;
	struct nbd_part *borrowed; /* parts taken from the connection for a while */
} env;

static void on_closed(struct worker *worker, struct nbd_conn *conn)
{
	env.returned = conn;
}

static unsigned poll_nothing(struct loop_source *source)
{
	return 0;
}

/* As worker.c's: the end of a turn sends the replies of dirty connections. */
static void flush_dirty(struct loop_source *source)
{
	struct list now, *node;

	list_init(&now);
	list_splice_tail(&now, &env.worker.nbd.dirty);
	while ((node = list_take_first(&now)))
		nbd_session_flush(list_entry(node, struct nbd_conn, dirty));
}

static void start(void)
{
	struct worker *worker = &env.worker;

	check(loop_init(&worker->nbd.loop, 0, NULL) == 0);
	list_init(&worker->nbd.conns);
	list_init(&worker->nbd.dirty);
	worker->nbd.reclaim.on_expiry = nbd_reclaim_on_look;
	worker->control = &worker->nbd.loop;
	worker->on_conn_closed = on_closed;
	worker->source = (struct loop_source){.poll = poll_nothing, .flush = flush_dirty};
	loop_source_add(&worker->nbd.loop, &worker->source);
	worker->nbd.queue = fuzz_volume_start(&worker->nbd.loop);
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

/* Reads and drops the server's replies. */
static void swallow(int fd)
{
	char said[4096];

	while (recv(fd, said, sizeof(said), MSG_DONTWAIT) > 0)
		;
}

static struct plan read_plan(const uint8_t bytes[2])
{
	static const int errors[] = {0,	     EIO,     EPERM,	  EROFS,    ENOSPC,
				     EINVAL, ENOTSUP, EOPNOTSUPP, ESHUTDOWN};

	return (struct plan){.error = errors[(bytes[0] & 15) % ARRAY_LEN(errors)],
			     .every = 1u + (bytes[0] >> 4),
			     .event = (enum event)((bytes[1] & 7) % EVENTS),
			     .turn = bytes[1] >> 3};
}

static void happen(struct nbd_export *export, struct nbd_conn *conn, enum event event, int fd)
{
	if (event == EVENT_STOP) {
		nbd_session_stop(conn);
		nbd_session_stop(conn); /* a second call has no effect */
	} else if (event == EVENT_LATE && loop_timer_is_running(&conn->deadline)) {
		loop_timer_stop(&conn->deadline);
		conn->deadline.on_expiry(&conn->deadline);
	} else if (event == EVENT_HANG_UP) {
		shutdown(fd, SHUT_RDWR);
	} else if (event == EVENT_SHRINKS) {
		atomic_store(&export->size_bytes, FUZZ_VOLUME_BYTES / 2);
	}
}

static void move_parts(struct nbd_part **to, struct nbd_part **from)
{
	while (*from) {
		struct nbd_part *part = *from;

		*from = part->next_free;
		part->next_free = *to;
		*to = part;
	}
}

/* Takes all parts of the connection, and gives them back when is_over. */
static void borrow_parts(struct nbd_conn *conn, bool is_over)
{
	if (!conn->requests)
		return;
	if (!is_over) {
		move_parts(&env.borrowed, &conn->free_parts);
	} else if (env.borrowed) {
		move_parts(&conn->free_parts, &env.borrowed);
		nbd_conn_resume_soon(conn);
	}
}

static size_t send_some(int fd, const uint8_t *data, size_t n)
{
	ssize_t r = n ? send(fd, data, n, MSG_NOSIGNAL) : 0;

	return r > 0 ? (size_t)r : 0;
}

/* A small send buffer fills soon when the client does not read. */
static void open_sockets(int fds[2])
{
	int little = 1;

	check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
	check(setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &little, sizeof(little)) == 0);
}

static void turn(struct nbd_export *export, struct nbd_conn *conn, const struct plan *plan,
		 unsigned n, int fd)
{
	bool is_taking = plan->event != EVENT_NOT_TAKING || n < plan->turn ||
			 n > plan->turn + TURNS_NOT_TAKING;

	bool is_there = !list_is_empty(&conn->node); /* not on its way back to its owner */

	if (n == plan->turn && is_there)
		happen(export, conn, plan->event, fd);
	if (plan->event == EVENT_NO_PARTS && is_there &&
	    (n == plan->turn || n == plan->turn + TURNS_NO_PARTS))
		borrow_parts(conn, n != plan->turn);
	loop_turn(&env.worker.nbd.loop, is_taking ? NSEC_PER_MSEC : 0);
	if (is_taking)
		swallow(fd);
}

/* The first request must arrive only after the parts are gone, so bytes trickle until then. */
static bool is_sent_short(const struct plan *plan, unsigned n)
{
	return (plan->event == EVENT_SHORT && n >= plan->turn) ||
	       (plan->event == EVENT_NO_PARTS && n < plan->turn);
}

static void talk(struct nbd_export *export, bool is_kernel, const struct plan *plan,
		 const uint8_t *data, size_t n)
{
	struct nbd_conn *conn;
	unsigned n_turns = 0;
	int fds[2];

	open_sockets(fds);
	memory_fail(plan->memory);
	conn = nbd_conn_new(export, 1, fds[0], is_kernel ? CLIENT_KERNEL : CLIENT_SOCKET);
	if (!conn) {
		close(fds[1]);
		return;
	}
	env.returned = NULL;
	env.borrowed = NULL; /* borrowed parts of the last connection were freed with it */
	worker_add_conn(&env.worker, conn);
	while (!env.returned) {
		bool is_short = is_sent_short(plan, n_turns);
		size_t r = send_some(fds[1], data, is_short ? MIN(n, SHORT_BYTES) : n);

		data += r;
		n -= r;
		if (n == 0)
			shutdown(fds[1], SHUT_WR);
		turn(export, conn, plan, n_turns++, fds[1]);
	}
	close(fds[1]);
	nbd_conn_free(conn);
	fuzz_volume_check_idle();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	bool has_plan = n >= 3 && data[0] & HAS_PLAN;
	struct plan plan = {0};
	struct nbd_export *export;
	unsigned n_others;

	if (n == 0)
		return 0;
	if (!env.worker.nbd.queue)
		start();
	if (has_plan)
		plan = read_plan(data + 1);
	if (data[0] & IS_SHORT_OF_MEMORY)
		plan.memory = 1u + data[has_plan] % 8;
	fuzz_volume_fail(plan.error, plan.every);
	export = calloc(1, sizeof(*export));
	check(export);
	init_export(export, data[0]);
	n_others = data[0] & IS_FULL ? export->max_established : 0;
	export->n_established = n_others;
	talk(export, data[0] & IS_KERNEL, &plan, data + (has_plan ? 3 : 1), n - (has_plan ? 3 : 1));
	memory_fail(0);
	check(export->n_established == n_others);
	nbd_export_deinit(export);
	free(export);
	return 0;
}
