/* SPDX-License-Identifier: BSD-3-Clause */
/* Private data of the RDMA CM messages: wire structs and constants (NVMe RDMA Transport
 * Specification 1.0, figures 4 to 7). transport/capsule.h has the parser. */
#pragma once

#include <assert.h>

#include "base/bytes.h"

struct nvmf_cm_req {
	le16 recfmt, qid;
	le16 hrqsize; /* receives the host posts */
	le16 hsqsize; /* submission queue entries, 0's based */
	le16 cntlid;
	uint8_t rsvd[22];
};
static_assert(sizeof(struct nvmf_cm_req) == 32, "figure 5");

struct nvmf_cm_rep {
	le16 recfmt;
	le16 crqsize; /* receives the controller posts */
	uint8_t rsvd[28];
};
static_assert(sizeof(struct nvmf_cm_rep) == 32, "figure 6");

struct nvmf_cm_rej {
	le16 recfmt, sts;
};
static_assert(sizeof(struct nvmf_cm_rej) == 4, "figure 7");

enum nvmf_cm_status {
	NVMF_CM_OK = 0,
	NVMF_CM_INVALID_LENGTH = 1,
	NVMF_CM_INVALID_RECFMT = 2,
	NVMF_CM_INVALID_QID = 3,
	NVMF_CM_INVALID_HSQSIZE = 4,
	NVMF_CM_INVALID_HRQSIZE = 5,
	NVMF_CM_NO_RESOURCES = 6,
	NVMF_CM_INVALID_IRD = 7,
	NVMF_CM_INVALID_ORD = 8,
	NVMF_CM_INVALID_CNTLID = 9,
};

enum {
	/* Reasons of an IB CM for a reject: by the consumer, and no listener. */
	CM_REASON_CONSUMER = 28,
	CM_REASON_NO_LISTENER = 8,
	CM_REASON_STALE = 10,
	CM_REASON_UNSUPPORTED = 5, /* IBA table 99: unsupported request */
	CM_REASON_PATH_MTU = 26,   /* invalid path MTU */
};
