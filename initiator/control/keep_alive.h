/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keep Alive (Base 2.0, 3.9): twice in each keep alive time we say that we are there, and
 * see that the controller is. Control loop. It is the only thing that wakes an idle
 * volume.
 */
#pragma once

#include <stdint.h>

struct controller;

/* The keep alive timeout of this association; 0: it has none. */
uint64_t controller_keep_alive_ns(const struct controller *c);
void host_keep_alive_start(struct controller *c);
void host_keep_alive_stop(struct controller *c);
