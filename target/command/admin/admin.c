/* SPDX-License-Identifier: BSD-3-Clause */
/* Admin commands: which there are, and the ones too small for a file of their own. */
#include "target/command/admin/admin.h"

static enum nvme_status without_data(struct request *r,
				     enum request_state (*execute)(struct request *r))
{
	r->execute = execute;
	return NVME_OK;
}

__attribute__((noinline)) enum nvme_status admin_parse(struct request *r)
{
	const struct controller *controller = r->queue->controller;

	if (!(controller->csts & NVME_CSTS_RDY))
		return NVME_COMMAND_SEQUENCE | NVME_DNR;
	switch (r->sqe.opcode) {
	case NVME_ADMIN_IDENTIFY:
		return identify_parse(r);
	case NVME_ADMIN_GET_LOG_PAGE:
		return log_page_parse(r);
	case NVME_ADMIN_SET_FEATURES:
		return set_features_parse(r);
	case NVME_ADMIN_GET_FEATURES:
		return get_features_parse(r);
	case NVME_ADMIN_ASYNC_EVENT_REQUEST:
		return without_data(r, async_event_execute);
	case NVME_ADMIN_KEEP_ALIVE:
		return without_data(r, keep_alive_execute);
	case NVME_ADMIN_ABORT:
		if (!controller->is_discovery)
			return without_data(r, abort_execute);
		break;
	default:
		break;
	}
	return NVME_INVALID_OPCODE | NVME_DNR;
}
