/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of backends. The configuration's keys, checks and messages, and the kind of a namespace
 * in lists, are derived from it. A line in backend_list.h adds a backend. Constant; any thread.
 */
#pragma once

#include <assert.h>

#include "target/store/backend.h"

#define BACKEND(name) extern const struct backend_ops backend_##name;
#include "target/store/backend_list.h"
#undef BACKEND

enum {
#define BACKEND(name) BACKEND_INDEX_##name,
#include "target/store/backend_list.h"
#undef BACKEND
	N_BACKENDS,
};
static_assert((unsigned)N_BACKENDS <= BACKENDS_MAX, "raise it");

enum {
	BACKENDS_NAMES_MAX = 256,
};

extern const struct backend_ops *const backends[N_BACKENDS];

/* Control, last, when all stores are closed: ends what runs beside them. False: a call into a
 * cluster does not return, so that the process must end without its exit handlers. */
bool backends_end(void);

/* "file, device and ram": the names of the backends that match, or of all (NULL). Returns buf. */
const char *backends_names(char buf[BACKENDS_NAMES_MAX],
			   bool (*is_wanted)(const struct backend_ops *ops));
