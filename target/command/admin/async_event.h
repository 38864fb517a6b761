/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asynchronous Event Requests: commands that the controller holds until there is an event to
 * report. Poller of the admin queue.
 */
#pragma once

#include <stdint.h>

#include "target/engine/record/controller_events.h"
#include "transport/wire/nvme.h"

struct controller;
struct request;

/* Completes a request that is held with the event, or the next one: once, until the host has read
 * about it. Nothing while there is no admin queue. */
void async_event_raise(struct controller *controller, enum controller_event event);
/* The host has read the log page (without RAE): the event may be sent again. */
void async_event_unmask(struct controller *controller, enum controller_event event);
/* The same for a change of a namespace, which the log page of changes then names. */
void async_event_ns_changed(struct controller *controller, uint32_t nsid);
/* Completes one held request. */
void async_event_end(struct request *r, enum nvme_status status);
/* Completes all held requests with a status, or drops them when their queue dies. */
void async_event_end_all(struct controller *controller, enum nvme_status status);
