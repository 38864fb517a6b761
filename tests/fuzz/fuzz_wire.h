/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A fabric in memory, in place of transport/ device.c, cq.c, qp.c, recv_ring.c and cm.c. The fuzzer
 * supplies what a host sends. Work requests of the target complete in the next turn, in order. The
 * fabric checks what the target promises its device: slots, READ credits, and memory that exists.
 * One thread runs the fabric, the target and the script.
 */
#pragma once

#include "transport/cm.h"
#include "transport/wire/nvme.h"

struct qp;

enum {
	WIRE_IN_CAPSULE_MAX = 4096,
};

/* Creates the one device. */
void wire_start(void);

/* Whether the device can send a response inline. */
void wire_set_inline(bool has_inline);
/* The host's memory under a key: an RDMA READ returns these bytes, then zeroes. The bytes are
 * the caller's, until wire_forget_memory(). */
void wire_set_memory(unsigned key, const uint8_t *bytes, size_t n);
void wire_forget_memory(void);
/* The destination of RDMA WRITEs from now on; NULL: their data is dropped. */
void wire_set_sink(uint8_t *bytes, size_t n);
/* While held, the device completes nothing. */
void wire_hold(bool is_held);

/* A capsule of 64 + n bytes arrives, each part in an allocation of exactly its size. */
void wire_deliver(struct qp *qp, const void *sqe, const uint8_t *data, size_t n);
/* Completes what was posted; false: nothing was. */
bool wire_turn(void);
bool wire_is_quiet(void);

/* A connect request arrives at the listener of this number. */
void wire_connect(unsigned listener, unsigned n_reads, const void *private_data, size_t n);
/* The number of connections that exist now, and of receives that the target has not given back. */
unsigned wire_n_conns(void);
unsigned wire_n_recvs(void);
