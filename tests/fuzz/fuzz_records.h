/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A store with one record, which other rblkd change as the script orders. It fails and hangs as the
 * disk does (fuzz_disk.h). All functions run on the fuzzer's one thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct loop;
struct record_store;

/* The one store, without a record. Operations end in the loop's next turn. */
struct record_store *records_open(struct loop *loop);
/* Another rblkd stores this text, or removes the record (n = 0); is_late: just before the next
 * store or remove, so that this one fails. */
void records_change(const uint8_t *text, size_t n, bool is_late);
/* The disk is no longer held: what waits for it ends. */
void records_resume(void);
