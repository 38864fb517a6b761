/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fio's engine for NVMe over RDMA volumes, by librblk: rblk-fio(1). Each job has a volume with one
 * queue, and its buffers in memory that is registered once. fio opens the volume in its main
 * thread, to know the size; so jobs are threads, because a child process could not use it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "library/rblk.h"
#include "tools/fio/fio_abi.h"

/* fio fills it from its command line. */
struct options {
	void *unused;
	const char *uri;
};

struct job {
	struct rblk_volume *volume;
	struct rblk_queue *queue;
	struct rblk_memory *memory; /* base, n_bytes: fio's buffers */
	char *base;
	size_t n_bytes;
	int file;		/* owned: of that memory; -1: it has none */
	struct rblk_io **ended; /* owned: depth */
	unsigned depth;		/* I/Os of the job in flight, at most */
};

/* ---- starting ---- */

static int fail(const char *what, const struct rblk_error *error)
{
	log_err("rblk: %s: %s%s%s\n", what, error->message, *error->hint ? "; " : "", error->hint);
	return 1;
}

extern struct fio_ops ioengine;

/* Checks what fio does not check itself: where its fields are. */
static int is_known_fio(struct fio_job *job)
{
	if (!strcmp(fio_version_string, FIO_ABI_VERSION) && fio_ops_of(job) == &ioengine)
		return 1;
	log_err("rblk: this engine is for " FIO_ABI_VERSION ", and this is %s\n",
		fio_version_string);
	return 0;
}

/* fio calls setup once for each job, so each has a volume, and with it a connection, of its own. */
static int open_volume(struct fio_job *job, const char *uri)
{
	static const struct rblk_option options[] = {{"queues", "1"}, {0}};
	struct job *own = calloc(1, sizeof(*own));
	struct rblk_error error;

	if (!own)
		return 1;
	own->file = -1;
	if (rblk_open(uri, options, &own->volume, &error) < 0) {
		free(own);
		return fail("cannot open the volume", &error);
	}
	*fio_engine_data(job) = own;
	return 0;
}

static int setup(struct fio_job *job)
{
	const struct options *options;
	struct rblk_info info;
	struct job *own;

	if (!is_known_fio(job))
		return 1;
	options = fio_options(job);
	if (!options->uri) {
		log_err("rblk: --uri=nvme+rdma://HOST/NQN is missing\n");
		return 1;
	}
	if (!*fio_engine_data(job) && open_volume(job, options->uri))
		return 1;
	own = *fio_engine_data(job);
	*fio_uses_thread(job) = 1;
	if (!fio_n_known_files(job)) {
		add_file(job, "rblk", 0, 0);
		fio_n_files(job)[0] = 1;
		fio_n_files(job)[1]++;
	}
	rblk_get_info(own->volume, &info);
	*fio_file_size(fio_files(job)[0]) = info.size_bytes;
	return 0;
}

/* The queue belongs to the thread that opens it: the job's. */
static int init(struct fio_job *job)
{
	struct job *own = *fio_engine_data(job);
	struct rblk_error error;

	own->depth = *fio_depth(job);
	own->ended = calloc(own->depth, sizeof(struct rblk_io *));
	if (!own->ended)
		return 1;
	if (rblk_queue_open(own->volume, &own->queue, &error) < 0)
		return fail("cannot open a queue", &error);
	return 0;
}

