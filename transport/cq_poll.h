/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues as polled sources; see cq.h. */
#pragma once

struct cq;

/* Owner loop: begins polling. 0 or -errno. */
int cq_start(struct cq *cq);
/* Owner loop: ends polling. No queue pair may be attached. */
void cq_stop(struct cq *cq);

/* Takes all completions that are there now. */
void cq_poll_all(struct cq *cq);
