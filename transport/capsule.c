/* SPDX-License-Identifier: BSD-3-Clause */
/* Pure parsers of data from peers; see capsule.h. Fuzzed: they accept any bytes. */
#include "transport/capsule.h"

enum {
	SQE_BYTES = sizeof(struct nvme_sqe),
};

static enum nvme_status parse_in_capsule(const struct nvme_sgl *sgl, uint32_t received,
					 struct sgl_data *data)
{
	/* Bounded by the received bytes, not by the receive buffer: the rest of the buffer is data
	 * of another command. */
	uint32_t available = received - SQE_BYTES;
	uint64_t offset = get_le64(sgl->block.offset);
	uint32_t length = get_le32(sgl->block.length);

	if (offset > available)
		return NVME_SGL_OFFSET_INVALID | NVME_DNR;
	if (length > available - offset)
		return NVME_SGL_LENGTH_INVALID | NVME_DNR;
	data->place = length ? SGL_CAPSULE : SGL_NONE;
	data->offset = (uint32_t)offset;
	data->length = length;
	return NVME_OK;
}

/* One load for the three fields, which are not aligned. */
static void parse_keyed(const struct nvme_sgl *sgl, struct sgl_data *data)
{
	uint64_t rest = get_le64(sgl->word.rest);

	data->length = rest & 0xffffff;
	data->address = get_le64(sgl->word.address);
	data->key = (uint32_t)(rest >> 24);
	data->place = data->length ? SGL_HOST : SGL_NONE;
	data->wants_invalidate = data->length && rest >> 56 == NVME_SGL_KEYED_INVALIDATE;
}

enum nvme_status sgl_parse(const struct nvme_sgl *sgl, uint32_t received, struct sgl_data *ret_data)
{
	struct sgl_data data = {.place = SGL_NONE};
	enum nvme_status status = NVME_OK;

	if (received < SQE_BYTES)
		return NVME_INVALID_FIELD | NVME_DNR;
	switch (sgl->keyed.type) {
	case NVME_SGL_KEYED_ADDRESS:
	case NVME_SGL_KEYED_INVALIDATE:
		parse_keyed(sgl, &data);
		break;
	case NVME_SGL_DATA_BLOCK_OFFSET:
		status = parse_in_capsule(sgl, received, &data);
		break;
	default:
		/* A known type with another subtype is an invalid field (Base 2.0, 4.1.2). */
		if (sgl->keyed.type >> 4 == 0x4 || sgl->keyed.type >> 4 == 0x0)
			return NVME_INVALID_FIELD | NVME_DNR;
		return NVME_SGL_TYPE_INVALID | NVME_DNR;
	}
	if (status == NVME_OK)
		*ret_data = data;
	return status;
}

enum nvmf_cm_status cm_req_parse(const void *private_data, size_t n, unsigned max_sq,
				 struct cm_queue_request *ret_request)
{
	struct nvmf_cm_req req;
	struct cm_queue_request request;

	if (!private_data || n < sizeof(req))
		return NVMF_CM_INVALID_LENGTH;
	memcpy(&req, private_data, sizeof(req));
	if (get_le16(req.recfmt) != 0)
		return NVMF_CM_INVALID_RECFMT;
	request = (struct cm_queue_request){.qid = get_le16(req.qid),
					    .n_sq = get_le16(req.hsqsize) + 1u,
					    .n_rq = get_le16(req.hrqsize),
					    .cntlid = get_le16(req.cntlid)};
	if (request.qid == 0)
		max_sq = NVMF_ADMIN_SQ_ENTRIES;
	if (request.n_sq < 2 || request.n_sq > max_sq)
		return NVMF_CM_INVALID_HSQSIZE;
	if (request.n_rq < 1)
		return NVMF_CM_INVALID_HRQSIZE;
	*ret_request = request;
	return NVMF_CM_OK;
}
