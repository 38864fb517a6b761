/* SPDX-License-Identifier: BSD-3-Clause */
/* See reset.h. */
#include "tests/raw/reset.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

enum {
	PATIENCE_MS = 60000,
};

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

unsigned raw_reset_log(struct raw_queue *admin, enum nvme_log page, uint32_t flags)
{
	struct nvme_sqe sqe = raw_sqe(admin, NVME_ADMIN_GET_LOG_PAGE, NVME_NSID_ALL);
	const struct nvme_cross_reset_log *log = (const void *)admin->data;
	struct nvme_cqe cqe;

	sqe.cdw10 = put_le32((uint32_t)page | flags | (4096 / 4 - 1) << 16);
	raw_describe(admin, &sqe, 0, 4096);
	assert_int_equal(raw_run(admin, &sqe, NULL, 0, &cqe), NVME_OK);
	return get_le16(log->n_entries);
}

const struct nvme_cross_reset_entry *raw_first_reset(const struct raw_queue *admin)
{
	return (const void *)(admin->data + sizeof(struct nvme_cross_reset_log));
}

void raw_enable_events(struct raw_queue *admin, uint32_t mask)
{
	struct nvme_sqe sqe = raw_sqe(admin, NVME_ADMIN_SET_FEATURES, 0);
	struct nvme_cqe cqe;

	sqe.cdw10 = put_le32(NVME_FEAT_ASYNC_EVENT);
	sqe.cdw11 = put_le32(mask);
	assert_int_equal(raw_run(admin, &sqe, NULL, 0, &cqe), NVME_OK);
	sqe = raw_sqe(admin, NVME_ADMIN_ASYNC_EVENT_REQUEST, 0);
	raw_send(admin, &sqe, sizeof(sqe));
}

void raw_expect_event(struct raw_queue *admin, uint32_t event)
{
	struct nvme_cqe cqe;

	assert_true(raw_receive(admin, &cqe, PATIENCE_MS));
	assert_int_equal(get_nvme_status(cqe.status), NVME_OK);
	assert_int_equal(get_le32(cqe.dw0), event);
}
