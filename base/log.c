/* SPDX-License-Identifier: BSD-3-Clause */
/* Log records; see log.h. State: program name and level, set before threads start. */
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"

static const char *program_name = "rblk";
static _Atomic int max_shown = LOG_INFO;
static bool is_journal;

void log_init(const char *program, enum log_level max_level)
{
	program_name = program;
	atomic_store(&max_shown, (int)max_level);
	is_journal = getenv("JOURNAL_STREAM") != NULL;
}

void log_set_level(enum log_level max_level)
{
	atomic_store(&max_shown, (int)max_level);
}

bool log_enabled(enum log_level level)
{
	return (int)level <= atomic_load_explicit(&max_shown, memory_order_relaxed);
}

static int format_prefix(char *buf, size_t n, enum log_level level)
{
	static const char *const names[] = {[LOG_ERR] = "error",
					    [LOG_WARN] = "warning",
					    [LOG_INFO] = "info",
					    [LOG_DEBUG] = "debug"};
	static const int priorities[] = {
		[LOG_ERR] = 3, [LOG_WARN] = 4, [LOG_INFO] = 6, [LOG_DEBUG] = 7};

	if (is_journal)
		return snprintf(buf, n, "<%d>", priorities[level]);
	if (level == LOG_INFO)
		return snprintf(buf, n, "%s: ", program_name);
	return snprintf(buf, n, "%s: %s: ", program_name, names[level]);
}

__attribute__((format(printf, 2, 0))) static void
write_record(enum log_level level, const char *fmt, va_list ap, const char *tail)
{
	char line[1024];
	int at = format_prefix(line, sizeof(line), level);
	int n = vsnprintf(line + at, sizeof(line) - at - 1, fmt, ap);

	at += n < (int)sizeof(line) - at - 1 ? n : (int)sizeof(line) - at - 2;
	if (tail && at < (int)sizeof(line) - 3) {
		n = snprintf(line + at, sizeof(line) - at - 1, ": %s", tail);
		at += n < (int)sizeof(line) - at - 1 ? n : (int)sizeof(line) - at - 2;
	}
	line[at++] = '\n';
	if (write(STDERR_FILENO, line, (size_t)at) < 0)
		return; /* nowhere left to say it */
}

void log_write(enum log_level level, const char *fmt, ...)
{
	int saved_errno = errno;
	va_list ap;

	if (log_enabled(level)) {
		va_start(ap, fmt);
		write_record(level, fmt, ap, NULL);
		va_end(ap);
	}
	errno = saved_errno;
}

int log_errno(int r, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	write_record(LOG_ERR, fmt, ap, strerror(-r));
	va_end(ap);
	return r;
}

bool log_limit_pass(struct log_limit *limit, unsigned burst)
{
	uint64_t now = clock_ns();
	uint64_t refill = (now - limit->last_ns) / NSEC_PER_SEC;

	if (refill) {
		limit->tokens = refill + limit->tokens > burst
					? burst
					: limit->tokens + (unsigned)refill;
		limit->last_ns = now;
	}
	if (!limit->tokens) {
		limit->suppressed++;
		return false;
	}
	limit->tokens--;
	return true;
}

const char *log_quote(char *dst, unsigned n_dst, const void *src, unsigned n_src)
{
	const unsigned char *s = src;
	unsigned at = 0;

	for (unsigned i = 0; i < n_src && s[i]; i++) {
		bool is_plain = s[i] >= 0x20 && s[i] < 0x7f && s[i] != '\\' &&
				s[i] != '"';

		if (at + (is_plain ? 1 : 4) + 1 > n_dst)
			break;
		if (is_plain)
			dst[at++] = (char)s[i];
		else
			at += (unsigned)sprintf(dst + at, "\\x%02x", s[i]);
	}
	dst[at] = '\0';
	return dst;
}

void check_failed(const char *file, int line, const char *func, const char *cond)
{
	log_err("%s:%d: %s: check failed: %s", file, line, func, cond);
	abort();
}
