/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of ids, and their creation and destruction. The helper finds an id by its serial
 * number, so that a late event of its socket finds nothing instead of a dangling pointer.
 */
#pragma once

#include <rdma/rdma_cma.h>
#include <stdint.h>

struct sr_cm_id;
struct sr_cm_way;

extern pthread_mutex_t sr_cm_lock;

int sr_cm_fail(int err); /* errno = err; -1 */

/* The table of ids. Under sr_cm_lock, except sr_cm_new and sr_cm_for_each, which take
 * it. */
struct sr_cm_id *sr_cm_new(struct rdma_event_channel *ch, void *context, enum rdma_port_space ps,
			   const struct sr_cm_way *way);
void sr_cm_free(struct sr_cm_id *id); /* it has no events left */
struct sr_cm_id *sr_cm_find(uint64_t serial);
void sr_cm_close_socket(struct sr_cm_id *id);
void sr_cm_for_each(void (*fn)(struct sr_cm_id *id));
