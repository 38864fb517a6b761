/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * DH-HMAC-CHAP in-band authentication: wire structs and constants (NVM Express Base Specification
 * 2.0, 8.13; Authentication Send and Receive: 6.2, 6.3). Comments give the lengths of variable
 * parts; transport/auth_message.h has the parsers and writers.
 */
#pragma once

#include "transport/wire/fabrics.h"

enum {
	NVMF_AUTH_SECP = 0xe9,	     /* security protocol: NVMe authentication */
	NVMF_AUTH_SPSP = 0x01,	     /* both security protocol specific bytes */
	NVMF_CONNECT_ASCR = 1 << 18, /* in the result of Connect: secure channel required */
	NVMF_AUTH_ID = 0x01,	     /* the protocol DH-HMAC-CHAP */
	NVMF_AUTH_SC_NONE = 0,	     /* no secure channel is requested */
	NVMF_AUTH_IDS = 30,	     /* room for identifiers of hashes, and of groups */
	NVMF_AUTH_REASON_FAILED = 1,
};

/* Both commands have the same layout. */
struct nvmf_auth_cmd {
	uint8_t opcode, flags;
	le16 cid;
	uint8_t fctype;
	uint8_t rsvd5[19];
	struct nvme_sgl sgl;
	uint8_t rsvd40, spsp0, spsp1, secp;
	le32 length; /* Send: transfer length; Receive: allocation length */
	uint8_t rsvd48[16];
};
static_assert(sizeof(struct nvmf_auth_cmd) == 64, "Authentication Send and Receive");
static_assert(offsetof(struct nvmf_auth_cmd, secp) == 43, "Authentication Send");

enum nvmf_auth_type {
	NVMF_AUTH_COMMON = 0x00,
	NVMF_AUTH_CHAP = 0x01,
};

enum nvmf_auth_id {
	NVMF_AUTH_NEGOTIATE = 0x00, /* common; from the host */
	NVMF_AUTH_CHALLENGE = 0x01,
	NVMF_AUTH_REPLY = 0x02, /* from the host */
	NVMF_AUTH_SUCCESS1 = 0x03,
	NVMF_AUTH_SUCCESS2 = 0x04, /* from the host */
	NVMF_AUTH_FAILURE2 = 0xf0, /* common; from the host */
	NVMF_AUTH_FAILURE1 = 0xf1, /* common */
};

enum nvmf_auth_hash {
	NVMF_HASH_NONE = 0, /* only as the transformation of a key */
	NVMF_HASH_SHA256 = 1,
	NVMF_HASH_SHA384 = 2,
	NVMF_HASH_SHA512 = 3,
	NVMF_HASHES = 4,
};

enum nvmf_auth_dhgroup {
	NVMF_DH_NULL = 0,
	NVMF_DH_2048 = 1,
	NVMF_DH_3072 = 2,
	NVMF_DH_4096 = 3,
	NVMF_DH_6144 = 4,
	NVMF_DH_8192 = 5,
	NVMF_DH_GROUPS = 6,
};

/* Why authentication failed: the explanation of a failure message. */
enum nvmf_auth_failure {
	NVMF_AUTH_OK = 0, /* never on the wire */
	NVMF_AUTH_FAILED = 1,
	NVMF_AUTH_PROTOCOL = 2,
	NVMF_AUTH_SECURE_CHANNEL = 3,
	NVMF_AUTH_HASH = 4,
	NVMF_AUTH_DHGROUP = 5,
	NVMF_AUTH_PAYLOAD = 6,
	NVMF_AUTH_MESSAGE = 7,
};

struct nvmf_auth_header {
	uint8_t type, id;
	le16 rsvd2, tid;
};
static_assert(sizeof(struct nvmf_auth_header) == 6, "8.13.5");

struct nvmf_auth_descriptor {
	uint8_t authid, rsvd1, halen, dhlen;
	uint8_t hashes[NVMF_AUTH_IDS], dhgroups[NVMF_AUTH_IDS];
};
static_assert(sizeof(struct nvmf_auth_descriptor) == 64, "8.13.5.2");

struct nvmf_auth_negotiate {
	struct nvmf_auth_header header;
	uint8_t sc_c, napd;
	/* napd descriptors of 64 bytes */
};
static_assert(sizeof(struct nvmf_auth_negotiate) == 8, "8.13.5.2");

struct nvmf_auth_challenge {
	struct nvmf_auth_header header;
	uint8_t hl, rsvd7, hashid, dhgid;
	le16 dhvlen;
	le32 seqnum;
	/* the challenge (hl), the controller's Diffie-Hellman value (dhvlen) */
};
static_assert(sizeof(struct nvmf_auth_challenge) == 16, "8.13.5.3");

struct nvmf_auth_reply {
	struct nvmf_auth_header header;
	uint8_t hl, rsvd7, cvalid, rsvd9;
	le16 dhvlen;
	le32 seqnum;
	/* the response (hl), the host's challenge (hl), its Diffie-Hellman value (dhvlen) */
};
static_assert(sizeof(struct nvmf_auth_reply) == 16, "8.13.5.4");

struct nvmf_auth_success1 {
	struct nvmf_auth_header header;
	uint8_t hl, rsvd7, rvalid;
	uint8_t rsvd9[7];
	/* the controller's response (hl), if rvalid */
};
static_assert(sizeof(struct nvmf_auth_success1) == 16, "8.13.5.5");

struct nvmf_auth_success2 {
	struct nvmf_auth_header header;
	uint8_t rsvd6[10];
};
static_assert(sizeof(struct nvmf_auth_success2) == 16, "8.13.5.6");

struct nvmf_auth_failure_message {
	struct nvmf_auth_header header;
	uint8_t reason, explanation;
};
static_assert(sizeof(struct nvmf_auth_failure_message) == 8, "8.13.5.7");
