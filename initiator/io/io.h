/* SPDX-License-Identifier: BSD-3-Clause */
/* From a volume_io to NVMe commands and back. I/O loop only; nothing is allocated here. */
#pragma once

#include <stdbool.h>

struct command;
struct lane;
struct loop_timer;
struct volume_io;
struct volume_queue;

/* Answered: done when the device is done with the buffer and the target with its key. */
void io_complete_when_idle(struct lane *lane, struct command *command);
/* Before that, if it lent a key: invalidates the key unless the target has. */
void io_take_key_back(struct lane *lane, struct command *command, bool is_invalidated);
/* The queue pair is dead: the I/O is held again, before all others, waits for proof, or ends. A
 * Compare and Write is never sent again. */
void io_hold_again(struct lane *lane, struct volume_io *io);

/* Sends held I/O, as far as there is room. */
void io_pump(struct volume_queue *queue);
/* I/O that was held for long is about to be sent: the front end may still cancel it. */
void io_before_held(struct volume_queue *queue);
/* Mode QUEUE_FAIL: all held I/O fails. */
void io_fail_held(struct volume_queue *queue);
void io_on_retry(struct loop_timer *timer);
void io_retry_now(struct volume_queue *queue);
