/* SPDX-License-Identifier: BSD-3-Clause */
/* An image of a cluster as a backend. */
#pragma once

#include <rbd/librbd.h>

#include "target/store/rbd/cluster.h"
#include "target/store/rbd/lease.h"
#include "target/store/rbd/records.h"

enum {
	IMAGE_ID_MAX = 128,
	IMAGE_OBJECT_MAX = IMAGE_ID_MAX + 16,
};

/* "pool/image", or "pool/namespace/image". */
struct image_name {
	char pool[128], space[128], image[128];
};

struct image {
	/* Thread: the opener's until it is open, then constant */
	struct backend backend;	 /* first: see backend.h for its threads */
	struct cluster *cluster; /* owned: a reference */
	rados_ioctx_t pool;	 /* owned; NULL: none */
	rbd_image_t rbd;	 /* owned; NULL: not open */
	struct image_name name;
	char *path; /* owned: the name as in the configuration */
	uint64_t watch;
	bool has_watch;
	bool has_lock;		 /* the exclusive one */
	uint64_t piece_bytes;	 /* of a discard or of zeroes, in one call */
	struct list node;	 /* of images that are open, under that list's lock */
	struct records *records; /* owned; NULL: the namespace's state is kept elsewhere */
	struct lease *lease;	 /* owned; NULL: no other rblkd stands by for it */
	char address[LEASE_ADDRESS_BYTES]; /* of the client, in its line; "": it has none */
	char header[IMAGE_OBJECT_MAX];	   /* the object with the exclusive lock */
	char object[IMAGE_OBJECT_MAX];	   /* the object of its records, and of the lease */

	/* Any thread: the watch writes it */
	_Atomic uint64_t size_bytes;
	_Atomic bool is_taken; /* control has it: a change is reported */
};

/* librbd's own lock, taken for a client that writes. Others are set by people, with rbd lock. Pure.
 */
bool image_lock_is_automatic(const char *cookie);
/* Pure. 0; or -EINVAL with *error. */
int image_parse_name(const char *path, struct image_name *ret_name, struct error *error);
/* Pure. */
uint64_t image_hash(const char *text);
/* "PATH: ..."; returns r. */
__attribute__((format(printf, 4, 5))) int image_refuse(const struct backend_config *config, int r,
						       struct error *error, const char *fmt, ...);
/*
 * Connects, opens the image and checks that it can be exported. Waits for the cluster without a
 * limit: for the opener's thread. 0; or -errno with *error, and *image as image_release takes it.
 * With BACKEND_LOOKS: without a lock, a watch and records. With BACKEND_OWNS: takes the lock only
 * if it is free, as stand.c has made sure.
 */
int image_open(struct image *image, const struct backend_config *config, struct error *error);
/* Closes what is open; not the struct. The thread that opened it, or control. */
void image_release(struct image *image);
