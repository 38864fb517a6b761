/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The export: name, size and abilities of the volume as NBD shows them. The control
 * thread fills it when the volume has been opened and updates it when the target reports
 * a change; connections read it at their handshake (flags) and for every request (size,
 * read-only).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "nbd_bridge/io/nbd_export.h"

enum {
	BLOCK_SIZE_MAX = 64 << 10, /* the protocol's bound of a minimum block size */
};

int nbd_export_init(struct nbd_export *export, const char *name, const char *description,
		    const struct volume_info *info, uint64_t slab_bytes)
{
	if (!is_power_of_2(info->block_size) || info->block_size > BLOCK_SIZE_MAX ||
	    info->max_io_bytes < 2 * info->block_size)
		return -EOPNOTSUPP;
	snprintf(export->name, sizeof(export->name), "%s", name);
	snprintf(export->description, sizeof(export->description), "%s", description);
	export->block_size = info->block_size;
	export->max_io_bytes = (uint32_t)align_down(MIN(info->max_io_bytes, NBD_PAYLOAD_MAX),
						    info->block_size);
	export->slab_bytes = slab_bytes;
	range_lock_init(&export->locks);
	return 0;
}

void nbd_export_deinit(struct nbd_export *export)
{
	if (export->block_size)
		range_lock_deinit(&export->locks);
}

void nbd_export_update(struct nbd_export *export, const struct volume_info *info,
		       bool force_read_only)
{
	atomic_store(&export->size_bytes, info->size_bytes);
	atomic_store(&export->is_read_only, info->is_read_only || force_read_only);
	atomic_store(&export->has_trim, info->has_trim);
	atomic_store(&export->has_write_zeroes, info->has_write_zeroes);
}

uint16_t nbd_export_flags(const struct nbd_export *export, bool is_structured)
{
	unsigned flags = NBD_FLAG_HAS_FLAGS | NBD_FLAG_FLUSH | NBD_FLAG_FUA | NBD_FLAG_CACHE |
			 NBD_FLAG_CAN_MULTI_CONN;

	if (is_structured)
		flags |= NBD_FLAG_DF;
	if (export->is_read_only)
		return (uint16_t)(flags | NBD_FLAG_READ_ONLY);
	/* Without Write Zeroes at the target we write zeros: still less to move over NBD.
	 */
	flags |= NBD_FLAG_WRITE_ZEROES | NBD_FLAG_FAST_ZERO;
	if (export->has_trim)
		flags |= NBD_FLAG_TRIM;
	return (uint16_t)flags;
}
