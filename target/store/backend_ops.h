/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A kind of backend: its keys in the configuration and its functions, listed in the table of all
 * backends (backends.h); null.c is one to copy. Constant.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/conf.h"
#include "base/error.h"
#include "target/store/backend_config.h"
#include "target/store/limits.h"

struct backend;
struct backend_io;
struct backend_map;
struct backend_thread;
struct record_store;

struct backend_ops {
	const char *name; /* the kind in lists, and the namespace's key in the configuration */
	/* The value of the key: CONF_STRING becomes config.path, CONF_SIZE config.size_bytes (which
	 * may then change while hosts are connected: see resize). The configuration sets name and
	 * offsets. */
	struct conf_key key;
	/* Keys of its own in a namespace, which end with one without a name. Each is one value, has
	 * its offset in a struct of own_bytes (config.own), and may be left out. The configuration
	 * keeps the struct, and refuses the keys beside another kind. NULL: it has none. */
	const struct conf_key *keys;
	size_t own_bytes;
	bool can_create;  /* takes the keys create and size */
	bool can_share;	  /* takes the key shared */
	bool has_cluster; /* rblkd of other machines may have the store, and find records there */
	bool has_many_readers; /* several read-only namespaces may have the same store */
	bool begins_empty;     /* a new namespace after each restart, unless it has a uuid */
	/* Control. Begins to open the store, for a store that may wait long for others; never
	 * waits. -EINPROGRESS: an open with the same config would wait, so ask again within
	 * seconds; what nothing asks for any more is closed. 0: open does not wait. NULL: no open
	 * waits long. */
	int (*prepare)(const struct backend_config *config);
	/* 0; or -errno, and *error names the store, what is wrong with it and what to do. */
	int (*open)(const struct backend_config *config, struct backend **ret_backend,
		    struct error *error);
	/* No io is outstanding. */
	void (*close)(struct backend *backend);
	/* Whether open would succeed, as far as known without creating or locking anything. Sets
	 * *ret_identity (see struct backend; 0, 0: there is no store yet). Otherwise as open. */
	int (*check)(const struct backend_config *config, uint64_t ret_identity[2],
		     struct error *error);
	/* Finds what hosts may know of the store while another rblkd has it: at least its size.
	 * Takes no lock and creates nothing. As open. NULL: the store has no lock that is free only
	 * when all I/O of its last holder is over, so that nothing can stand by for it. */
	int (*look)(const struct backend_config *config, struct backend_limits *ret_limits,
		    struct error *error);
	/* Why no other rblkd could stand by for the store, by its keys; NULL: one can. Itself NULL:
	 * no key prevents it. */
	const char *(*refuse_owner)(const struct backend_config *config);
	/* Control. No host hears of a lost store's I/O any more: what was held back ends with
	 * -ESHUTDOWN. NULL: no store is ever lost. */
	void (*let_go)(struct backend *backend);
	bool (*end)(void);     /* see backends_end; NULL: nothing runs beside the stores */
	const char *unchecked; /* what check leaves to open, for people; NULL: nothing */
	/* Never completes io from inside. */
	void (*submit)(struct backend *backend, struct backend_thread *thread,
		       struct backend_io *io);
	/* Reads the store's size again. With a size, first makes the store that large, if possible;
	 * never smaller. I/O continues. 0, with limits.size_bytes updated; or -errno with one line
	 * and *error, as open. */
	int (*resize)(struct backend *backend, uint64_t size_bytes, struct error *error);
	/* Restores the size from before open or resize (grown_from, grown_to): no data is there
	 * yet. 0; or -errno and *error, and it stays larger. */
	int (*undo_grow)(struct backend *backend, struct error *error);
	/* On a worker thread. Adds the ranges of [offset, offset + length) that may hold data to
	 * the empty *map (backend_map_add), in order, and sets map->end; what lies between them
	 * reads as zeroes. Bounded: it looks at most BACKEND_MAP_RANGES times. 0; or -errno: all
	 * may hold data. NULL: the store cannot tell. */
	int (*map)(struct backend *backend, uint64_t offset, uint64_t length,
		   struct backend_map *map);
	/* The state of what the store depends on, as one line for people; false: it cannot serve
	 * now. NULL: there is no such thing. Control. Never waits. */
	bool (*health)(struct backend *backend, char *text, size_t n);
	/* Where the state of the namespace is kept beside its data: the record `own`, which open
	 * has read. Until close; NULL: nowhere. */
	struct record_store *(*records)(struct backend *backend);
	/* Memory that RDMA can access directly; NULL for most backends. */
	void *(*memory)(struct backend *backend);
	/* Control. The file of that memory, which another process may map once this one has let go
	 * of it: a descriptor that the caller closes, or -errno. NULL: there is none. */
	int (*share_memory)(struct backend *backend);
};
