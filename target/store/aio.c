/* SPDX-License-Identifier: BSD-3-Clause */
/*
 *   backend_aio_start: waiting --submit, many at once--> kernel --reap--> then
 *
 * Batching. I/O is submitted once per loop turn, with one io_submit. But an idle disk gets the
 * first request at once, and a queue of EAGER is submitted early, so that the disk works while the
 * poller takes the rest. For the same reason only a few completions are taken at once: their
 * answers leave, and the commands that follow from them arrive, while the disk has the others.
 * Otherwise everything in flight would soon move in one lump, and disk, target and host would wait
 * for each other in turn.
 *
 * Completions are read from the ring that the kernel maps into our memory, without a system call;
 * if the ring has an unknown layout, by io_getevents. Each iocb also signals an eventfd, which only
 * matters while the loop sleeps: arm empties it, the loop polls once more, and whatever completes
 * after that wakes the loop.
 *
 * Shares. A disk that hangs gives nothing back. I/O of a disk beyond its share of the depth is held
 * until some of its own returns, and I/O of other disks overtakes it.
 *
 * A disk that is full. If a device has no free place (tag), io_submit would wait for one, and delay
 * all other disks. RWF_NOWAIT (Linux 4.13; all multi-queue block drivers, and what is stacked on
 * them, support it) returns -EAGAIN instead. Then the backend submits no more than it had in
 * flight, and one more for each that returns; see on_full.
 *
 * Nothing is lost. An iocb that the kernel has no room for (EAGAIN) stays first in line and is
 * tried again when another completes, or by a timer. One that the kernel refuses ends its own io
 * only. A short transfer continues where it ended; without progress it is EIO, never success
 * (reliability rule R4, fault F8).
 *
 * No io is given back from inside a submit. Nor from flush, because sources that were flushed
 * before it would miss the work that follows: results that are known at once go through
 * backend_skip.
 */
#include <errno.h>
#include <libaio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/uio.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "target/store/aio.h"
#include "target/store/pool.h"
#include "target/store/step.h"

enum {
	BATCH = 64,
	EAGER = 8,
	REAP_BATCH = 8,
	DEPTH_MIN = 32, /* the smallest depth that setup_context tries */
	RETRY_MS = 1,
	SHARE_PERCENT = 80, /* a backend's share of (free + already held) */
	SPLIT_BYTES = 128 * 1024,
	RING_MAGIC = 0xa10a10a1,
};

/* The memory behind an io_context_t (fs/aio.c, aio_ring). The kernel moves tail, this file head. */
struct ring {
	unsigned id, n_events;
	unsigned head, tail;
	unsigned magic, compat_features, incompat_features;
	unsigned header_length;
	struct io_event events[];
};
static_assert(sizeof(struct ring) == 32, "fs/aio.c");
static_assert(sizeof(struct iocb) <= sizeof(((struct backend_step *)0)->iocb), "an iocb");

struct backend_aio {
	/* Thread: the loop's */
	io_context_t context;
	struct ring *ring;    /* the kernel's; NULL: unknown layout, use io_getevents */
	struct loop_fd event; /* the eventfd */
	struct loop_source source;
	struct loop_awaited awaited; /* n_in_flight */
	struct loop_timer retry;
	struct list waiting; /* of backend_io.node: first in, first submitted */
	unsigned depth, n_in_flight, n_waiting;
	bool may_be_signaled; /* the eventfd, by what was reaped since it was emptied */
};

/* ---- submission -------------------------------------------------------------------- */

static struct iocb *iocb_of(struct backend_io *io)
{
	return (struct iocb *)(void *)backend_step(io)->iocb;
}

static struct backend_share *share_of(struct backend_io *io)
{
	struct backend_share *share = &io->backend->shares[backend_step(io)->thread->index];

	if (!share->held.next)
		list_init(&share->held);
	return share;
}

