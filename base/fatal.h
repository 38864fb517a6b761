/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * No program ends without a line: handlers of fatal signals write which signal it was, its sender,
 * the thread, what the program wants to add, and the calls that led there. Then the signal has its
 * usual effect. abort() of a library, which may say nothing itself, arrives here, too.
 */
#pragma once

/* First in main, once log_init is done. */
void fatal_init(void);
/* Control. dump adds what it knows, on the thread that crashed, with any object in any state: it
 * calls only async-signal-safe functions. NULL: nothing. */
void fatal_set_dump(void (*dump)(const void *context, int fd), const void *context);
