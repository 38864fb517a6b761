/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The first thing a hostile host sends: private data of its connect request, and capsules with one
 * SGL descriptor. The first byte bounds the queue's size, the rest is the message. What is accepted
 * must be what capsule.h promises.
 */
#include <stdlib.h>

#include "base/check.h"
#include "initiator/connect.h"
#include "transport/capsule.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void parse_private(const uint8_t *message, size_t n, unsigned max_sq)
{
	struct cm_queue_request request;
	unsigned n_recv;

	if (cm_req_parse(message, n, max_sq, &request) == NVMF_CM_OK) {
		check(request.n_sq >= 2 && request.n_rq >= 1);
		check(request.n_sq <= (request.qid ? max_sq : NVMF_ADMIN_SQ_ENTRIES));
	}
	check(connect_parse_private(message, n, &n_recv) || n_recv >= 1);
}

static void parse_sgl(const uint8_t *capsule, size_t n)
{
	struct nvme_sqe sqe = {0};
	struct sgl_data sgl;
	volatile uint8_t seen = 0;

	memcpy(&sqe, capsule, n < sizeof(sqe) ? n : sizeof(sqe));
	if (sgl_parse(&sqe.sgl, (uint32_t)n, &sgl) != NVME_OK || sgl.place == SGL_NONE)
		return;
	check(sgl.length > 0);
	if (sgl.place == SGL_CAPSULE)
		for (uint32_t i = 0; i < sgl.length; i++)
			seen = capsule[sizeof(sqe) + sgl.offset + i];
	(void)seen;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	uint8_t *message;

	if (n == 0)
		return 0;
	message = malloc(n - 1 ? n - 1
			       : 1); /* of its very size: a sanitizer sees the end */
	if (!message)
		return 0;
	memcpy(message, data + 1, n - 1);
	parse_private(message, n - 1, 1 + data[0]);
	parse_sgl(message, n - 1);
	free(message);
	return 0;
}