/* io_prep_* clear the whole iocb. */
static void fill_iocb(struct backend_aio *aio, struct backend_io *io)
{
	const struct backend_step *step = backend_step(io);
	struct iocb *iocb = iocb_of(io);
	char *at = (char *)io->buffer + io->n_done;
	size_t n = io->length - io->n_done;
	long long offset = (long long)(io->offset + io->n_done);

	if (step->op == BACKEND_READ) {
		io_prep_pread(iocb, step->fd, at, n, offset);
	} else if (step->op == BACKEND_WRITE) {
		io_prep_pwrite(iocb, step->fd, at, n, offset);
		if (step->is_dsync)
			iocb->aio_rw_flags = RWF_DSYNC;
	} else {
		io_prep_fdsync(iocb, step->fd);
	}
	if (step->work && !share_of(io)->lacks_nowait)
		iocb->aio_rw_flags |= RWF_NOWAIT;
	iocb->data = io;
	io_set_eventfd(iocb, aio->event.fd);
}

/* The first of the line, as many as one submit may have. */
static unsigned collect_batch(struct backend_aio *aio, struct iocb **batch)
{
	unsigned n = 0, room = MIN(aio->depth - aio->n_in_flight, (unsigned)BATCH);

	list_for_each (node, &aio->waiting) {
		if (n == room)
			break;
		batch[n++] = iocb_of(list_entry(node, struct backend_io, node));
	}
	return n;
}

static void take_submitted(struct backend_aio *aio, int n)
{
	for (int i = 0; i < n; i++)
		list_take_first(&aio->waiting);
	aio->n_waiting -= (unsigned)n;
	aio->n_in_flight += (unsigned)n;
}

/*
 * Whether the backend may have one more in flight. The share shrinks as the depth is used up, so
 * that any number of disks that hang leave room for one that does not; a lone one may have most of
 * the depth.
 */
static bool has_share(const struct backend_aio *aio, const struct backend_share *share)
{
	unsigned n_taken = aio->n_in_flight + aio->n_waiting;
	unsigned n_free = aio->depth > n_taken ? aio->depth - n_taken : 0;

	if (!share->n_taken)
		return true;
	if (share->n_places && share->n_taken >= share->n_places)
		return false;
	return share->n_taken < (n_free + share->n_taken) * SHARE_PERCENT / 100;
}

/* Held I/O takes the free part of the share. */
static void fill_share(struct backend_aio *aio, struct backend_share *share)
{
	struct list *node;

	while (has_share(aio, share) && (node = list_take_first(&share->held))) {
		share->n_taken++;
		list_add_tail(&aio->waiting, node);
		aio->n_waiting++;
	}
}

/* An I/O of the backend is over: the next held one takes its place. A disk that was full may have
 * room for one more now. */
static void leave_share(struct backend_aio *aio, struct backend_io *io)
{
	struct backend_share *share = share_of(io);

	share->n_taken--;
	if (share->n_places && ++share->n_places >= aio->depth)
		share->n_places = 0;
	fill_share(aio, share);
}

/* The kernel refused the first of the batch for good. */
static void fail_first(struct backend_aio *aio, int error)
{
	struct backend_io *io = list_entry(list_take_first(&aio->waiting), struct backend_io, node);

	aio->n_waiting--;
	leave_share(aio, io);
	backend_skip(io, error);
}

/* The kernel has no room now. The next completion submits again, but there may be none. */
static void try_later(struct backend_aio *aio)
{
	struct backend_thread *thread =
		backend_step(list_entry(aio->waiting.next, struct backend_io, node))->thread;

	if (!loop_timer_is_running(&aio->retry))
		loop_timer_start(thread->loop, &aio->retry, RETRY_MS * NSEC_PER_MSEC);
}

/* The loop runs another turn, which flushes. */
static void on_retry(struct loop_timer *timer)
{
}

static void submit(struct backend_aio *aio)
{
	struct iocb *batch[BATCH] UNINITIALIZED;
	unsigned n;

	while ((n = collect_batch(aio, batch))) {
		int r = io_submit(aio->context, n, batch);

		if (r > 0) {
			take_submitted(aio, r);
		} else if (r == 0 || r == -EAGAIN || r == -EINTR) {
			try_later(aio);
			return;
		} else if (r == -EOPNOTSUPP && batch[0]->aio_rw_flags & RWF_NOWAIT) {
			batch[0]->aio_rw_flags &= ~RWF_NOWAIT;
			share_of(batch[0]->data)->lacks_nowait = true;
		} else {
			fail_first(aio, r);
		}
	}
}

