/* SPDX-License-Identifier: BSD-3-Clause */
/* The export of the NBD server: one volume. Shared by all its connections on all workers.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "initiator/control/volume.h"
#include "nbd_bridge/io/nbd_state.h"
#include "nbd_bridge/io/nbd_wire.h"
#include "nbd_bridge/io/range_lock.h"

enum {
	NBD_NAME_MAX = 255, /* longer names, legal on the wire, match nothing */
};

struct nbd_export {
	/* Thread: written by control before the workers start, then read-only... */
	char name[NBD_NAME_MAX + 1]; /* clients may ask for it or for "" */
	char description[512];
	uint32_t block_size;
	uint32_t max_io_bytes;	  /* a multiple of block_size, at least two blocks */
	uint64_t slab_bytes;	  /* registered memory of each queue */
	unsigned max_established; /* clients, the kernel aside */

	/* ...but these, which change while clients are connected. */
	_Atomic uint64_t size_bytes;
	_Atomic bool is_read_only;
	_Atomic bool has_trim;
	_Atomic bool has_write_zeroes;
	_Atomic unsigned n_established; /* clients of sockets, past the handshake */

	struct range_lock locks;
};

/* Fails with -EOPNOTSUPP when the volume's block size is beyond what NBD or the buffers
 * can do. */
int nbd_export_init(struct nbd_export *export, const char *name, const char *description,
		    const struct volume_info *info, uint64_t slab_bytes);
void nbd_export_deinit(struct nbd_export *export);
/* Control thread: the volume changed. force_read_only: whatever the target says. */
void nbd_export_update(struct nbd_export *export, const struct volume_info *info,
		       bool force_read_only);

/* Transmission flags for one connection: what NBD_OPT_GO announces. Any thread. */
uint16_t nbd_export_flags(const struct nbd_export *export, bool is_structured);
/* In bytes. Any thread: it changes when the namespace does. */
static inline uint64_t nbd_export_size(const struct nbd_export *export)
{
	return atomic_load_explicit(&export->size_bytes, memory_order_relaxed);
}
