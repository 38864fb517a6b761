/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The helper thread: it sleeps in epoll and does what no thread of the program can be asked for.
 * It blocks all signals and has no period; a process in which nothing happens does not run.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The data of an event of epoll: the kind in the top byte, an identity below. */
enum sr_watch {
	SR_WATCH_WAKE,
	SR_WATCH_TIMER,
	SR_WATCH_LISTEN,
	SR_WATCH_HELLO,
	SR_WATCH_PEER,
	SR_WATCH_CM,
	SR_WATCH_ADDRESSES,
	SR_WATCH_CONTROL,
	SR_WATCH_CONTEXT,
	SR_WATCH_ROCE,
	SR_WATCH_ROCE_GROUP,
	SR_WATCH_ROCE_INBOX,
	SR_N_WATCH
};

/* Once, before the first sr_helper_watch(). 0 or -errno. */
int sr_helper_open(void);
/* Starts the thread, which first calls on_start. 0 or -errno. */
int sr_helper_run(void (*on_start)(void));
/* Whether the caller is the helper, which must not wait for another process. */
bool sr_helper_is_self(void);
/*
 * Any thread. When fd is readable or hangs up, the part that handles this kind is called with id. 0
 * or -errno.
 */
int sr_helper_watch(int fd, enum sr_watch kind, uint64_t id);
/* The same for errors only: another thread or process reads fd. */
int sr_helper_watch_errors(int fd, enum sr_watch kind, uint64_t id);
/* Any thread. An event that was already reported may still be handled afterwards. */
void sr_helper_unwatch(int fd);
/* In a forked child, which does not have the thread. */
void sr_helper_forget(void);
