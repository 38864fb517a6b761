/* SPDX-License-Identifier: BSD-3-Clause */
/* The way from a queue to what is exported. Poller of the queue. */
#pragma once

#include "target/export/ana.h"

struct queue;
struct subsystem;

/* What is exported now to this queue's controller; NULL if its subsystem is gone. Under RCU: valid
 * until the loop's turn ends. */
const struct subsystem *queue_subsystem(struct queue *queue);
/* Its ANA groups, likewise; NULL: it has none. */
const struct ana *queue_ana(struct queue *queue);
/* ANA: NVME_OK, or the status of a command that needs the namespace now. */
enum nvme_status queue_check_path(struct queue *queue, uint32_t nsid);
