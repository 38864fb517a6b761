/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NVMe over Fabrics: wire structs and constants. Commands of opcode 7Fh, Connect data, discovery
 * log (Base 2.0, 3.3 and 6), and the rules for NQNs. A field of a peer is untrusted until it is
 * parsed.
 */
#pragma once

#include "transport/wire/nvme.h"

enum nvmf_fctype {
	NVMF_PROPERTY_SET = 0x00,
	NVMF_CONNECT = 0x01,
	NVMF_PROPERTY_GET = 0x04,
	NVMF_AUTH_SEND = 0x05,
	NVMF_AUTH_RECEIVE = 0x06,
	NVMF_DISCONNECT = 0x08,
};

enum {
	NVMF_NQN_FIELD = 256, /* bytes on the wire */
	NVMF_NQN_MAX = 223,   /* characters, without NUL */
	NVMF_CNTLID_DYNAMIC = 0xffff,
	NVMF_CNTLID_STATIC_ANY = 0xfffe,
	NVMF_CNTLID_MAX = 0xffef,
	NVMF_ADMIN_SQ_ENTRIES = 32,
	NVMF_PORT = 4420,
	NVMF_CATTR_DISABLE_SQFLOW = 1 << 2,
	NVMF_CONNECT_ATR = 1 << 17,	   /* in the result: authentication required */
	NVMF_CONNECT_IATTR_DATA = 1 << 16, /* in the result of 1.82h: offset is into the data */
};
#define NVMF_DISCOVERY_NQN "nqn.2014-08.org.nvmexpress.discovery"

struct nvmf_connect_cmd {
	uint8_t opcode, flags;
	le16 cid;
	uint8_t fctype;
	uint8_t rsvd5[19];
	struct nvme_sgl sgl;
	le16 recfmt, qid, sqsize; /* sqsize 0's based */
	uint8_t cattr, rsvd47;
	le32 kato; /* ms */
	uint8_t rsvd52[12];
};
static_assert(sizeof(struct nvmf_connect_cmd) == 64, "Connect");
static_assert(offsetof(struct nvmf_connect_cmd, sqsize) == 44, "Connect");

struct nvmf_connect_data {
	uint8_t hostid[16];
	le16 cntlid;
	uint8_t rsvd18[238];
	uint8_t subnqn[NVMF_NQN_FIELD];
	uint8_t hostnqn[NVMF_NQN_FIELD];
	uint8_t rsvd768[256];
};
static_assert(sizeof(struct nvmf_connect_data) == 1024, "Connect data");

struct nvmf_property_cmd {
	uint8_t opcode, flags;
	le16 cid;
	uint8_t fctype;
	uint8_t rsvd5[35];
	uint8_t attrib; /* bits 2:0: 0 is 4 bytes, 1 is 8 bytes */
	uint8_t rsvd41[3];
	le32 offset;
	le64 value;
	uint8_t rsvd56[8];
};
static_assert(sizeof(struct nvmf_property_cmd) == 64, "Property Get and Set");
static_assert(offsetof(struct nvmf_property_cmd, value) == 48, "Property Set");

/* ---- Discovery Log Page (70h) ---- */

enum nvmf_trtype {
	NVMF_TRTYPE_RDMA = 1,
	NVMF_TRTYPE_TCP = 3,
};
enum nvmf_adrfam {
	NVMF_ADRFAM_IPV4 = 1,
	NVMF_ADRFAM_IPV6 = 2,
	NVMF_ADRFAM_IB = 3,
};
enum nvmf_subtype {
	NVMF_SUBTYPE_REFERRAL = 1,
	NVMF_SUBTYPE_NVM = 2,
	NVMF_SUBTYPE_CURRENT = 3,
};
enum {
	NVMF_TREQ_NOT_SPECIFIED = 0,
	NVMF_TREQ_NOT_REQUIRED = 2,
	NVMF_TREQ_DISABLE_SQFLOW = 4,
	NVMF_QPTYPE_RC = 1,
	NVMF_PRTYPE_NONE = 1,
	NVMF_PRTYPE_IB = 2,
	NVMF_PRTYPE_ROCE = 3,
	NVMF_PRTYPE_ROCEV2 = 4,
	NVMF_PRTYPE_IWARP = 5,
	NVMF_CMS_RDMA_CM = 1,
	NVMF_EFLAGS_DUPLICATE = 1 << 0,	 /* each portal of the service returns the same log */
	NVMF_EFLAGS_PERSISTENT = 1 << 1, /* hosts may stay connected, with keep-alive */
};

struct nvmf_discovery_header {
	le64 genctr, numrec;
	le16 recfmt;
	uint8_t rsvd18[1006];
};
static_assert(sizeof(struct nvmf_discovery_header) == 1024, "Discovery Log Page");

struct nvmf_discovery_entry {
	uint8_t trtype, adrfam, subtype, treq;
	le16 portid, cntlid, asqsz, eflags;
	uint8_t rsvd12[20];
	uint8_t trsvcid[32];
	uint8_t rsvd64[192];
	uint8_t subnqn[NVMF_NQN_FIELD];
	uint8_t traddr[256];
	struct {
		uint8_t qptype, prtype, cms;
		uint8_t rsvd3[5];
		le16 pkey;
		uint8_t rsvd10[246];
	} tsas_rdma;
};
static_assert(sizeof(struct nvmf_discovery_entry) == 1024, "Discovery Log Page Entry");
static_assert(offsetof(struct nvmf_discovery_entry, traddr) == 512, "Discovery Log Page Entry");
