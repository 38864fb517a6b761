/* SPDX-License-Identifier: BSD-3-Clause */
/* An object of a cluster as a store of records (store/record.h), which each rblkd of it shares. */
#pragma once

#include <rados/librados.h>

#include "target/store/record.h"

struct lease;
struct records;

/* pool: borrowed until records_free. place: the object for people. NULL: no memory. */
struct records *records_new(rados_ioctx_t pool, const char *object, const char *place);
/* Before the first operation with a loop. The lease of the image, which outlives them, or NULL: it
 * holds back what the cluster refuses (lease_holds). */
void records_set_lease(struct records *records, struct lease *lease);
/* No operation is under way. Accepts NULL. */
void records_free(struct records *records);
/* Reads the record that is the store's own, for the first load without a loop. Waits for the
 * cluster: for the opener's thread. 0 or -errno. */
int records_read_first(struct records *records);
/* NULL for NULL. */
struct record_store *records_store(struct records *records);
