/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory: one memfd, mapped. It is registered with the RDMA devices (export/namespace_memory.c),
 * which take the data of reads from it, and the Write command copies its data there. So ordinary
 * reads and writes do not reach this backend. Other I/O is done in place, on the poller, and
 * completes on the next turn of the loop; only a large write zeroes or discard goes to a worker
 * thread. An io that finds a block in use (whole.h) continues in a later turn.
 *
 * No hole is ever punched into the memfd: a registration pins pages, and after a hole the devices
 * would use pages that are no longer part of it. Zeroes are written instead.
 *
 * It grows in place: address space is reserved at the start, and nothing in use moves. Added memory
 * is not part of the registration; hosts' data for it goes through buffers.
 *
 * Contents are gone when rblkd ends. There is no cache behind it, so Flush has nothing to do.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/huge_page.h"
#include "base/units.h"
#include "target/store/backends.h"
#include "target/store/pool.h"
#include "target/store/step.h"
#include "target/store/thread.h"
#include "target/store/whole.h"

enum {
	INLINE_ZEROES_BYTES = 256 * 1024,
	GROWTH_MAX = 16, /* times the first size */
	STUCK_NS = 1000 * 1000 * 1000,
	PAGE_BYTES = 4096,
};

struct ram {
	struct backend backend;
	int fd;		       /* owned */
	uint8_t *memory;       /* owned: mapped */
	size_t n_reserved;     /* of address space; the memory is its first part */
	size_t n_mapped;       /* more than size after an undone growth */
	_Atomic uint64_t size; /* control writes, pollers read */
};

static struct ram *ram_of(struct backend *backend)
{
	return container_of(backend, struct ram, backend);
}

/* The state of an io that found a block in use, in place of libaio's part of the step. */
struct ram_wait {
	uint64_t since_ns;
	uint64_t offset; /* of the piece that it waits for */
	bool wants;
};
static_assert(sizeof(struct ram_wait) <= sizeof(((struct backend_step *)0)->iocb),
	      "it must fit into the step");

static struct ram_wait *wait_of(struct backend_io *io)
{
	return (struct ram_wait *)(void *)backend_step(io)->iocb;
}

/* Moves as many pieces as possible now. */
static int move(struct backend_io *io)
{
	struct ram *ram = ram_of(io->backend);
	uint64_t offset = io->offset + io->n_done, left = io->length - io->n_done;
	char *at = io->buffer ? (char *)io->buffer + io->n_done : NULL;

	io->n_done += io->op == BACKEND_READ
			      ? whole_read(io->backend->whole, ram->memory, offset, at, left)
			      : whole_write(io->backend->whole, ram->memory, offset,
					    io->op == BACKEND_WRITE ? at : NULL, left);
	return 0;
}

static void stop_wanting(struct backend_io *io)
{
	struct ram_wait *wait = wait_of(io);

	if (wait->wants)
		whole_want_no_more(io->backend->whole, wait->offset);
	wait->wants = false;
}

static void go_on(struct backend_io *io, int error);

/* A processor's copy ends soon. A device's read ends when its host has taken the data. */
static void try_later(struct backend_io *io)
{
	struct ram_wait *wait = wait_of(io);
	struct backend_thread *thread = backend_step(io)->thread;
	uint64_t offset = io->offset + io->n_done;

	if (wait->offset != offset || !wait->since_ns) {
		stop_wanting(io);
		wait->offset = offset;
		wait->since_ns = thread->loop->now_ns;
	}
	if (!wait->wants && io->op != BACKEND_READ) {
		whole_want(io->backend->whole, offset);
		wait->wants = true;
	}
	if (thread->loop->now_ns - wait->since_ns > STUCK_NS && thread->on_stuck) {
		wait->since_ns = thread->loop->now_ns;
		thread->on_stuck(thread->stuck_context);
	}
	backend_step(io)->then = go_on;
	backend_skip(io, 0);
}

