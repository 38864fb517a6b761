/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Log records: one line each on stderr. It begins with "<priority>" when stderr is the journal,
 * else with "program: level: ", with the time in front if the program enables it (log_show_time).
 * The text begins with the object that it is about. Nothing logs for each I/O. Any thread; one
 * write(2) for a record. log_write keeps errno.
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
void log_set_level(enum log_level max_level);
bool log_enabled(enum log_level level);

/* One record; what is longer than a record is cut. Callers use the macros below. */
__attribute__((format(printf, 2, 3))) void log_write(enum log_level level, const char *fmt, ...);
/* An error record that ends with strerror(-r). Returns r, for `return log_errno(r, ...)`. */
__attribute__((format(printf, 2, 3))) int log_errno(int r, const char *fmt, ...);

#define log_err(...)  log_write(LOG_ERR, __VA_ARGS__)
#define log_warn(...) log_write(LOG_WARN, __VA_ARGS__)
#define log_info(...) log_write(LOG_INFO, __VA_ARGS__)
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
