/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The volume in memory; see volume_ram.h. The store is one mapping under a mutex, so each I/O is
 * atomic as a whole, which is more than NVMe guarantees. A read-modify-write made of two I/Os is
 * not atomic.
 *
 * A queue keeps its I/O in a list, sorted by due time, and completes them from a timer: a timerfd,
 * because delays are shorter than the loop's milliseconds. Without a delay it completes them from a
 * deferred call, hence never from inside submit. Buffers are malloc'ed one by one within the slab's
 * budget, so that a sanitizer sees every byte written past one.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "initiator/control/volume.h"
#include "tests/lib/volume_ram.h"

enum {
	BUFFERS_MAX = 4096,
};

struct volume {
	struct loop *control;
	const struct volume_callbacks *callbacks;
	void *context;
	struct volume_info info;
	struct loop_msg opened, closed, grown, power_lost;
	pthread_mutex_t mutex; /* guards bytes */
	uint8_t *bytes;
	uint8_t *durable; /* what outlives a loss of power; NULL: all of it does */
	uint64_t n_bytes, grow_to, slab_bytes, error_at;
	_Atomic uint64_t size_now; /* info.size_bytes, which I/O threads read */
	uint64_t delay_ns;
	bool holds;
	unsigned n_queues;
};

struct volume_queue {
	struct volume *volume;
	struct loop *loop;
	struct list pending; /* of struct volume_io, sorted by submit_ns, the due time */
	struct loop_call call;
	struct loop_fd timer;
	struct list waiters;
	struct {
		void *buffer;
		size_t n;
	} buffers[BUFFERS_MAX];
	unsigned n_buffers;
	size_t n_taken;
	unsigned seed;
	struct loop_msg added, removed;
	void (*on_removed)(void *context);
	void *removed_context;
};

static struct volume *the_volume; /* the signal handler's only access */

static uint64_t number(const char *name, uint64_t value)
{
	const char *s = getenv(name);

	return s ? strtoull(s, NULL, 0) : value;
}

const char *volume_path_state_name(enum volume_path_state state)
{
	return "";
}

const char *volume_state_name(enum volume_state state)
{
	return state == VOLUME_LIVE ? "live" : "closing";
}

static void on_opened(struct loop_msg *msg)
{
	struct volume *volume = container_of(msg, struct volume, opened);

	volume->callbacks->on_opened(volume->context, NULL);
}

static void on_grown(struct loop_msg *msg)
{
	struct volume *volume = container_of(msg, struct volume, grown);

	volume->info.size_bytes = volume->size_now = volume->grow_to;
	volume->callbacks->on_changed(volume->context);
}

static void on_signal(int signal)
{
	loop_send(the_volume->control, &the_volume->grown);
}

static void on_power_lost(struct loop_msg *msg)
{
	struct volume *volume = container_of(msg, struct volume, power_lost);

	pthread_mutex_lock(&volume->mutex);
	memcpy(volume->bytes, volume->durable, volume->n_bytes);
	pthread_mutex_unlock(&volume->mutex);
	fputs("the volume has lost power\n", stderr);
}

static void on_power_signal(int signal)
{
	loop_send(the_volume->control, &the_volume->power_lost);
}

static void fill_info(struct volume *volume)
{
	volume->info = (struct volume_info){
		.size_bytes = number("VOLUME_RAM_SIZE", 64 * MIB),
		.block_size = (uint32_t)number("VOLUME_RAM_BLOCK_SIZE", 4096),
		.max_io_bytes = (uint32_t)number("VOLUME_RAM_MAX_IO", 1 * MIB),
		.is_read_only = getenv("VOLUME_RAM_READ_ONLY"),
		.has_flush = !getenv("VOLUME_RAM_NO_FLUSH"),
		.has_write_zeroes = !getenv("VOLUME_RAM_NO_ZEROES"),
		.has_trim = !getenv("VOLUME_RAM_NO_TRIM"),
		.reads_zero_after_trim = true,
		.serial = "RAM",
		.model = "volume in memory",
		.n_queues_granted = (unsigned)number("VOLUME_RAM_QUEUES", 4),
	};
}

