/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records: small texts under names that outlive rblkd, such as the state of a namespace's guard. A
 * store of records is an ops table, as a backend is: the state directory (export/state_records.c),
 * or objects of a Ceph cluster (store/rbd/records.c), which several rblkd share.
 *
 * Each change is a compare-and-set. It names the version that the caller has read, and fails with
 * -ECANCELED if the record has another version by now. So no writer overwrites a change that it has
 * not seen.
 *
 * Threads. A loop's thread submits an operation, and done runs on that loop, never from inside: no
 * loop waits for a cluster. A record has one operation at a time from one caller. Without a loop
 * the result is there when the call returns, and done is not called. That is for control, before
 * the loops run and after they have stopped. A shared store then only loads what opening it has
 * read, and refuses all else with -EWOULDBLOCK.
 */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "target/store/backend_io.h"

struct backend_thread;
struct loop;
struct record_store;

enum {
	RECORD_NAME_BYTES = 48, /* of letters, digits, '.' and '-' */
	RECORD_NONE = 0,	/* the version where there is no record */
	RECORD_LIST_MAX = 4096, /* names in one list */
};

struct record_op {
	/* The caller's; constant until done */
	struct loop *loop;	       /* of the caller; NULL: see above */
	struct backend_thread *thread; /* of that loop; NULL: a local store works inside the call */
	const char *name;	       /* of the record; list: the names begin with it */
	const char *text;	       /* store: the new contents */
	void (*done)(struct record_op *op);
	/* store, remove: the version that the record must have. After each operation but list: the
	 * version that it has, as far as known. */
	uint64_t version;

	/* Results */
	int error;   /* 0 or -errno */
	bool is_old; /* of an error: the record is certainly as before */
	char *found; /* owned by the caller. load: the contents, or NULL; list: lines of names */

	/* The store's until done */
	struct record_store *store;
	int (*work)(struct record_op *op);
	struct backend_io io;
	struct loop_msg msg;
};

struct record_ops {
	/* found and version; no record is no error. -EFBIG: it is longer than any that is stored;
	 * -EBADMSG: no store writes such a record. */
	void (*load)(struct record_store *store, struct record_op *op);
	/* Replaces or makes the record; sets version. Durable when it is done. */
	void (*store)(struct record_store *store, struct record_op *op);
	/* Removes the record; with RECORD_NONE makes sure that there is none. */
	void (*remove)(struct record_store *store, struct record_op *op);
	/* -E2BIG: more than RECORD_LIST_MAX. */
	void (*list)(struct record_store *store, struct record_op *op);
};

/* Constant, except for what an implementation adds behind it. */
struct record_store {
	const struct record_ops *ops;
	const char *place; /* for people: the directory, or POOL/OBJECT */
	const char *own;   /* the record of the store's one namespace; NULL: named by its UUID */
	bool is_shared;	   /* other rblkd change its records, too */
	/* Another rblkd may go on with the namespaces, so the records also have what ends with a
	 * loss of power: valid while the machine's boot has this name. NULL: they are of this
	 * rblkd. */
	const char *boot_id;
};

/* Whether a load has failed because of what is there, and not of how to get there. -EINVAL is of
 * the reader of the text, the others of the store. */
static inline bool record_is_damaged(int error)
{
	return error == -EINVAL || error == -EBADMSG || error == -EFBIG;
}

/* The error of an operation, or of the reader of a text, for people. Any thread; as strerror. */
static inline const char *record_strerror(int error)
{
	if (record_is_damaged(error))
		return "it is damaged";
	if (error == -ESHUTDOWN)
		return "this rblkd is in the blocklist of the cluster: restart it";
	if (error == -EBUSY)
		return "other rblkd change it all the time";
	return strerror(-error);
}

/* loop_msg.run of op->msg, which the store sends to op->loop when the results are set. */
static inline void record_run_done(struct loop_msg *msg)
{
	struct record_op *op = container_of(msg, struct record_op, msg);

	op->done(op);
}
