/* SPDX-License-Identifier: BSD-3-Clause */
/* Asynchronous events: a queue for each context, whose eventfd counts the entries. */
#pragma once

#include <infiniband/verbs.h>

struct sr_ctx;

/* Raises an asynchronous event: port_num 1 for device and port events. */
void sr_async_raise(struct ibv_context *c, enum ibv_event_type type, void *element);
/* Raises the event on every open context (device and port events). */
void sr_async_raise_all(enum ibv_event_type type);
/* Before an object is destroyed: drops its queued events, and waits until the application has
 * acknowledged the delivered ones. */
void sr_async_forget_qp(struct ibv_qp *qp, unsigned *delivered);
void sr_async_forget_cq(struct ibv_cq *cq, unsigned *delivered);
void sr_async_forget_srq(struct ibv_srq *srq, unsigned *delivered);

/* The list of open contexts, for events about the device as a whole. */
void sr_async_add_context(struct sr_ctx *c);
void sr_async_drop_context(struct sr_ctx *c);
