/* SPDX-License-Identifier: BSD-3-Clause */
/* Identify. Poller of the admin queue, which reads namespaces under RCU. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct queue;

/* Under RCU. */
uint32_t controller_oaes(struct queue *queue);
/* Whether a namespace of the controller has a volatile write cache. Under RCU. */
bool controller_has_cache(struct queue *queue);
/* Left-justified, padded with spaces. */
void put_ascii(uint8_t *field, size_t n, const char *s);
