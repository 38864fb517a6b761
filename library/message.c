/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "library/message.h"
#include "library/options.h"

/* Priorities of syslog(3). */
static const int priorities[] = {[LOG_ERR] = 3, [LOG_WARN] = 4, [LOG_INFO] = 6, [LOG_DEBUG] = 7};

/* Thread: as of log_set_sink, which calls under its lock */
static struct {
	void (*log)(void *context, int level, const char *text);
	void *context;
} taker;

static void drop(void *context, enum log_level level, const char *text)
{
}

static void pass_on(void *context, enum log_level level, const char *text)
{
	taker.log(taker.context, priorities[level], text);
}

void rblk_set_log(void (*log)(void *context, int level, const char *text), void *context)
{
	log_set_sink(drop, NULL); /* so that pass_on does not run meanwhile */
	taker.log = log;
	taker.context = context;
	if (log)
		log_set_sink(pass_on, NULL);
}

int error_to_public(struct rblk_error *to, int r, const struct error *error)
{
	if (!to)
		return r;
	*to = (struct rblk_error){.code = r};
	options_to_public(to->message, sizeof(to->message), error->message);
	options_to_public(to->hint, sizeof(to->hint), error->hint);
	return r;
}

int error_to_errno(const struct error *error)
{
	switch (error->code) {
	case EXIT_USAGE:
	case EXIT_CONFIG:
		return -EINVAL;
	case EXIT_NOT_FOUND:
		return -ENOENT;
	case EXIT_BUSY:
		return -EBUSY;
	case EXIT_UNREACHABLE:
		return -EHOSTUNREACH;
	case EXIT_DENIED:
		return -EACCES;
	case EXIT_PRIVILEGE:
		return -ENOMEM;
	case EXIT_OK:
	case EXIT_FAILED:
	case EXIT_PARTIAL:
		break;
	}
	return -EIO;
}