int volume_open(struct loop *control, const struct volume_config *config,
		const struct volume_callbacks *callbacks, void *context, struct volume **ret_volume)
{
	struct volume *volume = calloc(1, sizeof(*volume));

	check(volume);
	volume->control = control;
	volume->callbacks = callbacks;
	volume->context = context;
	volume->opened.run = on_opened;
	volume->grown.run = on_grown;
	volume->power_lost.run = on_power_lost;
	pthread_mutex_init(&volume->mutex, NULL);
	fill_info(volume);
	volume->size_now = volume->info.size_bytes;
	volume->grow_to = number("VOLUME_RAM_GROW_TO", volume->info.size_bytes);
	volume->n_bytes = MAX(volume->grow_to, volume->info.size_bytes);
	volume->bytes = mmap(NULL, volume->n_bytes, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	check(volume->bytes != MAP_FAILED);
	if (getenv("VOLUME_RAM_CACHE")) {
		volume->durable = calloc(1, volume->n_bytes);
		check(volume->durable);
	}
	volume->slab_bytes = volume->info.slab_bytes = config->slab_bytes;
	volume->delay_ns = number("VOLUME_RAM_DELAY_US", 0) * NSEC_PER_USEC;
	volume->error_at = number("VOLUME_RAM_ERROR_AT", UINT64_MAX);
	volume->holds = getenv("VOLUME_RAM_HOLD");
	the_volume = volume;
	signal(SIGUSR1, on_signal);
	if (volume->durable)
		signal(SIGUSR2, on_power_signal);
	loop_send(control, &volume->opened);
	*ret_volume = volume;
	return 0;
}

static void on_closed(struct loop_msg *msg)
{
	struct volume *volume = container_of(msg, struct volume, closed);
	const struct volume_callbacks *callbacks = volume->callbacks;
	void *context = volume->context;

	signal(SIGUSR1, SIG_IGN);
	signal(SIGUSR2, SIG_IGN);
	free(volume->durable);
	munmap(volume->bytes, volume->n_bytes);
	pthread_mutex_destroy(&volume->mutex);
	free(volume);
	callbacks->on_closed(context);
}

void volume_close(struct volume *volume)
{
	check(!volume->n_queues);
	volume->closed.run = on_closed;
	loop_send(volume->control, &volume->closed);
}

int volume_reopen(struct volume *volume)
{
	return -EINVAL;
}

/* ---- paths: it has none -------------------------------------------------------------------- */

int volume_path_add(struct volume *volume, const union addr *address, struct error *error)
{
	error_set(error, EXIT_FAILED, NULL, "memory has no paths");
	return -EOPNOTSUPP;
}

int volume_path_leave(struct volume *volume, const union addr *address, bool is_dead,
		      struct error *error)
{
	return volume_path_add(volume, address, error);
}

bool volume_path_leaving(const struct volume *volume, union addr *ret_address)
{
	return false;
}

enum volume_departure volume_path_go(struct volume *volume, const union addr *address)
{
	return DEPARTURE_DONE;
}

/* ---- what is known ------------------------------------------------------------------------- */

void volume_get_info(const struct volume *volume, struct volume_info *ret_info)
{
	*ret_info = volume->info;
}

void volume_get_stats(struct volume *volume, struct volume_stats *ret_stats)
{
	memset(ret_stats, 0, sizeof(*ret_stats));
}

void volume_get_status(struct volume *volume, struct volume_status *ret_status)
{
	*ret_status = (struct volume_status){
		.state = VOLUME_LIVE, .n_queues_live = 1, .has_unflushed = volume->holds};
}

/* ---- queues -------------------------------------------------------------------------------- */

static void keep_locked(struct volume *volume, uint64_t offset, uint64_t length)
{
	if (volume->durable)
		memcpy(volume->durable + offset, volume->bytes + offset, length);
}

static void keep(struct volume *volume, uint64_t offset, uint64_t length)
{
	pthread_mutex_lock(&volume->mutex);
	keep_locked(volume, offset, length);
	pthread_mutex_unlock(&volume->mutex);
}

static int run_io(struct volume *volume, struct volume_io *io)
{
	uint64_t end = io->offset + io->length;

	check(io->offset % volume->info.block_size == 0);
	check(io->length % volume->info.block_size == 0);
	if (io->op == VOLUME_FLUSH) {
		keep(volume, 0, volume->n_bytes);
		return 0;
	}
	if (end > volume->size_now)
		return -ENOSPC;
	if (volume->error_at >= io->offset && volume->error_at < end)
		return -EIO;
	if (io->op == VOLUME_READ || io->op == VOLUME_WRITE)
		check(io->length <= volume->info.max_io_bytes && io->buffer);
	pthread_mutex_lock(&volume->mutex);
	if (io->op == VOLUME_READ)
		memcpy(io->buffer, volume->bytes + io->offset, io->length);
	else if (io->op == VOLUME_WRITE)
		memcpy(volume->bytes + io->offset, io->buffer, io->length);
	else
		madvise(volume->bytes + align_up(io->offset, 4096),
			align_down(end, 4096) > align_up(io->offset, 4096)
				? align_down(end, 4096) - align_up(io->offset, 4096)
				: 0,
			MADV_DONTNEED);
	if (io->op == VOLUME_WRITE_ZEROES || io->op == VOLUME_TRIM) {
		uint64_t head_end = MIN(align_up(io->offset, 4096), end);
		uint64_t tail = MAX(align_down(end, 4096), head_end);

		memset(volume->bytes + io->offset, 0, head_end - io->offset);
		memset(volume->bytes + tail, 0, end - tail);
	}
	if (io->is_fua)
		keep_locked(volume, io->offset, io->length);
	pthread_mutex_unlock(&volume->mutex);
	return 0;
}

static void start_timer(struct volume_queue *queue, uint64_t delay_ns)
{
	const struct itimerspec spec = {
		.it_value = {(time_t)(delay_ns / NSEC_PER_SEC), (long)(delay_ns % NSEC_PER_SEC)}};

	check(timerfd_settime(queue->timer.fd, 0, &spec, NULL) == 0);
}

static void complete_due(struct volume_queue *queue)
{
	while (!list_is_empty(&queue->pending)) {
		struct volume_io *io = list_entry(queue->pending.next, struct volume_io, node);
		uint64_t now = clock_ns();

		if (io->submit_ns > now) {
			start_timer(queue, io->submit_ns - now);
			return;
		}
		list_remove(&io->node);
		io->done(io, io->is_cancelled ? -ECANCELED : run_io(queue->volume, io));
	}
}

static void on_call(struct loop_call *call)
{
	complete_due(container_of(call, struct volume_queue, call));
}

static void on_timer(struct loop_fd *timer, uint32_t events)
{
	uint64_t n_expiries;

	if (read(timer->fd, &n_expiries, sizeof(n_expiries)) == sizeof(n_expiries))
		complete_due(container_of(timer, struct volume_queue, timer));
}

static void on_added(struct loop_msg *msg)
{
	struct volume_queue *queue = container_of(msg, struct volume_queue, added);

	check(loop_fd_add(queue->loop, &queue->timer) == 0);
}

/* io_loop may be running already, in its own thread. */
int volume_queue_add(struct volume *volume, struct loop *io_loop, struct volume_queue **ret_queue)
{
	struct volume_queue *queue;

	if (volume->n_queues == volume->info.n_queues_granted)
		return -EUSERS;
	queue = calloc(1, sizeof(*queue));
	check(queue);
	queue->volume = volume;
	queue->loop = io_loop;
	queue->call.run = on_call;
	queue->timer = (struct loop_fd){
		.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK),
		.events = EPOLLIN,
		.on_event = on_timer,
	};
	check(queue->timer.fd >= 0);
	queue->seed = ++volume->n_queues;
	list_init(&queue->pending);
	list_init(&queue->waiters);
	queue->added.run = on_added;
	loop_send(io_loop, &queue->added);
	*ret_queue = queue;
	return 0;
}

