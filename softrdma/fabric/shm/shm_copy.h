/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where a message lies on either side, and moving it: by the processor where both sides are mapped
 * here (shm_view.c), else with process_vm_readv/writev (also within this process: a bad pointer is
 * then an error and not a SIGSEGV).
 */
#pragma once

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "softrdma/fabric/engine.h"

struct iovec;
struct sr_xact;

/* Fills in x->local and x->length, checked against our own keys. Before the responder is known. */
enum ibv_wc_status sr_shm_gather(struct sr_xact *x);

/* The remote range of a WRITE, READ or atomic, checked against key, domain, bounds, and both access
 * rights. Under the responder's lock. */
bool sr_shm_remote_range(const struct sr_xact *x, uint32_t need, uint64_t length,
			 struct iovec *ret);

/*
 * Copies a SEND that does not fit into a completion, from x->local to the receiver.
 * sr_shm_copy_range: a WRITE or READ, between x->local and the responder's range; what was posted
 * behind it may be copied with it. Under the responder's lock. With *ret_wait set it is to be tried
 * again later; what was copied stays noted.
 */
enum ibv_wc_status sr_shm_copy(const struct sr_xact *x, const struct iovec *remote,
			       unsigned n_remote, enum sr_qp_wait *ret_wait);
enum ibv_wc_status sr_shm_copy_range(const struct sr_xact *x, const struct iovec *remote,
				     enum sr_qp_wait *ret_wait);