/* A sealed file in memory, or -1. */
static int make_file(size_t n)
{
	int fd = memfd_create("rblk-fio", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd >= 0 && ftruncate(fd, (off_t)n) == 0 &&
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

static void close_file(struct job *own)
{
	if (own->file >= 0)
		close(own->file);
	own->file = -1;
}

/* Maps a file that stays open: softrdma lets the target on this machine map that, and copies
 * without system calls. A device takes any memory. MAP_FAILED: none. */
static void *map_memory(struct job *own, size_t n)
{
	void *base;

	own->file = make_file(n);
	base = mmap(NULL, n, PROT_READ | PROT_WRITE,
		    own->file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, own->file, 0);
	if (base == MAP_FAILED)
		close_file(own);
	return base;
}

static void unmap_memory(struct job *own, void *base, size_t n)
{
	munmap(base, n);
	close_file(own);
}

/* All buffers of the job are one piece of memory, so it is registered once. */
static int alloc_memory(struct fio_job *job, size_t n)
{
	struct job *own = *fio_engine_data(job);
	struct rblk_error error;
	void *base = map_memory(own, n);

	if (base == MAP_FAILED)
		return 1;
	if (rblk_memory_register(own->volume, base, n, &own->memory, &error) < 0) {
		unmap_memory(own, base, n);
		return fail("cannot register the buffers", &error);
	}
	own->base = base;
	own->n_bytes = n;
	*fio_memory(job) = base;
	return 0;
}

/* An I/O of the library for each of fio's, so that nothing is allocated later. */
static int init_io(struct fio_job *job, struct fio_io *io)
{
	struct rblk_io *own = calloc(1, sizeof(*own));

	if (!own)
		return 1;
	own->context = io;
	io->engine = own;
	return 0;
}

/* ---- I/O ---- */

/* The operation of the library for a direction of fio. */
static uint32_t op_of(uint32_t direction)
{
	switch (direction) {
	case FIO_READ:
		return RBLK_READ;
	case FIO_WRITE:
		return RBLK_WRITE;
	case FIO_TRIM:
		return RBLK_DISCARD;
	case FIO_SYNC:
	case FIO_DATASYNC:
		return RBLK_FLUSH;
	}
	return UINT32_MAX; /* which rblk_submit refuses */
}

/* Only builds the I/O: commit sends what was submitted. */
static int submit(struct fio_job *job, struct fio_io *io)
{
	struct job *own = *fio_engine_data(job);
	struct rblk_io *rio = io->engine;
	char *buffer = io->buffer;
	int r;

	rio->op = op_of(io->direction);
	rio->offset = io->offset;
	rio->length = io->length;
	rio->buffer = buffer;
	rio->memory = buffer >= own->base && buffer + io->length <= own->base + own->n_bytes
			      ? own->memory
			      : NULL;
	r = rblk_submit(own->queue, rio);
	if (r == 0)
		return FIO_QUEUED;
	io->error = (uint32_t)-r;
	return FIO_COMPLETED;
}

static int commit(struct fio_job *job)
{
	struct job *own = *fio_engine_data(job);

	return -rblk_send(own->queue);
}

/* fio asks for at least min; with 0 it only looks. */
static int get_events(struct fio_job *job, unsigned min, unsigned max,
		      const struct timespec *timeout)
{
	struct job *own = *fio_engine_data(job);
	int ms = timeout ? (int)(timeout->tv_sec * 1000 + timeout->tv_nsec / 1000000) : -1;
	unsigned n = 0;
	int r;

	if (max > own->depth)
		max = own->depth;
	do {
		r = min ? rblk_wait(own->queue, own->ended + n, max - n, ms)
			: rblk_poll(own->queue, own->ended + n, max - n);
		n += r > 0 ? (unsigned)r : 0;
	} while (n < min && r > 0);
	return r < 0 ? r : (int)n;
}

/* The library's result becomes fio's: an errno, and how much was not done. */
static struct fio_io *get_event(struct fio_job *job, int i)
{
	struct job *own = *fio_engine_data(job);
	struct fio_io *io = own->ended[i]->context;

	io->error = (uint32_t)-own->ended[i]->result;
	io->residue = io->error ? io->length : 0;
	return io;
}

/* ---- ending ---- */

static void free_io(struct fio_job *job, struct fio_io *io)
{
	free(io->engine);
	io->engine = NULL;
}

static void free_memory(struct fio_job *job)
{
	struct job *own = *fio_engine_data(job);

	rblk_memory_unregister(own->memory);
	unmap_memory(own, own->base, own->n_bytes);
	own->memory = NULL;
	own->base = NULL;
	own->n_bytes = 0;
}

/* Also of a job that setup has made and init has not seen. */
static void cleanup(struct fio_job *job)
{
	struct job *own = *fio_engine_data(job);

	if (!own)
		return;
	while (own->queue && rblk_queue_depth(own->queue))
		rblk_wait(own->queue, own->ended, own->depth, -1);
	rblk_queue_close(own->queue);
	rblk_close(own->volume);
	free(own->ended);
	free(own);
	*fio_engine_data(job) = NULL;
}

/* There is no file to open, to close or to take out of a cache. */
static int do_nothing(struct fio_job *job, void *file)
{
	return 0;
}

static struct fio_option options[] = {
	{
		.name = "uri",
		.long_name = "URI of the volume",
		.type = FIO_TYPE_TEXT,
		.offset = offsetof(struct options, uri),
		.help = "nvme+rdma://HOST[:PORT]/NQN?ns=1, see librblk(3)",
		.category = FIO_CATEGORY_ENGINE,
		.group = FIO_GROUP_ENGINE,
	},
	{0},
};

/* The name that fio looks for. */
__attribute__((visibility("default"))) struct fio_ops ioengine = {
	.name = "rblk",
	.version = FIO_OPS_VERSION,
	.flags = FIO_DISKLESS | FIO_NO_EXTEND | FIO_NO_OFFLOAD,
	.setup = setup,
	.init = init,
	.queue = submit,
	.commit = commit,
	.getevents = get_events,
	.event = get_event,
	.cleanup = cleanup,
	.open_file = do_nothing,
	.close_file = do_nothing,
	.invalidate = do_nothing,
	.iomem_alloc = alloc_memory,
	.iomem_free = free_memory,
	.io_init = init_io,
	.io_free = free_io,
	.option_struct_size = sizeof(struct options),
	.options = options,
};
