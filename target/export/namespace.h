/* SPDX-License-Identifier: BSD-3-Clause */
/* A namespace, as pollers see it: one disk of a subsystem (subsystem.h). Snapshots share it and
 * count references; its backend, counters and error records belong to it. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <uuid/uuid.h>

#include "target/config/limits.h"
#include "target/export/stats.h"
#include "target/store/backend.h"
#include "target/export/guard/guard.h"
#include "target/export/qos/qos.h"
#include "transport/device.h"

struct config_namespace;
struct health_record;
struct handover_namespace;
struct io_errors;
struct record_store;
struct retire;

/* The counts of one poller for one namespace. Thread: that poller. */
struct namespace_counters {
	_Alignas(64) uint64_t n_in_flight;
	/* For SMART: successful commands, Compare and Verify among the reads. (The histograms in
	 * stats have every answered command by class, so neither follows from the other.) */
	uint64_t n_reads, n_writes, read_blocks, written_blocks, n_flushes, n_errors;
	uint64_t n_media_errors;       /* of n_errors: those of the medium */
	size_t buffer_bytes;	       /* of the poller's buffers, held for the namespace */
	struct namespace_stats *stats; /* borrowed from the namespace */
};

struct namespace
{
	/* Thread: control builds it. Once published only counters and atomic fields change. */
	unsigned n_refs;	     /* snapshots that hold it; control only */
	struct list node;	     /* of namespaces that no snapshot holds; control only */
	struct backend_io last_sync; /* likewise: retire.c */
	struct retire *retire;
	uint32_t nsid;
	uuid_t uuid;
	uint8_t nguid[16];	   /* big-endian; the bytes of uuid, or configured */
	uint8_t eui64[8];	   /* big-endian; all zero: none */
	uint8_t block_shift;	   /* 9 or 12 */
	_Atomic uint64_t n_blocks; /* namespace_size.c: control changes it */
	bool is_read_only;
	bool has_cache;	       /* hosts see a volatile write cache (VWC): writes wait for a Flush */
	bool is_write_through; /* the store has one: each write is made durable, as with FUA */
	struct guard *guard;   /* holds a reference: of the medium, not of this description */
	struct backend *backend;   /* owned */
	void *memory;		   /* ram: borrowed from the backend, else NULL */
	struct whole *whole;	   /* likewise */
	struct mr mrs[DEVICE_MAX]; /* ram: its registration, by device index: namespace_memory.c */
	uint64_t mr_bytes[DEVICE_MAX]; /* bytes that they cover, from the start of memory */
	_Atomic uint32_t registered;   /* bit mask of the valid mrs */
	const char *kind;	       /* the name of its backend */
	char *path;		       /* owned; NULL: the store has no path */
	struct namespace_counters counters[POLLERS_MAX];
	struct qos qos;		       /* for all hosts together */
	struct namespace_stats *stats; /* owned: POLLERS_MAX */
	struct health_record *health;  /* of its subsystem; borrowed; may be NULL */
	struct list health_node;       /* health->namespaces */
	struct io_errors *errors;      /* owned */
};

/* Derives a UUID (version 5) from a name, always the same. Pure. */
void namespace_uuid_of_name(const char *name, uuid_t ret_uuid);
/* Any thread. Sums what all pollers have counted about a namespace so far, with or without its
 * durations. */
void namespace_sum_stats(const struct namespace *ns, struct namespace_counters *ret_counters,
			 struct namespace_stats *ret_stats);
void namespace_sum_counters(const struct namespace *ns, struct namespace_counters *ret_counters);
