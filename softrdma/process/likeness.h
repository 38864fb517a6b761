/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which device this one is like: SOFTRDMA_LIKE and SOFTRDMA_STRICT, fixed for the life of the
 * process. Any thread.
 */
#pragma once

#include <infiniband/verbs.h>
#include <stdbool.h>

/* Whether the device behaves like siw, Linux' software iWARP. */
bool sr_is_siw(void);
/* Whether programs get no more than they have asked for. */
bool sr_is_strict(void);
/* The device after so many returns: each return makes another struct, with the same contents. */
struct ibv_device *sr_incarnation(unsigned n_returns);
