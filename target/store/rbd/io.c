/* SPDX-License-Identifier: BSD-3-Clause */
/*
 *   poller: submit -> librbd -> a thread of librados: on_complete -> message -> poller: on_message
 *
 * librbd allocates a completion and its own objects for each call; nothing here does. Without a
 * cache a write that has completed is on all replicas, so FUA needs nothing more. Its buffer goes
 * to the network as it is: the poller leaves it alone until done. There is no timeout and no way
 * to cancel: an I/O waits until an OSD answers.
 *
 * librbd cuts what reaches over the end of the image, and reports success. So the size is checked
 * here. A write that another machine's shrinking overtakes is a write from before it.
 */
#include <errno.h>

#include "base/bits.h"
#include "target/store/rbd/image.h"
#include "target/store/rbd/io.h"

static struct image *image_of(struct backend *backend)
{
	return container_of(backend, struct image, backend);
}

static bool is_in_pieces(const struct backend_io *io)
{
	return io->op == BACKEND_DISCARD || io->op == BACKEND_WRITE_ZEROES;
}

/* ---- completion ----------------------------------------------------------------------------- */

static void start(struct backend_io *io);

static void on_message(struct loop_msg *msg)
{
	struct backend_io *io = container_of(msg, struct backend_io, msg);

	if (io->result == 0 && is_in_pieces(io) && io->n_done < io->length)
		start(io);
	else
		backend_step(io)->then(io, io->result);
}

/* A thread of librados. */
static void on_complete(rbd_completion_t completion, void *context)
{
	struct backend_io *io = context;
	ssize_t r = rbd_aio_get_return_value(completion);

	rbd_aio_release(completion);
	io->is_short = io->op == BACKEND_READ && r >= 0 && (uint64_t)r != io->length;
	io->result = io->is_short ? -EIO : r < 0 ? (int)r : 0;
	io->msg.run = on_message;
	if (r == -ESHUTDOWN && lease_holds(image_of(io->backend)->lease, io))
		return;
	rbd_host->send(io->loop, &io->msg);
}

/* ---- submission ----------------------------------------------------------------------------- */

static int start_piece(struct image *image, struct backend_io *io, rbd_completion_t completion)
{
	uint64_t offset = io->offset + io->n_done;
	uint64_t n = MIN(io->length - io->n_done, image->piece_bytes);
	int flags = io->may_unmap ? 0 : RBD_WRITE_ZEROES_FLAG_THICK_PROVISION;

	io->n_done += n;
	if (io->op == BACKEND_DISCARD)
		return rbd_aio_discard(image->rbd, offset, n, completion);
	return rbd_aio_write_zeroes(image->rbd, offset, n, completion, flags, 0);
}

static int start_with(struct image *image, struct backend_io *io, rbd_completion_t completion)
{
	switch (io->op) {
	case BACKEND_READ:
		return rbd_aio_read(image->rbd, io->offset, io->length, io->buffer, completion);
	case BACKEND_WRITE:
		return rbd_aio_write(image->rbd, io->offset, io->length, io->buffer, completion);
	case BACKEND_FLUSH:
		return rbd_aio_flush(image->rbd, completion);
	case BACKEND_WRITE_ZEROES:
	case BACKEND_DISCARD:
		return start_piece(image, io, completion);
	case BACKEND_N_OPS:
		break;
	}
	return -EOPNOTSUPP;
}

/* Never calls back from inside: librbd completes on its own threads. */
static void start(struct backend_io *io)
{
	rbd_completion_t completion;
	int r = rbd_aio_create_completion(io, on_complete, &completion);

	if (r == 0) {
		r = start_with(image_of(io->backend), io, completion);
		if (r < 0)
			rbd_aio_release(completion);
	}
	if (r == 0)
		return;
	io->result = r;
	io->msg.run = on_message;
	if (r != -ESHUTDOWN || !lease_holds(image_of(io->backend)->lease, io))
		rbd_host->skip(io, r);
}

static int refuse(struct image *image, struct backend_io *io)
{
	uint64_t size = atomic_load_explicit(&image->size_bytes, memory_order_relaxed);

	if (io->op == BACKEND_FLUSH)
		return 0;
	if (io->op != BACKEND_READ && image->backend.limits.is_read_only)
		return -EROFS;
	io->is_short = io->offset > size || io->length > size - io->offset;
	return io->is_short ? -EIO : 0;
}

void image_submit(struct backend *backend, struct backend_thread *thread, struct backend_io *io)
{
	int r = refuse(image_of(backend), io);

	rbd_host->take(backend, thread, io);
	io->n_done = 0;
	if (r < 0 || !(io->length || io->op == BACKEND_FLUSH))
		rbd_host->skip(io, r);
	else
		start(io);
}