static void on_removed(struct loop_msg *msg)
{
	struct volume_queue *queue = container_of(msg, struct volume_queue, removed);

	queue->volume->n_queues--;
	queue->on_removed(queue->removed_context);
	free(queue);
}

static void on_remove(struct loop_msg *msg)
{
	struct volume_queue *queue = container_of(msg, struct volume_queue, removed);

	check(list_is_empty(&queue->pending) && list_is_empty(&queue->waiters));
	check(!queue->n_buffers && !queue->n_taken);
	loop_call_cancel(&queue->call);
	loop_fd_remove(&queue->timer);
	close(queue->timer.fd);
	queue->removed.run = on_removed;
	loop_send(queue->volume->control, &queue->removed);
}

void volume_queue_remove(struct volume_queue *queue, void (*removed)(void *context), void *context)
{
	queue->on_removed = removed;
	queue->removed_context = context;
	queue->removed.run = on_remove;
	loop_send(queue->loop, &queue->removed);
}

/* ---- I/O loop ------------------------------------------------------------------------------- */

static bool is_in_a_buffer(const struct volume_queue *queue, const struct volume_io *io)
{
	for (unsigned i = 0; i < queue->n_buffers; i++) {
		uintptr_t start = (uintptr_t)queue->buffers[i].buffer;

		if ((uintptr_t)io->buffer >= start &&
		    (uintptr_t)io->buffer + io->length <= start + queue->buffers[i].n)
			return true;
	}
	return false;
}

