/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Building packets for the trace file. trace_begin and trace_end enclose one work request or one
 * message: the packets between them are not mixed with those of other threads.
 */
#pragma once

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

struct trace_packet;

/* The addresses of the two ends. */
struct trace_flow {
	union ibv_gid from, to;
};

/* The fields of a BTH (base transport header). */
struct trace_bth {
	uint8_t opcode;
	bool solicited, ack_request;
	uint32_t dest_qpn, psn;
};

/* Writes the headers up to the BTH, for the addresses of the flow. */
void trace_packet_begin(struct trace_packet *p, const struct trace_flow *f,
			const struct trace_bth *bth);
/* Appends n zeroed bytes. */
uint8_t *trace_packet_add(struct trace_packet *p, unsigned n);
void trace_packet_add16(struct trace_packet *p, uint32_t v);
void trace_packet_add32(struct trace_packet *p, uint32_t v);
void trace_packet_add64(struct trace_packet *p, uint64_t v);
/* Pads, computes lengths and checksums, and queues the packet. */
void trace_packet_end(struct trace_packet *p);
/* For a packet that has its pad and ICRC: fills the headers before it, and queues it. */
void trace_packet_finish(struct trace_packet *p, uint16_t source_port, uint16_t ip_id);
