/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copy, descriptor format 0: ranges of one namespace, one after the other, to one place in it.
 * Poller of the queue.
 */
#pragma once

#include <stdint.h>

struct namespace;

/* MSSRL and MCL of Identify Namespace: the blocks of one source range, and of one Copy. */
uint32_t copy_max_range_blocks(const struct namespace *ns);
uint32_t copy_max_blocks(const struct namespace *ns);
