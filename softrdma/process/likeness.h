/* SPDX-License-Identifier: BSD-3-Clause */
/* Which device this one is like: SOFTRDMA_LIKE, fixed for the life of the process. Any thread. */
#pragma once

#include <infiniband/verbs.h>
#include <stdbool.h>

/* Whether it behaves like siw, Linux' software iWARP. */
bool sr_is_siw(void);
/* The device after so many returns: removed and back, it is another one, which looks the same. */
struct ibv_device *sr_incarnation(unsigned n_returns);
