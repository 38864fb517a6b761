/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The namespaces that a host uses by an association: each from the first command that names it,
 * Identify Namespace among them, until it is removed. Owner: struct controller. Any thread.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "target/config/limits.h"

struct uses {
	_Atomic uint64_t bits[NSID_MAX / 64 + 1]; /* by nsid */
};

/* On the data path: a load, once the namespace is in use. */
static inline void uses_note(struct uses *uses, uint32_t nsid)
{
	_Atomic uint64_t *word = &uses->bits[nsid / 64];
	uint64_t bit = UINT64_C(1) << nsid % 64;

	if (!(atomic_load_explicit(word, memory_order_relaxed) & bit))
		atomic_fetch_or(word, bit);
}
static inline void uses_forget(struct uses *uses, uint32_t nsid)
{
	atomic_fetch_and(&uses->bits[nsid / 64], ~(UINT64_C(1) << nsid % 64));
}
static inline bool uses_has(const struct uses *uses, uint32_t nsid)
{
	return atomic_load(&uses->bits[nsid / 64]) >> nsid % 64 & 1;
}
