/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commands that end early: aborted by the host, forbidden by new rules, or left by a connection
 * that dies. A request that waits in a list of the engine is taken out of it. A request that the
 * device, the disk or another thread has comes back by itself. Runs on the queue's poller.
 */
#pragma once

#include <stdbool.h>

#include "transport/wire/nvme.h"

struct queue;
struct request;

/* For a request with an abort_status: ends it if it waits in a list of the engine; else false. */
bool request_abort_now(struct request *r);
/* For Abort: the same, with this status; false if it cannot be stopped any more. */
bool request_abort(struct request *r, enum nvme_status status);
/* For a dying queue: ends requests in lists of the engine. The others come back by themselves. */
void request_abort_waiting(struct queue *queue);
/* The queue is drained, and a defect keeps it: its commands that the backend does not have leave
 * their namespaces, so that other hosts' commands do not wait for them. */
void request_abandon_lost(struct queue *queue);
