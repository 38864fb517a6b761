/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The connection manager's management datagrams (MADs): InfiniBand specification volume 1, chapter
 * 12. (mad_ip.h: the IP header in front of a ConnectRequest's private data, annex A11.)
 *
 * Pure: bytes in, a struct out, and back. Numbers are in host order; GIDs, GUIDs and private data
 * are bytes as they travel. A GID is an IPv6 address, or an IPv4 address mapped (::ffff:a.b.c.d).
 * mad_decode checks the header, and that every length that it returns lies inside the message; all
 * other values are the sender's. Reserved bits are dropped, and written as 0. Any thread.
 */
#pragma once

#include <stdint.h>

#define MAD_BYTES      256
#define MAD_MAX_DATA   224
#define MAD_MAX_ARI    72 /* additional rejection information */
#define MAD_RDMA_PS(s) ((s) >> 16 & 0xffff)
#define MAD_PORT(s)    ((uint16_t)(s))

enum mad_type { /* attribute ids, table 98 */
	MAD_REQ = 0x10,
	MAD_MRA,
	MAD_REJ,
	MAD_REP,
	MAD_RTU,
	MAD_DREQ,
	MAD_DREP,
	MAD_SIDR_REQ,
	MAD_SIDR_REP,
	MAD_FIRST = MAD_REQ,
	MAD_LAST = MAD_SIDR_REP,
};

/* Which message a REJ or an MRA answers. */
enum mad_answered {
	MAD_ANSWERS_REQ,
	MAD_ANSWERS_REP,
	MAD_ANSWERS_OTHER,
};

/* Table 107: reasons of a rejection, of those that occur here. */
enum mad_reason {
	MAD_REASON_NO_QP = 1,
	MAD_REASON_NO_RESOURCES = 3,
	MAD_REASON_TIMEOUT = 4,
	MAD_REASON_UNSUPPORTED = 5,
	MAD_REASON_NO_ID = 6, /* the communication id is not known */
	MAD_REASON_NO_SERVICE = 8,
	MAD_REASON_TRANSPORT = 9,
	MAD_REASON_STALE = 10,
	MAD_REASON_MTU = 26,
	MAD_REASON_CONSUMER = 28,
};

/* Times are exponents: 4.096 us * 2^n. */
struct mad_path {
	uint16_t local_lid, remote_lid;
	uint8_t local_gid[16], remote_gid[16];
	uint32_t flow_label; /* 20 bits */
	uint8_t rate, traffic_class, hop_limit, service_level;
	uint8_t is_subnet_local;
	uint8_t ack_timeout;
};

struct mad_req {
	uint64_t service_id;
	uint8_t guid[8];
	uint32_t qkey, qpn, psn; /* psn: from which the REQ's receiver shall begin to send */
	uint8_t responder_resources, initiator_depth;
	uint32_t local_eecn, remote_eecn;
	uint8_t remote_timeout, local_timeout; /* to answer this REQ; to answer the REP */
	uint8_t transport;		       /* 0: reliable connected */
	uint8_t flow_control, retry_count, rnr_retry_count, max_retries, srq;
	uint8_t rdc_exists, transport_extended;
	uint8_t path_mtu; /* enum ibv_mtu */
	uint16_t pkey;
	struct mad_path primary, alternate;
};

struct mad_rep {
	uint32_t qkey, qpn, psn, local_eecn;
	uint8_t responder_resources, initiator_depth;
	uint8_t ack_delay, failover, flow_control, rnr_retry_count, srq;
	uint8_t guid[8];
};

struct mad_rej {
	uint8_t answered, ari_len; /* enum mad_answered; bytes */
	uint16_t reason;
	uint8_t ari[MAD_MAX_ARI];
};

struct mad_mra {
	uint8_t answered, service_timeout; /* enum mad_answered; an exponent */
};

struct mad_dreq {
	uint32_t remote_qpn;
};

struct mad_sidr_req {
	uint32_t request_id;
	uint16_t pkey;
	uint64_t service_id;
};

struct mad_sidr_rep {
	uint32_t request_id;
	uint8_t status, info_len;
	uint32_t qpn, qkey;
	uint64_t service_id;
	uint8_t info[MAD_MAX_ARI];
};

struct mad {
	enum mad_type type;
	uint64_t tid;		      /* transaction id */
	uint32_t local_id, remote_id; /* communication ids of its sender and receiver; SIDR: 0 */
	union {
		struct mad_req req;
		struct mad_rep rep;
		struct mad_rej rej;
		struct mad_mra mra;
		struct mad_dreq dreq;
		struct mad_sidr_req sidr_req;
		struct mad_sidr_rep sidr_rep;
	};
	uint8_t data[MAD_MAX_DATA]; /* private data: mad_data_bytes(type), all of it */
};

/* How many bytes of private data a message of this type carries; 0 for other types. */
unsigned mad_data_bytes(enum mad_type type);
/* "REQ" and so on, for people. */
const char *mad_name(enum mad_type type);

/* 0; -EPROTO: no connection manager's Send of this version, or a length in it is too large;
 * -EOPNOTSUPP: an attribute that this file does not know. *ret is undefined then. */
int mad_decode(const uint8_t bytes[MAD_BYTES], struct mad *ret);
/* The reverse. Fields wider than on the wire lose their upper bits. */
void mad_encode(const struct mad *m, uint8_t ret[MAD_BYTES]);

/* 4.096 us * 2^exponent in ns, for 0 to 31. */
static inline uint64_t mad_time_ns(unsigned exponent)
{
	return 4096ULL << (exponent & 31);
}
