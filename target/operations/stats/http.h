/* SPDX-License-Identifier: BSD-3-Clause */
/* The HTTP endpoint that Prometheus asks (metrics.listen of the configuration). Control thread. */
#pragma once

#include "target/engine/target.h"

#ifdef HAVE_MICROHTTPD
/* Listens, if that is configured. 0 or -errno (said in the log). */
int http_start(struct target *target);
/* The loop does not run any more. Accepts one that was not started. */
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
