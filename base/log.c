/* SPDX-License-Identifier: BSD-3-Clause */
/* Log records; see log.h. State: program name, form and what all records are about, set before
 * threads start; the level. */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/journal.h"
#include "base/log.h"

static const char *program_name = "rblk";
static _Atomic int max_shown = LOG_INFO;
static bool is_journal, has_time;
static struct log_about about_all;
/* Read together under the lock: a sink and its context belong together. */
static pthread_mutex_t sink_lock = PTHREAD_MUTEX_INITIALIZER;
static void (*sink_write)(void *context, enum log_level level, const char *text);
static void *sink_context;
/* Those of sd-daemon(3) and syslog(3). */
static const int priorities[] = {[LOG_ERR] = 3, [LOG_WARN] = 4, [LOG_INFO] = 6, [LOG_DEBUG] = 7};

enum {
	PRIORITY_CHARS = 3, /* "<6>" */
};
static char error_prefix[40] = "rblk: error: ";

/* Whether stderr is the stream that $JOURNAL_STREAM names ("DEVICE:INODE", systemd.exec(5)). The
 * variable alone is no proof: children of a unit inherit it, but may redirect stderr. */
static bool is_journal_stream(void)
{
	const char *text = getenv("JOURNAL_STREAM");
	unsigned long long device, inode;
	struct stat st;

	return text && sscanf(text, "%llu:%llu", &device, &inode) == 2 &&
	       fstat(STDERR_FILENO, &st) == 0 && st.st_dev == device && st.st_ino == inode;
}

void log_init(const char *program, enum log_level max_level)
{
	program_name = program;
	atomic_store(&max_shown, (int)max_level);
	is_journal = is_journal_stream();
	if (is_journal)
		journal_open();
	snprintf(error_prefix, sizeof(error_prefix), "%s%s", is_journal ? "<3>" : program,
		 is_journal ? "" : ": error: ");
}

const char *log_error_prefix(void)
{
	return error_prefix;
}

void log_show_time(enum log_time time)
{
	has_time = time == LOG_TIME_ALWAYS || (time == LOG_TIME_AUTO && !is_journal);
}

void log_set_about(const struct log_about *about)
{
	about_all = *about;
}

void log_set_level(enum log_level max_level)
{
	atomic_store(&max_shown, (int)max_level);
}

void log_set_sink(void (*sink)(void *context, enum log_level level, const char *text),
		  void *context)
{
	pthread_mutex_lock(&sink_lock);
	sink_write = sink;
	sink_context = context;
	pthread_mutex_unlock(&sink_lock);
}

/* Whether there is a sink, which then has the record. */
static bool give_to_sink(enum log_level level, const char *text)
{
	bool has_sink;

	pthread_mutex_lock(&sink_lock);
	has_sink = sink_write != NULL;
	if (has_sink)
		sink_write(sink_context, level, text);
	pthread_mutex_unlock(&sink_lock);
	return has_sink;
}

bool log_enabled(enum log_level level)
{
	return (int)level <= atomic_load_explicit(&max_shown, memory_order_relaxed);
}

/* "2026-11-23T12:40:23.123+0100 ", as journalctl -o short-iso shows it. */
static int format_time(char *buf, size_t n)
{
	uint64_t now_ns = clock_wall_ns();
	time_t now_s = (time_t)(now_ns / NSEC_PER_SEC);
	struct tm local;
	size_t at;

	if (!localtime_r(&now_s, &local))
		return 0;
	at = strftime(buf, n, "%Y-%m-%dT%H:%M:%S", &local);
	at += (size_t)snprintf(buf + at, n - at, ".%03u",
			       (unsigned)(now_ns % NSEC_PER_SEC / NSEC_PER_MSEC));
	return (int)(at + strftime(buf + at, n - at, "%z ", &local));
}

static int format_name(char *buf, size_t n, enum log_level level)
{
	static const char *const names[] = {[LOG_ERR] = "error",
					    [LOG_WARN] = "warning",
					    [LOG_INFO] = "info",
					    [LOG_DEBUG] = "debug"};

	if (level == LOG_INFO)
		return snprintf(buf, n, "%s: ", program_name);
	return snprintf(buf, n, "%s: %s: ", program_name, names[level]);
}

/* The journal records the program itself. */
static int format_prefix(char *buf, size_t n, enum log_level level)
{
	int at = is_journal ? snprintf(buf, n, "<%d>", priorities[level]) : 0;

	if (has_time)
		at += format_time(buf + at, n - (size_t)at);
	return is_journal ? at : at + format_name(buf + at, n - (size_t)at, level);
}

__attribute__((format(printf, 3, 0))) static void write_record(enum log_level level,
							       const struct log_about *about,
							       const char *fmt, va_list ap,
							       const char *tail)
{
	char line[1024];
	int n_prefix = format_prefix(line, sizeof(line), level), at = n_prefix;
	int n = vsnprintf(line + at, sizeof(line) - at - 1, fmt, ap);

	at += n < (int)sizeof(line) - at - 1 ? n : (int)sizeof(line) - at - 2;
	if (tail && at < (int)sizeof(line) - 3) {
		n = snprintf(line + at, sizeof(line) - at - 1, ": %s", tail);
		at += n < (int)sizeof(line) - at - 1 ? n : (int)sizeof(line) - at - 2;
	}
	line[at] = '\0';
	if (give_to_sink(level, line + n_prefix))
		return;
	if (is_journal && journal_send(priorities[level], program_name, about,
				       line + PRIORITY_CHARS, (size_t)at - PRIORITY_CHARS))
		return;
	line[at++] = '\n';
	if (write(STDERR_FILENO, line, (size_t)at) < 0)
		return; /* there is no other place to report it */
}

void log_write(enum log_level level, const char *fmt, ...)
{
	int saved_errno = errno;
	va_list ap;

	if (log_enabled(level)) {
		va_start(ap, fmt);
		write_record(level, &about_all, fmt, ap, NULL);
		va_end(ap);
	}
	errno = saved_errno;
}

void log_write_about(enum log_level level, const struct log_about *about, const char *fmt, ...)
{
	int saved_errno = errno;
	va_list ap;

	if (log_enabled(level)) {
		va_start(ap, fmt);
		write_record(level, about, fmt, ap, NULL);
		va_end(ap);
	}
	errno = saved_errno;
}

int log_errno(int r, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	write_record(LOG_ERR, &about_all, fmt, ap, strerror(-r));
	va_end(ap);
	return r;
}

bool log_limit_pass(struct log_limit *limit, unsigned burst)
{
	uint64_t now = clock_ns();
	uint64_t refill = (now - limit->last_ns) / NSEC_PER_SEC;

	if (refill) {
		limit->tokens = refill + limit->tokens > burst ? burst
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
		bool is_plain = s[i] >= 0x20 && s[i] < 0x7f && s[i] != '\\' && s[i] != '"';

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
