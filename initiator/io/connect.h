/* SPDX-License-Identifier: BSD-3-Clause */
/* The bytes of connecting a queue: CM private data and the Connect command. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/capture.h"
#include "transport/wire/fabrics.h"
#include "transport/wire/rdma_cm.h"

/* n_sq and n_recv count from 1. */
void connect_fill_private(struct nvmf_cm_req *req, uint16_t qid, unsigned n_sq, unsigned n_recv,
			  uint16_t cntlid);
/* Private data of the accept: how many receives the target posts, or UINT_MAX when it
 * does not say. 0, or -EPROTO. */
int connect_parse_private(const void *private_data, size_t n, unsigned *ret_n_recv);

/* The two ends of an established connection, for captures; rep is what the target sent. */
void connect_describe(struct capture_stream *ret_stream, const union addr *local,
		      const union addr *remote, const struct nvmf_cm_req *req, const void *rep,
		      size_t n_rep);

/* All but CID and SGL, which the caller has filled. kato_ms counts on the admin queue
 * only. */
void connect_fill_command(struct nvme_sqe *sqe, uint16_t qid, unsigned n_sq, uint32_t kato_ms);
void connect_fill_data(struct nvmf_connect_data *data, const uint8_t hostid[16],
		       const char *hostnqn, const char *subnqn, uint16_t cntlid);