static void flush(struct loop_source *source)
{
	struct backend_aio *aio = container_of(source, struct backend_aio, source);

	if (aio->n_waiting)
		submit(aio);
}

static void wait_in_line(struct backend_aio *aio, struct backend_io *io)
{
	struct backend_share *share = share_of(io);

	fill_iocb(aio, io);
	if (!has_share(aio, share)) {
		list_add_tail(&share->held, &io->node);
		return;
	}
	share->n_taken++;
	list_add_tail(&aio->waiting, &io->node);
	aio->n_waiting++;
	if ((!aio->n_in_flight || aio->n_waiting >= EAGER) && !loop_timer_is_running(&aio->retry))
		submit(aio);
}

void backend_aio_start(struct backend_io *io, enum backend_op op, bool is_dsync, int fd,
		       uint32_t align, int (*if_full)(struct backend_io *io))
{
	struct backend_step *step = backend_step(io);

	io->n_done = 0;
	step->op = op;
	step->is_dsync = is_dsync;
	step->fd = fd;
	step->align = align;
	step->work = if_full;
	wait_in_line(step->thread->aio, io);
}

/* ---- completion -------------------------------------------------------------------- */

/* Continues a transfer that moved n bytes. O_DIRECT can only continue at a multiple of align. */
static void on_transfer(struct backend_aio *aio, struct backend_io *io, uint64_t n)
{
	struct backend_step *step = backend_step(io);
	uint64_t before = io->n_done, n_done = before + n;

	if (n_done < io->length)
		n_done -= n_done % step->align;
	io->n_done = n_done;
	if (n_done == io->length)
		step->then(io, 0);
	else if (n_done > before && n_done < io->length)
		wait_in_line(aio, io);
	else
		backend_end_short(io); /* the end of the file, or a wrong count */
}

/*
 * The disk has no free place. If it has other I/O of this poller, the next completion probably
 * frees one. If not, or if the kernel may have to split this I/O, for which it never finds a place,
 * a worker waits.
 */
static void on_full(struct backend_aio *aio, struct backend_io *io)
{
	struct backend_share *share = share_of(io);

	share->n_taken--;
	if (share->n_taken && io->length <= SPLIT_BYTES) {
		share->n_places = share->n_taken;
		list_add_head(&share->held, &io->node);
		return;
	}
	backend_pool_start(io, backend_step(io)->work);
	if (!share->n_taken)
		fill_share(aio, share);
}

/*
 * The device no longer supports RWF_NOWAIT, although io_submit still believes so for its
 * descriptor: a volume of the device mapper has another table. A try without RWF_NOWAIT shows
 * whether RWF_DSYNC was the unsupported flag.
 */
static void on_lost_nowait(struct backend_aio *aio, struct backend_io *io)
{
	share_of(io)->lacks_nowait = true;
	leave_share(aio, io);
	wait_in_line(aio, io);
}

static void on_event(struct backend_aio *aio, const struct io_event *event)
{
	struct backend_io *io = event->data;
	long result = (long)event->res;

	check(aio->n_in_flight > 0);
	aio->n_in_flight--;
	if (result == -EAGAIN && iocb_of(io)->aio_rw_flags & RWF_NOWAIT) {
		on_full(aio, io);
		return;
	}
	if (result == -EOPNOTSUPP && iocb_of(io)->aio_rw_flags & RWF_NOWAIT) {
		on_lost_nowait(aio, io);
		return;
	}
	leave_share(aio, io);
	if (result < 0)
		backend_step(io)->then(io, (int)result);
	else if (backend_step(io)->op == BACKEND_FLUSH)
		backend_step(io)->then(io, 0);
	else
		on_transfer(aio, io, (uint64_t)result);
}

static unsigned read_ring(struct ring *ring, struct io_event *events)
{
	unsigned head = ring->head;
	unsigned tail = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
	unsigned n = 0;

	check(head < ring->n_events && tail < ring->n_events);
	while (head != tail && n < REAP_BATCH) {
		events[n++] = ring->events[head];
		head = head + 1 == ring->n_events ? 0 : head + 1;
	}
	if (n)
		__atomic_store_n(&ring->head, head, __ATOMIC_RELEASE);
	return n;
}

