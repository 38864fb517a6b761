/* SPDX-License-Identifier: BSD-3-Clause */
/* The state directory as a store of records (store/record.h): a record is a file of that name. */
#pragma once

#include "target/store/record.h"

struct state_directory;

/* Control. directory: borrowed until state_records_free. NULL: no memory. */
struct record_store *state_records_new(struct state_directory *directory);
/* The same for a directory whose records pass from one rblkd to another: see record_store.boot_id,
 * which is borrowed. */
struct record_store *state_records_new_of_groups(struct state_directory *directory,
						 const char *boot_id);
/* Control, when nothing uses it any more. Accepts NULL. */
void state_records_free(struct record_store *store);
