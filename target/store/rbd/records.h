/* SPDX-License-Identifier: BSD-3-Clause */
/* An object of a cluster as a store of records (store/record.h), which each rblkd of it shares. */
#pragma once

#include <rados/librados.h>

#include "target/store/record.h"

struct records;

/* pool: borrowed until records_free. place: the object for people. NULL: no memory. */
struct records *records_new(rados_ioctx_t pool, const char *object, const char *place);
/* No operation is under way. Accepts NULL. */
void records_free(struct records *records);
/* Reads the record that is the store's own, for the first load without a loop. Waits for the
 * cluster: for the opener's thread. 0 or -errno. */
int records_read_first(struct records *records);
/* NULL for NULL. */
struct record_store *records_store(struct records *records);
