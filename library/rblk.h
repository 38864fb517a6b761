/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * librblk: NVMe over RDMA volumes in a program, without a kernel module, huge pages or root.
 * librblk(3) has the rules and examples. C11 and C++17.
 *
 * Functions return 0 or a count, or a negative errno. Those with a struct rblk_error fill it when
 * they fail; it may be NULL.
 *
 * Threads. A volume belongs to all threads. A queue is used by one thread at a time; a program
 * opens one for each thread that does I/O. Volumes share one thread of the library, which
 * connects, reconnects and keeps alive; it blocks all signals.
 *
 * Fork. A child process must not use what its parent opened: each call there returns -ECHILD and
 * does nothing. It may run another program.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rblk_volume;
struct rblk_queue;
struct rblk_memory;

/* A failure for people: one line, and one line that says what to do, or "". */
struct rblk_error {
	int code; /* negative errno */
	char message[1024];
	char hint[256];
};

/* An option of rblk_open: "ctrl-loss-tmo", "30s". librblk(3) lists them. */
struct rblk_option {
	const char *name;
	const char *value;
};

/* The properties of a volume. Sizes are bytes. */
struct rblk_info {
	uint64_t size_bytes;
	uint32_t block_size;   /* offsets and lengths are multiples of it */
	uint32_t max_io_bytes; /* of one command; a longer read or write takes several, in a row */
	uint32_t n_queues;     /* that may be open at a time: as the target grants */
	uint32_t is_read_only, has_write_zeroes, has_discard, reads_zero_after_discard;
	uint8_t uuid[16], nguid[16]; /* zero: the target gives none */
	char serial[24], model[48], firmware[16];
	/* The most of one compare and write; 0: the target has none, or does not say that it is
	 * atomic. */
	uint64_t max_compare_bytes;
	uint64_t reserved[15];
};

enum rblk_op {
	RBLK_READ = 0,
	RBLK_WRITE = 1,
	RBLK_FLUSH = 2, /* what was written before is durable; offset and length are not used */
	RBLK_WRITE_ZEROES = 3,
	RBLK_DISCARD = 4,
	/* The buffer has twice length bytes. Where the first half is what is on the volume, the
	 * second half takes its place, in one step that no other I/O to the target sees half done.
	 * length is at most max_compare_bytes. Never sent twice. */
	RBLK_COMPARE_AND_WRITE = 5,
	RBLK_EXTENTS = 6, /* which blocks hold data: the buffer is a struct rblk_extents */
};

/* Blocks that follow each other. */
struct rblk_extent {
	uint64_t length;  /* bytes */
	uint32_t is_hole; /* no data, reads as zeroes; otherwise it may hold data */
	uint32_t reserved;
};

enum {
	RBLK_EXTENTS_MAX = 2,
};

/* From the offset of an RBLK_EXTENTS on. They may describe less than its length: the next one
 * begins behind them. Writes that had ended before are in them. */
struct rblk_extents {
	uint32_t n; /* 1 or more */
	uint32_t reserved;
	struct rblk_extent of[RBLK_EXTENTS_MAX];
};

enum rblk_flags {
	RBLK_FUA = 1,	    /* write, write zeroes, compare and write: durable when it ends */
	RBLK_MAY_UNMAP = 2, /* write zeroes: may free the blocks */
};

/*
 * One I/O: zero it, fill it, submit it. It and its buffer belong to the queue from rblk_submit
 * until it has ended, and then to the caller again.
 */
struct rblk_io {
	uint32_t op;	 /* enum rblk_op */
	uint32_t flags;	 /* enum rblk_flags */
	uint64_t offset; /* bytes, multiple of block_size */
	uint64_t length; /* bytes, multiple of block_size */
	/* Read, write: of length bytes; compare and write: of 2 * length; extents: their struct. */
	void *buffer;
	/* That holds the whole buffer, of this volume; NULL: the library registers the buffer for
	 * this I/O, or finds it in its cache (option cache). */
	struct rblk_memory *memory;
	/* Runs in rblk_poll or rblk_wait; may submit, not close the queue. NULL: they return the
	 * I/O. */
	void (*done)(struct rblk_io *io);
	void *context; /* the caller's */
	/* When it has ended: 0; -EIO; -ENOSPC; -EINVAL; -EPERM: write protected; -EOPNOTSUPP.
	 * Compare and write: -EILSEQ: something else is there, and stays; -ECONNRESET: the
	 * connection was lost meanwhile, so it was done or not, which a read shows now. */
	int32_t result;
	uint32_t reserved;
	uint64_t internal[48]; /* the library's */
};

/* The version of the library, "0.1.0": static. */
const char *rblk_version(void);

/* Where messages of the library go: connections lost and restored, and the like. level: as in
 * syslog(3), 3 to 7. log runs in the thread that has the message, under a lock: it calls nothing of
 * the library. NULL: nowhere, as at the beginning. Any thread. */
void rblk_set_log(void (*log)(void *context, int level, const char *text), void *context);

/* ---- volumes: any thread ---- */

/*
 * Connects to a namespace: "nvme+rdma://HOST[:PORT]/NQN?ns=1&NAME=VALUE". options: more of them,
 * ends with a NULL name; or NULL. They are taken after those of the URI. Blocks until the target
 * has answered, or cannot be reached.
 */
