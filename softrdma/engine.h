/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include "qp.h"

/*
 * The engine carries out one send work request, completely. On success it has
 * pushed the completions on both sides and returns IBV_WC_SUCCESS. On failure it has
 * told the responder what concerns it, and the caller completes the request with the
 * returned status. With *ret_wait set nothing has happened: try again later.
 * Called under sq_lock, in RTS.
 */
enum ibv_wc_status engine_execute(struct qp *qp, const struct wqe *w, uint64_t index,
				  enum qp_wait *ret_wait);
