/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An HTTP endpoint for Prometheus: GET /metrics. The program's control loop makes the text. Any
 * program may be built without libmicrohttpd; http_start then refuses.
 */
#pragma once

#include <errno.h>

#include "base/addr.h"
#include "base/error.h"
#include "base/loop.h"

struct http;
struct http_config {
	struct loop *loop;	  /* control; borrowed */
	const char *where;	  /* the address, as the user wrote it: for messages */
	union addr address;	  /* numeric, with a port */
	const char *program;	  /* as in "rblkd"; for the answer to another path */
	const char *if_taken;	  /* what to do when another program has the port */
	const char *if_forbidden; /* what to do when there are no such sockets, or NULL */
	/* On the loop. The caller owns the text, of *ret_n bytes and a NUL. NULL: no memory. */
	char *(*make)(void *context, size_t *ret_n);
	void *context;
};

/* Whether this program has the endpoint. */
static inline bool http_is_built(void)
{
#ifdef HAVE_MICROHTTPD
	return true;
#else
	return false;
#endif
}

#ifdef HAVE_MICROHTTPD
/* Control thread. Listens from now on, and answers while the loop runs. The strings live as long
 * as the endpoint. 0, or -errno with *error: a hint or none. */
int http_start(const struct http_config *config, struct http **ret_http, struct error *error);
/* Control thread, once the loop has stopped. Accepts NULL. */
void http_stop(struct http *http);
#else
/* Without libmicrohttpd nothing listens. */
static inline int http_start(const struct http_config *config, struct http **ret_http,
			     struct error *error)
{
	*ret_http = NULL;
	error_set(error, EXIT_FAILED, "build it with libmicrohttpd",
		  "%s was built without libmicrohttpd", config->program);
	return -EOPNOTSUPP;
}
static inline void http_stop(struct http *http)
{
}
#endif
