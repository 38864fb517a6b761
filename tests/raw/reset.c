/* SPDX-License-Identifier: BSD-3-Clause */
/* See reset.h. */
#include "tests/raw/reset.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

struct nvme_id_ctrl raw_identify(struct raw_queue *admin)
{
	struct nvme_sqe sqe = raw_sqe(admin, NVME_ADMIN_IDENTIFY, 0);
	struct nvme_id_ctrl id;
	struct nvme_cqe cqe;

	sqe.cdw10 = put_le32(NVME_CNS_CTRL);
	raw_describe(admin, &sqe, 0, sizeof(id));
	assert_int_equal(raw_run(admin, &sqe, NULL, 0, &cqe), NVME_OK);
	memcpy(&id, admin->data, sizeof(id));
	return id;
}

struct raw_name raw_name_of(struct raw_host *h)
{
	struct nvme_id_ctrl id = raw_identify(&h->admin);

	return (struct raw_name){h->cntlid, id.ciu, get_le64(id.cirn)};
}

struct nvme_sqe raw_reset_command(struct raw_queue *through, struct raw_name name)
{
	struct nvme_sqe sqe = raw_sqe(through, NVME_ADMIN_CROSS_RESET, 0);

	sqe.cdw10 = put_le32(name.id | (uint32_t)name.ciu << 16);
	sqe.cdw12 = put_le32((uint32_t)name.cirn);
	sqe.cdw13 = put_le32((uint32_t)(name.cirn >> 32));
	return sqe;
}

enum nvme_status raw_reset(struct raw_queue *through, struct raw_name name, bool *ret_is_immediate)
{
	struct nvme_sqe sqe = raw_reset_command(through, name);
	struct nvme_cqe cqe;
	enum nvme_status status = raw_run(through, &sqe, NULL, 0, &cqe);

	*ret_is_immediate = get_le32(cqe.dw0) & NVME_CROSS_RESET_IMMEDIATE;
	return status;
}
