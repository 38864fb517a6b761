/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asynchronous events (Base 2.0, 5.2). One request is always out while the controller is
 * live; the notices we ask for are that a namespace's attributes changed, and that the
 * state of its ANA group, or the group itself, did.
 */
#pragma once

#include <stdint.h>

struct controller;

void async_event_start(struct controller *c);
void async_event_stop(struct controller *c);

/* The notices that this host handles and the target supports. */
uint32_t async_event_mask(const struct controller *c);