static unsigned read_events(io_context_t context, struct io_event *events)
{
	struct timespec now = {0};
	int n = io_getevents(context, 0, REAP_BATCH, events, &now);

	check(n >= 0 || n == -EINTR);
	return n > 0 ? (unsigned)n : 0;
}

/* All events leave the ring before the first io is given back. */
static NOINLINE unsigned reap_some(struct backend_aio *aio)
{
	struct io_event events[REAP_BATCH] UNINITIALIZED;
	unsigned n;

	n = aio->ring ? read_ring(aio->ring, events) : read_events(aio->context, events);
	if (n)
		aio->may_be_signaled = true;
	for (unsigned i = 0; i < n; i++)
		on_event(aio, &events[i]);
	return n;
}

static unsigned reap(struct loop_source *source)
{
	struct backend_aio *aio = container_of(source, struct backend_aio, source);

	return aio->n_in_flight ? reap_some(aio) : 0;
}

static void empty_eventfd(struct backend_aio *aio)
{
	uint64_t count;

	if (read(aio->event.fd, &count, sizeof(count)) < 0)
		check(errno == EAGAIN);
	aio->may_be_signaled = false;
}

static void arm(struct loop_source *source)
{
	struct backend_aio *aio = container_of(source, struct backend_aio, source);

	if (aio->may_be_signaled)
		empty_eventfd(aio);
}

/* I/O completed while the loop slept, or spun without this source; the next turn finds it. */
static void on_signal(struct loop_fd *lfd, uint32_t events)
{
	empty_eventfd(container_of(lfd, struct backend_aio, event));
}

/* ---- life -------------------------------------------------------------------------- */

void backend_aio_free(struct backend_aio *aio)
{
	if (!aio)
		return;
	check(!aio->n_in_flight && list_is_empty(&aio->waiting));
	loop_timer_stop(&aio->retry);
	loop_source_remove(&aio->source);
	loop_awaited_remove(&aio->awaited);
	loop_fd_remove(&aio->event);
	if (aio->context)
		io_destroy(aio->context);
	if (aio->event.fd >= 0)
		close(aio->event.fd);
	free(aio);
}

/* The system's limit (fs.aio-max-nr) may be nearly reached: fewer in flight then, more in line. */
static int setup_context(struct backend_aio *aio, unsigned depth)
{
	int r = io_setup((int)depth, &aio->context);

	while (r == -EAGAIN && depth > DEPTH_MIN) {
		depth /= 2;
		r = io_setup((int)depth, &aio->context);
	}
	aio->depth = depth;
	return r;
}

static struct ring *find_ring(io_context_t context)
{
	struct ring *ring = (struct ring *)(void *)context;

	if (ring->magic != RING_MAGIC || ring->incompat_features ||
	    ring->header_length != sizeof(*ring) || !ring->n_events)
		return NULL;
	return ring;
}

int backend_aio_new(struct loop *loop, unsigned depth, struct backend_aio **ret_aio)
{
	struct backend_aio *aio = calloc(1, sizeof(*aio));
	int r;

	if (!aio)
		return -ENOMEM;
	list_init(&aio->waiting);
	aio->source = (struct loop_source){.poll = reap, .arm = arm, .flush = flush};
	aio->retry.on_expiry = on_retry;
	aio->event = (struct loop_fd){
		.events = EPOLLIN, .is_doorbell = true, .on_event = on_signal};
	aio->event.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = aio->event.fd < 0 ? -errno : setup_context(aio, depth);
	if (r == 0)
		r = loop_fd_add(loop, &aio->event);
	if (r < 0) {
		backend_aio_free(aio);
		return r;
	}
	aio->ring = find_ring(aio->context);
	loop_source_add(loop, &aio->source);
	aio->awaited.n = &aio->n_in_flight;
	loop_awaited_add(loop, &aio->awaited);
	*ret_aio = aio;
	return 0;
}