void volume_io_submit(struct volume_queue *queue, struct volume_io *io)
{
	uint64_t delay = queue->volume->delay_ns;
	struct list *after;

	if (io->op == VOLUME_READ || io->op == VOLUME_WRITE)
		check(is_in_a_buffer(queue, io));
	io->is_cancelled = false;
	if (queue->volume->holds) {
		io->submit_ns = UINT64_MAX;
		list_add_tail(&queue->pending, &io->node);
		return;
	}
	io->submit_ns = clock_ns() + (delay ? (uint64_t)rand_r(&queue->seed) % delay : 0);
	for (after = queue->pending.prev; after != &queue->pending; after = after->prev)
		if (list_entry(after, struct volume_io, node)->submit_ns <= io->submit_ns)
			break;
	list_add_head(after, &io->node);
	loop_defer(queue->loop, &queue->call);
}

/* I/O held for ever counts as not yet on the wire, so it can be cancelled. */
bool volume_io_cancel(struct volume_queue *queue, struct volume_io *io)
{
	if (io->submit_ns != UINT64_MAX)
		return false;
	list_remove(&io->node);
	io->submit_ns = 0;
	list_add_head(&queue->pending, &io->node);
	io->is_cancelled = true;
	loop_defer(queue->loop, &queue->call);
	return true;
}

void volume_io_set_before_held(struct volume_queue *queue, void (*call)(void *context),
			       void *context)
{
}

static void on_extents(struct loop_msg *msg)
{
	struct volume_extents *ask = container_of(msg, struct volume_extents, msg);

	ask->done(ask);
}

/* Memory may hold data everywhere. */
void volume_extents_ask(struct volume_queue *queue, struct volume_extents *ask)
{
	ask->n = 1;
	ask->runs[0] = (struct volume_run){.length = ask->length};
	ask->msg.run = on_extents;
	loop_send(queue->loop, &ask->msg);
}

void *volume_buffer_take(struct volume_queue *queue, size_t n_bytes)
{
	void *buffer;

	check(n_bytes > 0 && n_bytes <= queue->volume->info.max_io_bytes);
	if (queue->n_taken + n_bytes > queue->volume->slab_bytes || queue->n_buffers == BUFFERS_MAX)
		return NULL;
	check(posix_memalign(&buffer, 4096, n_bytes) == 0);
	queue->buffers[queue->n_buffers].buffer = buffer;
	queue->buffers[queue->n_buffers++].n = n_bytes;
	queue->n_taken += n_bytes;
	return buffer;
}

void volume_buffer_give(struct volume_queue *queue, void *buffer)
{
	struct list *waiter;
	unsigned i = 0;

	while (i < queue->n_buffers && queue->buffers[i].buffer != buffer)
		i++;
	check(i < queue->n_buffers);
	queue->n_taken -= queue->buffers[i].n;
	queue->buffers[i] = queue->buffers[--queue->n_buffers];
	free(buffer);
	waiter = list_take_first(&queue->waiters);
	if (waiter)
		loop_defer(queue->loop, list_entry(waiter, struct loop_call, node));
}

void volume_buffer_wait(struct volume_queue *queue, struct loop_call *waiter)
{
	list_add_tail(&queue->waiters, &waiter->node);
}

void volume_buffer_wait_cancel(struct volume_queue *queue, struct loop_call *waiter)
{
	if (waiter->is_queued)
		loop_call_cancel(waiter);
	else
		list_remove(&waiter->node);
}
