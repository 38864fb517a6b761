/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory regions and windows, and the key checks of the data path.
 *
 * Each region and window is an entry of the table in the owner's segment. Application threads
 * create and destroy them; any thread of any process checks keys. The memory stays the
 * application's: deregistration returns only after the last copy by that key is over. Public calls
 * return NULL with errno, or an errno value.
 */
#pragma once

#include "softrdma/verbs/mr_impl.h"

/* Invalidates a bound type 2 window, as SEND_WITH_INV and LOCAL_INV do. */
bool sr_mr_invalidate(struct seg *s, uint32_t rkey, uint32_t pd, uint32_t qpn);
/* Executes a bind work request on this process' table. */
enum ibv_wc_status sr_mr_bind(struct ibv_mw *mw, uint32_t rkey, uint32_t qpn,
			      const struct ibv_mw_bind_info *info);

/* ibv_alloc_mw, ibv_dealloc_mw and ibv_bind_mw. Any thread; errors as in the manual pages. */
struct ibv_mw *sr_mw_alloc(struct ibv_pd *pd, enum ibv_mw_type type);
int sr_mw_dealloc(struct ibv_mw *mw);
