/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A backend: where a namespace's bytes live. It is an ops table, listed in the table of all
 * backends (backends.h); null.c is one to copy. Threads: control calls open, close, resize; any
 * poller submits, with its backend_thread, and an io completes there. The namespace owns it.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/conf.h"
#include "base/error.h"
#include "base/probe.h"
#include "target/store/backend_config.h"
#include "target/store/backend_io.h"
#include "target/store/limits.h"
#include "target/store/share.h"

struct backend_map;
struct backend_thread;
struct record_store;
struct whole;

struct backend_ops {
	const char *name; /* the kind in lists, and the namespace's key in the configuration */
	/* The value of the key: CONF_STRING becomes config.path, CONF_SIZE config.size_bytes (which
	 * may then change while hosts are connected: see resize). The configuration sets name and
	 * offsets. */
	struct conf_key key;
	bool can_create;       /* takes the keys create and size */
	bool can_share;	       /* takes the key shared */
	bool has_cluster;      /* takes the keys ceph_conf, ceph_user and ceph_state */
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
	/* What hosts may know of the store while another rblkd has it: at least its size. Takes no
	 * lock and creates nothing. As open. NULL: the store has no lock that is free only when all
	 * I/O of its last holder is over, so that nothing can stand by for it. */
	int (*look)(const struct backend_config *config, struct backend_limits *ret_limits,
		    struct error *error);
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
	/* Where the state of the namespace is kept beside its data, if config.keeps_records: the
	 * record `own`, which open has read. Until close; NULL: nowhere. */
	struct record_store *(*records)(struct backend *backend);
	/* Memory that RDMA can access directly; NULL for most backends. */
	void *(*memory)(struct backend *backend);
	/* Control. The file of that memory, which another process may map once this one has let go
	 * of it: a descriptor that the caller closes, or -errno. NULL: there is none. */
	int (*share_memory)(struct backend *backend);
};

struct backend {
	const struct backend_ops *ops;
	/* A sync failed, so acknowledged data may be lost: writes and flushes fail from then on
	 * (fault F9). The backend sets it, any thread. */
	_Atomic bool has_failed;
	/* The size in limits is not that of the store any more (backend_changed). Any thread. */
	_Atomic bool has_changed;
	const char *_Atomic lost_why; /* another machine may have the store; any thread */
	bool is_created;	      /* open created the store */
	/* The sizes before and after open or resize grew the store, until it is kept or undone;
	 * grown_to 0: it has not grown. Control. */
	uint64_t grown_from, grown_to;
	/* Called for each io that fails, on its poller, before its done; may be NULL. The owner
	 * sets it and owner. */
	void (*on_error)(struct backend *backend, struct backend_io *io, int error);
	void *owner;
	/* Control writes it in open, and size_bytes in resize: no poller reads that one. */
	struct backend_limits limits;
	/* Identifies the store, to refuse a second export: device and inode of a file, the number
	 * of a block device and 0; both 0: nothing can clash. */
	uint64_t identity[2];
	struct whole *whole; /* owned; NULL: the medium itself keeps blocks whole */
	struct backend_work work;
	struct backend_share shares[POLLERS_MAX]; /* by backend_thread's index */
};

/*
 * What one poller lends to all backends: a libaio context with its eventfd, polled as a source of
 * the loop with one io_submit a turn, and the way back from the worker threads. At most depth iocbs
 * are in flight; further ones wait. With depth 0, or without a context from the system, worker
 * threads do everything. index: below POLLERS_MAX, each once. 0 or -errno.
 */
int backend_thread_new(struct loop *loop, unsigned index, unsigned depth,
		       struct backend_thread **ret_thread);
/* Owner loop, before it runs. on_stuck is called once a second while an io waits long for readers
 * of memory. */
void backend_thread_watch(struct backend_thread *thread, void (*on_stuck)(void *context),
			  void *context);
/* Owner loop, before it runs and after it has stopped. */
void backend_thread_free(struct backend_thread *thread);

/* The thread's loop. The backend owns io until it calls io->done, never from inside. */
static inline void backend_submit(struct backend *backend, struct backend_thread *thread,
				  struct backend_io *io)
{
	PROBE(rblkd, backend_submit, io, io->op, io->offset, io->length);
	io->is_out = true;
	backend->ops->submit(backend, thread, io);
}

/* Any thread: sets has_changed, then calls the function of backend_on_change. */
void backend_changed(struct backend *backend);
/* Control, while no backend is open: sets the function, or NULL. It runs on any thread and may run
 * again before the change is handled. */
void backend_on_change(void (*on_change)(void *context), void *context);

/* For long work that is no I/O of a backend: runs it on a worker thread, then io->done on the
 * loop. */
void backend_run(struct backend_thread *thread, struct backend_io *io,
		 int (*work)(struct backend_io *io));