static void begin(struct backend_io *io)
{
	bool is_zero = io->op != BACKEND_READ && io->op != BACKEND_WRITE;

	if (is_zero && !wait_of(io)->since_ns && io->length > INLINE_ZEROES_BYTES) {
		backend_step(io)->then = go_on;
		backend_pool_start(io, move);
		return;
	}
	move(io);
	if (io->n_done < io->length)
		try_later(io);
	else
		backend_skip(io, 0);
}

static void go_on(struct backend_io *io, int error)
{
	if (io->n_done < io->length)
		move(io);
	if (io->n_done < io->length) {
		try_later(io);
		return;
	}
	stop_wanting(io);
	backend_done(io, 0);
}

static bool is_within(const struct ram *ram, const struct backend_io *io)
{
	uint64_t size = atomic_load_explicit(&ram->size, memory_order_acquire);

	return io->offset <= size && io->length <= size - io->offset;
}

static void ram_submit(struct backend *backend, struct backend_thread *thread,
		       struct backend_io *io)
{
	struct ram *ram = ram_of(backend);

	backend_take(backend, thread, io);
	if (io->op != BACKEND_FLUSH && !is_within(ram, io)) {
		backend_skip(io, -EIO);
		return;
	}
	if (io->op != BACKEND_READ && io->op != BACKEND_FLUSH && backend->limits.is_read_only) {
		backend_skip(io, -EROFS);
		return;
	}
	if (io->op == BACKEND_FLUSH) {
		backend_skip(io, 0);
		return;
	}
	io->n_done = 0;
	*wait_of(io) = (struct ram_wait){0};
	begin(io);
}

/* ---- life -------------------------------------------------------------------------- */

static int ram_check(const struct backend_config *config, uint64_t ret_identity[2],
		     struct error *error)
{
	char wanted[UNITS_MAX], have[UNITS_MAX];
	struct sysinfo info;
	uint64_t total;

	ret_identity[0] = ret_identity[1] = 0;
	if (!config->size_bytes || config->size_bytes % config->block_size)
		return error_refuse(error, -EINVAL,
				    "ram: %" PRIu64 " bytes is not a multiple of block_size %u",
				    config->size_bytes, config->block_size);
	total = sysinfo(&info) == 0 ? (uint64_t)info.totalram * info.mem_unit : UINT64_MAX;
	if (config->size_bytes > total)
		return error_refuse(error, -ENOMEM,
				    "ram: %s is more memory than the %s of this machine",
				    units_format_size(wanted, config->size_bytes),
				    units_format_size(have, total));
	return 0;
}

static void ram_close(struct backend *backend)
{
	struct ram *ram;

	if (!backend)
		return;
	ram = ram_of(backend);
	whole_free(ram->backend.whole);
	if (ram->memory)
		munmap(ram->memory, ram->n_reserved);
	if (ram->fd >= 0)
		close(ram->fd);
	free(ram);
}

/* Without spare address space the memory cannot grow; that is no error. */
static int reserve(struct ram *ram, uint64_t size)
{
	void *memory;

	ram->n_reserved = align_up(size, PAGE_BYTES) * GROWTH_MAX;
	memory = huge_page_reserve(ram->n_reserved);
	if (memory == MAP_FAILED) {
		ram->n_reserved = align_up(size, PAGE_BYTES);
		memory = huge_page_reserve(ram->n_reserved);
	}
	if (memory == MAP_FAILED)
		return -errno;
	ram->memory = memory;
	return 0;
}

/* Maps the pages behind those that are mapped already. */
static int extend(struct ram *ram, uint64_t size)
{
	size_t from = ram->n_mapped, to = align_up(size, PAGE_BYTES);

	check(to <= ram->n_reserved);
	if (to > from) {
		if (ftruncate(ram->fd, (off_t)to) < 0 ||
		    mmap(ram->memory + from, to - from, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_FIXED, ram->fd, (off_t)from) == MAP_FAILED)
			return -errno;
		ram->n_mapped = to;
	}
	ram->backend.limits.size_bytes = size;
	atomic_store_explicit(&ram->size, size, memory_order_release);
	return 0;
}

