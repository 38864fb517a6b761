/* SPDX-License-Identifier: BSD-3-Clause */
/* NBD on standard input and output, for inetd, fuzzers and `nbdcopy -- [ rblk serve ... ]`. */
#pragma once

/* A stream socket; its other end is standard input and output. The caller owns *ret_fd. 0 or
 * -errno. */
int stdio_open(int *ret_fd);
/* Waits until everything that was sent is written to standard output. */
void stdio_finish(void);
/* The process ends now: does not wait for the writer. */
void stdio_leave(void);
