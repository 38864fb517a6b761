/* SPDX-License-Identifier: BSD-3-Clause */
/* Control's side of a lane: its connection to the target (connection.c). */
#pragma once

#include "initiator/control/path_impl.h"

struct volume_queue;

/* The association is there: connects the queue. */
void connection_start(struct lane *lane);
/* Ends the connection, if there is one; on_idle follows when it is gone. */
void connection_stop(struct lane *lane);
/* For all lanes of a queue that is being removed. When they are idle, its loop is notified. */
void connection_stop_all(struct volume_queue *queue);
/* The messages' handlers. */
void connection_on_attached(struct loop_msg *msg);
void connection_on_connected(struct loop_msg *msg);
void connection_on_failed(struct loop_msg *msg);
void connection_on_stopped(struct loop_msg *msg);
