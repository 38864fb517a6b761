/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the volumes of a process: the control thread with its loop, which begins with the
 * first of them and ends with the last, and the sign that this is not a child that fork made.
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "base/loop.h"

/* Any thread. Starts the control thread, if there is none. 0, or -errno with *error. Each take
 * needs a give, which ends the thread if it is the last. */
int process_take(struct error *error);
void process_give(void);
/* The loop of the control thread. Between take and give. */
struct loop *process_loop(void);
/* Any thread but control's: runs run(arg) on the control loop, and waits for its end. */
void process_call(void (*run)(void *arg), void *arg);

/* See process_is_child. */
extern const volatile unsigned *process_sign;
/* Whether fork has made this process from one that used the library. Any thread; a few
 * instructions. */
static inline bool process_is_child(void)
{
	return process_sign && !*process_sign;
}

/*
 * Chooses the RDMA devices of the process: "auto", "soft", "soft-roce" or the name of a device. Any
 * thread; the first choice holds. 0, or -errno with *error. NULL in programs that choose before
 * (transport/fabric.h).
 */
extern int (*process_choose_fabric)(const char *fabric, struct error *error);
