/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes that take long in a store, and writes that wait for them. A host that has lost a path
 * repeats its writes on another one, where it is connected already. If the store still has the
 * first copy of one, it must not end after the second. Poller.
 */
#pragma once

#include <stdbool.h>

#include "target/engine/record/request_state.h"

struct poller;
struct request;

/* Control, when it makes the poller. */
void aging_init(struct poller *poller);
/* A command that changes the medium goes to a store: it is looked at now and then. */
void aging_watch(struct poller *poller);
/* Whether the command must wait: an older association of its host is dying, or has an old write to
 * one of its blocks in the store. Only while its guard has a flag that says so. */
bool aging_must_wait(const struct request *r);
/* The command waits, and tries again by itself; after fencing.quiesce it ends. Returns PARKED. */
enum request_state aging_park(struct request *r);