/* Sealed: a process with the file descriptor cannot shrink the memory while it is mapped here. */
static int map_memory(struct ram *ram, const struct backend_config *config)
{
	const struct backend_memory *memory = config->memory;
	uint64_t size = config->size_bytes;
	int r;

	if (memory) /* which may have grown beyond the configuration */
		size = MAX(size, memory->bytes);
	ram->fd = memory ? fcntl(memory->fd, F_DUPFD_CLOEXEC, 0)
			 : memfd_create("rblk-ram", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (ram->fd < 0 || fcntl(ram->fd, F_ADD_SEALS, F_SEAL_SHRINK) < 0)
		return -errno;
	r = reserve(ram, size);
	return r < 0 ? r : extend(ram, size);
}

static int ram_open(const struct backend_config *config, struct backend **ret_backend,
		    struct error *error)
{
	struct ram *ram;
	uint64_t identity[2];
	int r = ram_check(config, identity, error);

	if (r < 0)
		return r;
	ram = calloc(1, sizeof(*ram));
	if (!ram)
		return error_refuse(error, -ENOMEM, "ram: out of memory");
	ram->fd = -1;
	ram->backend.ops = &backend_ram;
	ram->backend.limits = (struct backend_limits){
		.size_bytes = config->size_bytes,
		.min_block = 512,
		.physical_block = 4096,
		.durability = DURABILITY_MEMORY,
		.others = OTHERS_NONE,
		.is_read_only = config->is_read_only,
		.can_discard = true,
		.discard_reads_zero = true,
		.can_write_zeroes = true,
	};
	ram->backend.whole = whole_new();
	r = ram->backend.whole ? map_memory(ram, config) : -ENOMEM;
	if (r < 0) {
		error_refuse(error, r, "ram: cannot get %" PRIu64 " bytes of memory: %s",
			     config->size_bytes, strerror(-r));
		ram_close(&ram->backend);
		return r;
	}
	*ret_backend = &ram->backend;
	return 0;
}

static int ram_resize(struct backend *backend, uint64_t size_bytes, struct error *error)
{
	struct ram *ram = ram_of(backend);
	char has[UNITS_MAX], wanted[UNITS_MAX];
	uint64_t old_size = ram->size;
	int r = 0;

	if (!size_bytes || size_bytes == ram->size)
		return 0;
	if (size_bytes < ram->size || size_bytes > ram->n_reserved)
		return error_refuse(
			error, -EINVAL, "ram: %s cannot become %s while it runs: %s",
			units_format_exact(has, ram->size), units_format_exact(wanted, size_bytes),
			size_bytes < ram->size ? "memory in use is not taken away"
					       : "it may grow to 16 times its first size");
	r = extend(ram, size_bytes);
	if (r < 0)
		return error_refuse(error, r, "ram: cannot grow to %s: %s",
				    units_format_exact(wanted, size_bytes), strerror(-r));
	backend->grown_from = old_size;
	backend->grown_to = size_bytes;
	return 0;
}

/* The pages stay mapped; no host can reach them. */
static int ram_undo_grow(struct backend *backend, struct error *error)
{
	struct ram *ram = ram_of(backend);

	backend->limits.size_bytes = backend->grown_from;
	atomic_store_explicit(&ram->size, backend->grown_from, memory_order_release);
	return 0;
}

static void *ram_memory(struct backend *backend)
{
	return ram_of(backend)->memory;
}

static int ram_share_memory(struct backend *backend)
{
	int fd = fcntl(ram_of(backend)->fd, F_DUPFD_CLOEXEC, 0);

	return fd < 0 ? -errno : fd;
}

const struct backend_ops backend_ram = {
	.name = "ram",
	.key = {.type = CONF_SIZE,
		.min = PAGE_BYTES,
		.max = 1ULL << 50,
		.help = "Serves this much memory; empty at each start."},
	.begins_empty = true,
	.open = ram_open,
	.close = ram_close,
	.check = ram_check,
	.submit = ram_submit,
	.resize = ram_resize,
	.undo_grow = ram_undo_grow,
	.memory = ram_memory,
	.share_memory = ram_share_memory,
};
