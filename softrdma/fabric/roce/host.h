/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests of a peer on another machine, at this process: they take its receives, and read and
 * write what its keys grant. Everything that such a request names is checked here.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct roce_host;
struct sr_qp;

/* Under the queue pair's shared lock, too. context: the struct sr_qp. */
extern const struct roce_host roce_host;
/* XRC: a packet names this SRQ. */
void roce_aim(struct sr_qp *qp, uint32_t srqn);
/* The payload of a READ's response. */
bool roce_read_memory(const struct sr_qp *qp, uint32_t rkey, uint64_t va, uint8_t *to, uint32_t n);
