/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parsers of data from peers: the SGL descriptor of a command capsule, and the private data of a
 * connect request. Pure, any thread. No parser trusts a length.
 */
#pragma once

#include <stdbool.h>

#include "transport/wire/fabrics.h"
#include "transport/wire/rdma_cm.h"

enum sgl_place {
	SGL_NONE,    /* the command carries no data */
	SGL_HOST,    /* host memory: RDMA with address and key */
	SGL_CAPSULE, /* behind the command in the capsule, at offset */
};

struct sgl_data {
	enum sgl_place place;
	uint32_t length;
	uint64_t address;
	uint32_t key;
	bool wants_invalidate; /* the response shall be a SEND with invalidate of key */
	uint32_t offset;
};

/*
 * Parses the one descriptor of a capsule. received is byte_len of the RECV completion, at least
 * 64. NVME_OK, or the status to answer, with DNR: unknown type 11h; bad subtype 02h; in-capsule
 * data not wholly inside the received bytes 16h (offset) or 0Fh (length).
 */
enum nvme_status sgl_parse(const struct nvme_sgl *sgl, uint32_t received,
			   struct sgl_data *ret_data);

struct cm_queue_request {
	uint16_t qid;
	unsigned n_sq;	 /* submission queue entries, 1-based */
	unsigned n_rq;	 /* receives the host posts */
	uint16_t cntlid; /* a hint */
};
/* Parses n received bytes of private data of a connect request. max_sq bounds I/O queues. */
enum nvmf_cm_status cm_req_parse(const void *private_data, size_t n, unsigned max_sq,
				 struct cm_queue_request *ret_request);
