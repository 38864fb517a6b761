/* SPDX-License-Identifier: BSD-3-Clause */
/* Part of the configuration (config.h): what rblkd uses, and what hosts may use of it. */
#pragma once

#include <stdint.h>

#include "base/bits.h"
#include "base/conf.h"
#include "target/store/limits.h"

struct config_tuning {
	uint64_t workers; /* pollers; 0: auto (one a core, at most 8) */
	struct conf_mark buffers_mark;
	uint64_t spin;		  /* spin.h; default auto */
	uint64_t queue_depth;	  /* largest submission queue offered; default 128 */
	uint64_t inline_data;	  /* in-capsule data, bytes; default 4KiB */
	uint64_t max_transfer;	  /* MDTS, a power of 2; default 1MiB */
	uint64_t buffers;	  /* of all pollers together; default 64MiB */
	uint64_t shared_receives; /* of one poller at most; default 8192 */
	uint64_t io_queues;	  /* most I/O queues of a controller; default 64 */
};

/* Largest numbers, by which arrays are sized; POLLERS_MAX is in store/limits.h. */
enum {
	PORTALS_MAX = 32,      /* bits of a mask */
	NSID_MAX = 1024,       /* NN */
	ANA_GROUPS_MAX = 64,   /* NANAGRPID */
	ANA_GROUP_ID_MAX = 64, /* ANAGRPMAX */
};

/* Ranges of the keys above. */
enum {
	QUEUE_DEPTH_MAX = 1024,
	INLINE_DATA_MAX = 16 * 1024,
	MAX_TRANSFER_MIN = 8 * 1024,
	MAX_TRANSFER_MAX = 16 * 1024 * 1024,
	BLOCK_MIN = 32 * 1024,
};

/* Bytes of the largest buffer that a command can need, a power of 2: all of its data, or a piece of
 * it with what it is compared to; and at least what the smallest configuration needs
 * (static_asserts where buffers are taken). The largest block of a poller's buffers. */
static inline uint64_t tuning_block(const struct config_tuning *tuning)
{
	return MAX(tuning->max_transfer, BLOCK_MIN);
}

/* Rate limits of a namespace or a host; 0: no limit. */
struct config_qos {
	uint64_t iops;
	uint64_t read_bandwidth, write_bandwidth; /* bytes a second */
	uint64_t burst_ns;			  /* default 100ms */
};

struct config_limits {
	uint64_t connections;		  /* queue pairs in all; default 1024 */
	uint64_t connections_per_host;	  /* default 512 */
	uint64_t connections_per_address; /* 0: no limit */
	uint64_t controllers_per_host;	  /* default 128 */
	uint64_t discovery;		  /* associations in all; default 256 */
	uint64_t discovery_per_address;	  /* default 64 */
	uint64_t discovery_timeout_ns;	  /* of those without keep alive; default 120s */
	uint64_t buffers_per_host;	  /* percent; default 80 */
	uint64_t bytes_per_host;	  /* of buffers, of all workers; 0: no limit */
	uint64_t io_queues_per_host;	  /* default 384 */
	uint64_t connect_rate;		  /* a second, sustained; default 200 */
	uint64_t connect_rate_per_host;	  /* default 100 */
	uint64_t pending;		  /* before Connect or authentication; default 256 */
	uint64_t pending_per_host;	  /* default 72 */
	uint64_t connect_timeout_ns;	  /* to send Connect; default 5s */
	uint64_t auth_timeout_ns;	  /* to authenticate then; default 10s */
};

enum {
	METRICS_PORT = 9807, /* if the address has none */
};

struct config_metrics {
	char *listen; /* an address, perhaps with a port; NULL: nowhere */
};
