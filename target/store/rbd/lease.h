/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lease of an owner: a line beside the image, in the object of its records, that the holder of
 * the exclusive lock writes again every third of the lease. One that stands by compares what it
 * reads with what it has read before, by its own clock, and no two clocks are compared.
 *
 * A lease that ends proves nothing. It is the reason to fence its client (stand.h).
 */
#pragma once

#include <rados/librados.h>

#include "target/store/backend_io.h"
#include "target/store/rbd/life.h"

struct image;
struct lease;

#define LEASE_FENCED "fenced#" /* and an address: a key */

enum {
	LEASE_ADDRESS_BYTES = 128,
	LEASE_LINE_BYTES = 256,
	LEASE_LEAST_MS = 1000,
	LEASE_MOST_MS = 60 * 1000,
};

/* The line of a client. */
struct lease_line {
	char text[LEASE_LINE_BYTES]; /* differs after each renewal */
	struct life life;	     /* of the client's process */
	uint64_t length_ns;
};

/* ---- calls that wait for the cluster: not control, no poller -------------------------------- */

/* Writes the first line of the client at this address: before it takes the lock. 0 or -errno. */
int lease_announce(rados_ioctx_t pool, const char *object, const char *address, uint64_t length_ns);
/* Removes its line, if there is one. */
void lease_forget(rados_ioctx_t pool, const char *object, const char *address);
/* Its client was fenced: another key has its line from now on, for entries.h. */
void lease_note_fenced(rados_ioctx_t pool, const char *object, const char *address,
		       const char *text);
void lease_forget_fenced(rados_ioctx_t pool, const char *object, const char *address);
/* The address in such a key, which ends with a zero byte: without a character that JSON escapes.
 * NULL: it is another key. Pure. */
const char *lease_fenced_address(const char *key, size_t n_key);
/* 0; -ENOENT: that client has none; -EBADMSG: no rblkd writes such a line; or -errno. */
int lease_read(rados_ioctx_t pool, const char *object, const char *address,
	       struct lease_line *ret_line);

/* ---- the owner ------------------------------------------------------------------------------ */

/* The image is open and has the lock, and lease_announce was called. Renews from now on, and sets
 * backend.lost_why when the image is not this client's any more. NULL: no memory, or no thread. */
struct lease *lease_start(struct image *image, const char *address, uint64_t length_ns);
/* Waits for renewals under way. The line stays. Nothing is held. Accepts NULL. */
void lease_stop(struct lease *lease);
/*
 * Any thread. An operation has ended with -ESHUTDOWN: the client is in the blocklist, and another
 * one may have the image. io->loop and io->msg are set. True: the io is sent there by lease_let_go,
 * and not before; false: the caller sends it. lease NULL: false.
 */
bool lease_holds(struct lease *lease, struct backend_io *io);
/* Control. See ops.let_go. */
void lease_let_go(struct lease *lease);
