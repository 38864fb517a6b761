/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A fabric in memory, in place of transport/ device.c, cq.c, qp.c, recv_ring.c and cm.c: what a host sends comes
 * from the fuzzer, and what the target posts is over in the next turn, in order. It checks what the
 * target promised the device: slots, READ credits, memory that is really there.
 */
#pragma once

#include "transport/cm.h"
#include "transport/wire/nvme.h"

enum {
	WIRE_IN_CAPSULE_MAX = 4096,
};

/* Makes the one device. */
void wire_start(void);

/* Responses leave without inline data. */
void wire_set_inline(bool has_inline);
/* The host's memory under a key: what an RDMA READ of it brings; zeroes follow. */
void wire_set_memory(unsigned key, const uint8_t *bytes, size_t n);
void wire_forget_memory(void);
/* Where RDMA WRITEs go from now on; NULL: nowhere. */
void wire_set_sink(uint8_t *bytes, size_t n);
/* The device does nothing until it is released. */
void wire_hold(bool is_held);

/* A capsule of 64 + n bytes arrives, each part in memory of its very size. */
void wire_deliver(struct qp *qp, const void *sqe, const uint8_t *data, size_t n);
/* Ends what was posted; false: nothing was. */
bool wire_turn(void);
bool wire_is_quiet(void);

/* A connect request arrives at the listener of this number. */
void wire_connect(unsigned listener, unsigned n_reads, const void *private_data, size_t n);
/* Of all there are now: connections, receives that were not given back. */
unsigned wire_n_conns(void);
unsigned wire_n_recvs(void);
