/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A queue's descriptor for an event loop of the program: the epoll_fd of the queue's own loop, with
 * an eventfd by which the keeper reports, and a timerfd for the loop's timers. The caller's thread.
 */
#pragma once

#include <stdbool.h>

struct rblk_queue;

/* Taken. Prepares for a sleep on the loop's epoll_fd; false: something came. */
bool queue_arm(struct rblk_queue *queue);
