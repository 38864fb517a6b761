/* SPDX-License-Identifier: BSD-3-Clause */
/* The HTTP endpoint for Prometheus (metrics.listen of the configuration). Control thread. */
#pragma once

#include "target/engine/target.h"

#ifdef HAVE_MICROHTTPD
/* Listens, if configured. 0 or -errno (logged). */
int http_start(struct target *target);
/* Once the loop has stopped. Accepts one that was not started. */
void http_stop(struct target *target);
#else
/* Built without libmicrohttpd: the configuration refuses the key. */
static inline int http_start(struct target *target)
{
	return 0;
}
static inline void http_stop(struct target *target)
{
}
#endif
