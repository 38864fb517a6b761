/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Log records: one line each on stderr. It begins with "program: level: ", with the time in front
 * if the program enables it (log_show_time). When stderr is the journal, a record is a datagram
 * with fields (journal.h); one that the journal does not take is a line that begins with
 * "<priority>". The text begins with the object that it is about. Nothing logs for each I/O. Any
 * thread; one system call for a record. log_write keeps errno.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum log_level {
	LOG_ERR,
	LOG_WARN,
	LOG_INFO,
	LOG_DEBUG,
};

/* The subject of a record, as fields of the journal: RBLK_SUBSYSTEM, RBLK_NSID and so on. NULL, ""
 * and 0: that field is not written. */
struct log_about {
	const char *subsystem; /* NQN */
	uint32_t nsid;
	const char *host; /* NQN */
	const char *portal;
	const char *volume;
};

/* Once, before threads start. The caller never frees program. */
void log_init(const char *program, enum log_level max_level);
/* Whether records begin with the local time. Daemons enable it; the journal has its own. */
enum log_time {
	LOG_TIME_AUTO, /* enabled unless stderr is the journal */
	LOG_TIME_ALWAYS,
	LOG_TIME_NEVER, /* until log_show_time is called */
};
/* After log_init, before threads start. */
void log_show_time(enum log_time time);
/* How an error record of this program begins, without the time: for signal handlers. */
const char *log_error_prefix(void);
/* Sets the subject of each record of this program, unless the call names one. Before threads start.
 * The caller never frees what it points to. */
void log_set_about(const struct log_about *about);
void log_set_level(enum log_level max_level);
/* From now on records go to sink, as text without prefix and newline, and not to stderr; NULL: to
 * stderr again. sink runs in the thread that logs. Any thread. */
void log_set_sink(void (*sink)(void *context, enum log_level level, const char *text),
		  void *context);
bool log_enabled(enum log_level level);

/* One record; what is longer than a record is cut. Callers use the macros below. */
__attribute__((format(printf, 2, 3))) void log_write(enum log_level level, const char *fmt, ...);
/* The same, with what the record is about: for callers that know. */
__attribute__((format(printf, 3, 4))) void
log_write_about(enum log_level level, const struct log_about *about, const char *fmt, ...);
/* An error record that ends with strerror(-r). Returns r, for `return log_errno(r, ...)`. */
__attribute__((format(printf, 2, 3))) int log_errno(int r, const char *fmt, ...);

#define log_err(...)  log_write(LOG_ERR, __VA_ARGS__)
#define log_warn(...) log_write(LOG_WARN, __VA_ARGS__)
#define log_info(...) log_write(LOG_INFO, __VA_ARGS__)
/* LOG_ABOUT(.host = nqn, .nsid = 1): for a record, within a function. */
#define LOG_ABOUT(...)		   (&(const struct log_about){__VA_ARGS__})
#define log_err_about(about, ...)  log_write_about(LOG_ERR, about, __VA_ARGS__)
#define log_warn_about(about, ...) log_write_about(LOG_WARN, about, __VA_ARGS__)
#define log_info_about(about, ...) log_write_about(LOG_INFO, about, __VA_ARGS__)
#define log_debug(...)                                                                             \
	do {                                                                                       \
		if (log_enabled(LOG_DEBUG))                                                        \
			log_write(LOG_DEBUG, __VA_ARGS__);                                         \
	} while (0)

/* Limits the records that one peer can cause: at most burst, refilled by one a second. */
struct log_limit {
	uint64_t last_ns;
	unsigned tokens;
	unsigned suppressed;
};
bool log_limit_pass(struct log_limit *limit, unsigned burst);

/*
 * Copies at most n_src bytes of a peer's string, which may lack its NUL, into dst. Bytes that are
 * not printable become \xHH. dst is always terminated. Returns dst.
 */
const char *log_quote(char *dst, unsigned n_dst, const void *src, unsigned n_src);
