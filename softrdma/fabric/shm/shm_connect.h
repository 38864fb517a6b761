/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The two ends of a queue pair: finding the process that owns the other one, and the kick that
 * resumes its waiting sends. A queue pair number names its owner (node.c).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct sr_peer;
struct sr_qp;

struct sr_peer *sr_shm_find(uint32_t qpn);
void sr_shm_connect(struct sr_qp *qp, struct sr_peer *found);
void sr_shm_disconnect(struct sr_qp *qp);
bool sr_shm_is_connected(const struct sr_qp *qp);
void sr_shm_kick(struct sr_qp *qp);
uint32_t sr_shm_rnr_timer(const struct sr_qp *qp);

/* Under sq_lock. Connects a queue pair whose other end was not there at RTR, or has it looked for
 * on another thread, which resumes the queue pair. */
void sr_shm_seek(struct sr_qp *qp);
