/* SPDX-License-Identifier: BSD-3-Clause */
/* The limits of a store, as its backend knows them; how many pollers and kinds of stores there may
 * be. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
	BACKENDS_MAX = 16,	  /* kinds of stores */
	BACKENDS_OWN_KEYS = 16,	  /* of all kinds together: backend_ops.keys */
	BACKENDS_OWN_BYTES = 128, /* likewise: backend_ops.own_bytes */
	POLLERS_MAX = 8, /* tuning.workers; each thread that moves data has an index below it */
};

/* Where acknowledged writes are; durability.c has the text. */
enum backend_durability {
	DURABILITY_UNKNOWN, /* the backend does not state it */
	DURABILITY_NONE,    /* nowhere: writes are dropped */
	DURABILITY_MEMORY,  /* memory of rblkd */
	DURABILITY_TMPFS,   /* a file in memory */
	DURABILITY_FILE, /* O_DIRECT: on the disk, or in its cache; the journal has the metadata */
	DURABILITY_PAGE_CACHE,	  /* a file without O_DIRECT */
	DURABILITY_WRITE_BACK,	  /* a disk with a volatile cache */
	DURABILITY_WRITE_THROUGH, /* a disk without one */
	DURABILITY_UNKNOWN_CACHE, /* a disk that does not report it */
	DURABILITY_REPLICATED,	  /* on the disks of all replicas in a cluster */
};

/* Which others may write to the store while it is open, and may still have writes under way that
 * they began before. Each backend knows it by the lock that it holds. */
enum backend_others {
	OTHERS_ANY,  /* it is shared, or could not be locked */
	OTHERS_FAR,  /* of other machines alone: the kernel gives this lock away only when the I/O
			  * of its last holder is over */
	OTHERS_NONE, /* it is memory of this process, or all that reach it obey the lock */
};

struct backend_limits {
	uint64_t size_bytes;
	uint32_t min_block;	 /* smallest possible block size: O_DIRECT alignment */
	uint32_t physical_block; /* preferred write granularity (NPWG), 0 unknown */
	uint32_t optimal_bytes;	 /* optimal write size (NOWS), 0 unknown */
	uint32_t discard_bytes;	 /* granularity of discards (NPDG), 0: as physical_block */
	bool is_read_only;
	enum backend_others others;
	bool has_volatile_cache; /* Flush matters (VWC) */
	enum backend_durability durability;
	bool can_discard;
	bool discard_reads_zero;
	bool can_write_zeroes; /* faster than writing the zeroes */
	bool is_rotational;
};