int rblk_open(const char *uri, const struct rblk_option *options, struct rblk_volume **ret_volume,
	      struct rblk_error *error);
/* -EBUSY: a queue is open. Memory that is still registered is released. NULL is accepted. */
int rblk_close(struct rblk_volume *volume);
/* As it is now: a target may grow a namespace, or protect it from writes. */
int rblk_get_info(struct rblk_volume *volume, struct rblk_info *ret_info);
/* One JSON object ("schema": 1; keys are only added); the caller passes it to rblk_free. */
int rblk_get_status(struct rblk_volume *volume, char **ret_json);
/* Frees what the library allocated for the caller. */
void rblk_free(void *pointer);

/* ---- paths: any thread ---- */

enum rblk_path_flags {
	RBLK_PATH_KEEP = 1, /* add: it stays, and is tried again, if it cannot be connected now */
	RBLK_PATH_DEAD = 2, /* remove: its target is off, for sure: writes that wait for it go on */
};

/*
 * One more path: "HOST[:PORT]" of a portal through which the same namespace is reached. Blocks
 * until it is live, timeout_ms at most (-1: without limit); one that is not is taken out again.
 * -EEXIST: it is one already; -ENOSPC: there are 8; -EINVAL: the address, or the flags; others as
 * of rblk_open.
 */
int rblk_path_add(struct rblk_volume *volume, const char *address, uint32_t flags, int timeout_ms,
		  struct rblk_error *error);
/*
 * Takes a path out: other paths take its I/O first, and a Flush covers what it has acknowledged.
 * Blocks until it is gone, timeout_ms at most (-1: without limit); -ETIMEDOUT: it goes by itself
 * then. While no queue is open, this opens one. -ENOENT: it is no path; -EBUSY: no other one can
 * serve I/O; -EISCONN: RBLK_PATH_DEAD, but it is live; -EINVAL: the address, or the flags.
 */
int rblk_path_remove(struct rblk_volume *volume, const char *address, uint32_t flags,
		     int timeout_ms, struct rblk_error *error);

/* ---- memory: any thread ---- */

/* Registers memory, for I/O of this volume without a copy. Its pages stay in memory and count
 * towards RLIMIT_MEMLOCK. It must stay mapped until rblk_memory_unregister. */
int rblk_memory_register(struct rblk_volume *volume, void *base, size_t length,
			 struct rblk_memory **ret_memory, struct rblk_error *error);
/* No I/O uses it. NULL is accepted. -EINVAL: it is unregistered already. Its handle stays valid for
 * a while, so that a late use is refused. */
int rblk_memory_unregister(struct rblk_memory *memory);
/* With the option cache: before this memory is unmapped, or freed where free may unmap it. -EBUSY:
 * an I/O uses it; -EINVAL: it ends beyond the address space. */
int rblk_memory_forget(struct rblk_volume *volume, const void *base, size_t length);

/* ---- queues: one thread at a time each ---- */

/* -EUSERS: the target grants no more. I/O may be submitted at once. */
int rblk_queue_open(struct rblk_volume *volume, struct rblk_queue **ret_queue,
		    struct rblk_error *error);
/* -EBUSY: I/O has not ended, or was not returned yet. NULL is accepted. */
int rblk_queue_close(struct rblk_queue *queue);

/* Submits an I/O, which is sent with the next rblk_send, rblk_poll or rblk_wait. Its end is never
 * reported from inside. -EINVAL: operation, offset or length; or the buffer is NULL, or not wholly
 * inside memory; or memory is of another volume, or unregistered. -EOPNOTSUPP: max_compare_bytes is
 * 0. -EFAULT, -ENOMEM and others: the buffer cannot be registered. A queue takes any number of I/O;
 * those beyond its size wait inside. */
int rblk_submit(struct rblk_queue *queue, struct rblk_io *io);
/* Sends what was submitted. */
int rblk_send(struct rblk_queue *queue);
/*
 * Sends, looks once what has ended, and returns the number of I/Os that it reported: those with
 * done by calling it, others in ios, up to n. Reports in the order in which I/O ends; so one that
 * finds no room in ios holds up those behind it.
 */
int rblk_poll(struct rblk_queue *queue, struct rblk_io **ios, unsigned n);
/* The same; but if there is nothing, waits for it, timeout_ms at most (-1: without limit). */
int rblk_wait(struct rblk_queue *queue, struct rblk_io **ios, unsigned n, int timeout_ms);
/* Submits an I/O whose done is NULL, and waits for it; returns its result. Nothing else is
 * outstanding on the queue. */
int rblk_run(struct rblk_queue *queue, struct rblk_io *io);
/* I/O that has not been reported. */
int rblk_queue_depth(const struct rblk_queue *queue);

/* A descriptor for poll(2), epoll(7) and the like: readable when rblk_poll has something to do. It
 * works after rblk_arm returned 0, until the next rblk_poll or rblk_wait. The queue keeps it. */
int rblk_fd(struct rblk_queue *queue);
/* 0: the caller may wait on rblk_fd. 1: there is something already, so rblk_poll comes first. */
int rblk_arm(struct rblk_queue *queue);

#ifdef __cplusplus
}
#endif
