/* SPDX-License-Identifier: BSD-3-Clause */
/* See error_log.h. */
#include "base/bits.h"
#include "target/engine/record/controller.h"
#include "target/engine/record/error_log.h"
#include "target/export/health/health.h"
#include "target/export/health/record.h"

/* noinline: with its entry on the stack of request_run, each command would pay for the
 * protector. */
NOINLINE void error_log_add(struct controller *controller, uint16_t qid, const struct nvme_sqe *sqe,
			    enum nvme_status status, bool has_lba)
{
	struct nvme_error_entry entry = {
		.sqid = put_le16(qid),
		.cid = sqe->cid,
		.status = put_nvme_status(status),
		.location = put_le16(0xffff),
		.nsid = sqe->nsid,
		.trtype = NVMF_TRTYPE_RDMA,
	};

	if (has_lba)
		entry.lba = put_le64(get_le32(sqe->cdw10) | (uint64_t)get_le32(sqe->cdw11) << 32);
	pthread_mutex_lock(&controller->errors_lock);
	/* Entries are numbered over the life of the subsystem, as SMART counts them. */
	controller->n_errors++;
	entry.count = put_le64(controller->health ? health_count_error(controller->health)
						  : controller->n_errors);
	controller->errors[controller->n_errors % CONTROLLER_ERRORS] = entry;
	pthread_mutex_unlock(&controller->errors_lock);
}
