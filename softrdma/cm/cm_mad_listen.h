/* SPDX-License-Identifier: BSD-3-Clause */
/* Listening for requests of other machines: cm_mads.h. */
#pragma once

#include <rdma/rdma_cma.h>
#include <stdint.h>

struct sr_cm_id;

/* Application thread, without sr_cm_lock: opens the addresses on which id, bound, will listen. 0 or
 * -errno. */
int sr_cm_open_listen(struct sr_cm_id *id);
/* Requests for the id's port come to this process, as long as the id lives. 0 or -errno. */
int sr_cm_start_listen(struct sr_cm_id *id);
void sr_cm_stop_listen(struct sr_cm_id *id);
/* The serial of the id that listens on that address and port of that space, or 0. */
uint64_t sr_cm_find_mad_listener(const uint8_t gid[16], enum rdma_port_space ps, uint16_t port);
