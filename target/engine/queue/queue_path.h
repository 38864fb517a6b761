/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds what a queue's controller may use: subsystem, ANA state. Poller of the queue. */
#pragma once

#include "target/export/ana.h"

struct queue;
struct subsystem;

/* The subsystem of the queue's controller as exported now; NULL if it is gone. Under RCU: valid
 * until the loop's turn ends. */
const struct subsystem *queue_subsystem(struct queue *queue);
/* Its ANA groups, likewise; NULL: it has none. */
const struct ana *queue_ana(struct queue *queue);
/* Checks ANA for a command that needs the namespace now: NVME_OK, or the status to answer. */
enum nvme_status queue_check_path(struct queue *queue, uint32_t nsid);
