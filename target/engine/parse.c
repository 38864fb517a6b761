/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a capsule asks for, before anything of it is done: which command, may it come now on this queue,
 * is its description of data one. The parsers of the commands do the rest. The queue's poller.
 */
#include "target/command/admin/admin.h"
#include "target/command/io/fused.h"

static __attribute__((noinline)) enum nvme_status parse_fabrics(struct request *r)
{
	/* The fabrics command type stands where others have the NSID's lowest byte. */
	uint8_t fctype = r->sqe.nsid.b[0];

	if (fctype == NVMF_CONNECT)
		return connect_parse(r);
	if (!r->queue->controller)
		return NVME_COMMAND_SEQUENCE | NVME_DNR;
	if (fctype == NVMF_AUTH_SEND || fctype == NVMF_AUTH_RECEIVE)
		return auth_parse(r);
	if (r->queue->is_unproven)
		return NVME_AUTH_REQUIRED | NVME_DNR;
	if (fctype == NVMF_PROPERTY_GET || fctype == NVMF_PROPERTY_SET)
		return property_parse(r);
	return NVME_INVALID_OPCODE | NVME_DNR;
}

enum nvme_status command_parse(struct request *r)
{
	struct controller *controller = r->queue->controller;
	enum nvme_status status;

	if ((r->sqe.flags & NVME_FLAGS_PSDT_MASK) != NVME_FLAGS_PSDT_SGL)
		return NVME_INVALID_FIELD | NVME_DNR;
	status = fused_meet(r);
	if (status == NVME_OK && !fused_is_known(r))
		status = NVME_INVALID_FIELD | NVME_DNR;
	if (status == NVME_OK)
		status = sgl_parse(&r->sqe.sgl, r->received, &r->sgl);
	if (status != NVME_OK)
		return status;
	/* Who has proven nothing keeps no association alive but his own. */
	if (controller && !(r->queue->is_unproven && r->queue->qid))
		keep_alive_note(controller, r->queue->poller->loop.now_ns);
	if (r->sqe.opcode == NVME_FABRICS)
		return parse_fabrics(r);
	if (!controller)
		return NVME_COMMAND_SEQUENCE | NVME_DNR;
	if (r->queue->is_unproven)
		return NVME_AUTH_REQUIRED | NVME_DNR;
	return r->queue->qid == 0 ? admin_parse(r) : io_parse(r);
}

enum nvme_status request_check_sgl(const struct request *r, bool is_exact)
{
	if (r->direction == DIRECTION_C2H && r->sgl.place == SGL_CAPSULE)
		return NVME_INVALID_FIELD | NVME_DNR;
	if (r->length > r->queue->target->config->tuning.max_transfer)
		return NVME_SGL_LENGTH_INVALID | NVME_DNR;
	if (is_exact ? r->sgl.length != r->length : r->sgl.length < r->length)
		return NVME_SGL_LENGTH_INVALID | NVME_DNR;
	return NVME_OK;
}
