/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A datagram on its way: what an engine sends, and what verbs/ delivers to a queue pair. And the
 * 40 bytes in front of each datagram in the receiver's memory, the global route header (GRH): for
 * IPv6 the IP header, for IPv4 20 bytes without meaning and the IP header (IBA annex A17). Pure.
 */
#pragma once

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

struct sr_engine;

#define SR_GRH_BYTES	 40u
#define SR_MULTICAST_QPN 0xffffffu

/* Where datagrams go: what an address handle holds. */
struct sr_address {
	union ibv_gid local, remote;
	const struct sr_engine *engine; /* that reaches it */
	bool is_multicast;
	uint8_t traffic_class, hop_limit, sl;
	uint32_t flow_label;
};

struct sr_datagram {
	const struct sr_address *address; /* from local to remote, as its sender sees it */
	uint32_t qpn, qkey;		  /* of the receiver; qkey: what the sender claims */
	uint32_t source_qpn, psn;
	uint32_t imm; /* as the application gave it */
	bool has_imm, is_solicited;
	const struct iovec *data; /* in this process' memory */
	unsigned n_data;
	uint32_t length;
};

/* Whether the address is one of a group: ff00::/8, or IPv4's 224.0.0.0/4 mapped. */
bool sr_gid_is_multicast(const union ibv_gid *gid);
bool sr_gid_is_ip4(const union ibv_gid *gid);
/* Writes the header of a datagram. */
void sr_grh_build(const struct sr_datagram *d, uint8_t ret[SR_GRH_BYTES]);
/* Reads one: the address of its sender is ret->remote, that of its receiver ret->local; the engine
 * is not set. Any bytes. */
void sr_grh_read(const uint8_t grh[SR_GRH_BYTES], struct sr_address *ret);
