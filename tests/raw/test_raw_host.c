/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A good host that builds the protocol byte by byte: the specification's worked examples and the
 * kernel's host, against a whole rblkd, without the initiator's code.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "tests/raw/group.h"
#include "tests/raw/host.h"

enum {
	LATE_MS = 20000, /* the delays of a busy machine */
};

static void fill(uint8_t *p, size_t n, unsigned seed)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)(i * 7 + (i >> 9) * 13 + seed);
}

/* ---- the worked bytes ----------------------------------------------------------------------- */

static void connects_with_the_worked_bytes(void **state)
{
	/* REQ of the admin queue: qid 0, 32 receives, 32 entries. */
	static const uint8_t req[32] = {0, 0, 0, 0, 0x20, 0, 0x1f, 0};
	static const uint8_t rep[32] = {0, 0, 0x20, 0};
	uint8_t sqe[64] = {0x7f, 0x40, 0x00, 0x10, 0x01};
	static const uint8_t answer[8] = {0x01, 0, 0, 0, 0, 0x10, 0, 0}; /* SQHD, SQID, CID, OK */
	static const uint8_t tail[] = {0, 0, 0, 0, 0x1f, 0, 0, 0, 0x88, 0x13, 0, 0};
	struct raw_connect c;
	struct raw_queue q;
	struct nvme_cqe cqe;
	le64 address;
	le32 key;

	assert_int_equal(raw_open_bytes(&q, d.port, req, sizeof(req), 16), 0);
	assert_true(q.n_private >= sizeof(rep));
	assert_memory_equal(q.private_data, rep, sizeof(rep));
	raw_connect_init(&c, &q, 0, 31, 0xffff);
	memcpy(q.data, &c.data, sizeof(c.data));
	address = put_le64((uintptr_t)q.data);
	key = put_le32(q.mr->rkey);
	memcpy(sqe + 24, &address, 8);
	memcpy(sqe + 32, "\x00\x04\x00", 3);
	memcpy(sqe + 35, &key, 4);
	sqe[39] = 0x40;
	memcpy(sqe + 40, tail, sizeof(tail));
	raw_send(&q, sqe, sizeof(sqe));
	assert_true(raw_receive(&q, &cqe, 60000));
	assert_memory_equal(&cqe.sqhd, answer, sizeof(answer));
	assert_in_range(get_le32(cqe.dw0), 1, NVMF_CNTLID_MAX); /* no authentication bits */
	assert_int_equal(get_le32(cqe.dw1), 0);
	raw_close(&q);
	daemon_wait_empty(&d);
}

static void answers_an_io_queue_with_its_depth(void **state)
{
	static const uint8_t req[32] = {0, 0, 1, 0, 0x80, 0, 0x7f, 0, 5, 0};
	static const uint8_t rep[32] = {0, 0, 0x80, 0};
	struct raw_queue q;

	assert_int_equal(raw_open_bytes(&q, d.port, req, sizeof(req), 16), 0);
	assert_memory_equal(q.private_data, rep, sizeof(rep));
	raw_close(&q);
	daemon_wait_empty(&d);
}

/* ---- registers ------------------------------------------------------------------------------ */

static void shows_its_registers(void **state)
{
	struct raw_host h;
	uint64_t cap, half, value;

	raw_host_open_admin(&h, d.port, RAW_SUBNQN);
	assert_int_equal(raw_property_get(&h.admin, NVME_PROP_CAP, true, &cap), NVME_OK);
	assert_int_equal(NVME_CAP_MQES(cap), 127);
	assert_true(cap & NVME_CAP_CSS_NVM && cap & NVME_CAP_CQR);
	assert_int_equal(cap >> 48 & 0xff, 0); /* MPSMIN, MPSMAX */
	assert_int_equal(cap >> 43 & 1, 0);    /* no I/O command sets beyond NVM */
	assert_int_equal(raw_property_get(&h.admin, 0, false, &half), NVME_OK);
	assert_int_equal(half, (uint32_t)cap);
	assert_int_equal(raw_property_get(&h.admin, NVME_PROP_VS, false, &value), NVME_OK);
	assert_int_equal(value, NVME_VS_1_4);
	assert_int_equal(raw_property_get(&h.admin, NVME_PROP_CC, false, &value), NVME_OK);
	assert_int_equal(value, NVME_CC_ENABLE_VALUE);
	assert_int_equal(raw_property_get(&h.admin, 0x30, false, &value),
			 NVME_INVALID_FIELD | NVME_DNR);
	assert_int_equal(raw_property_get(&h.admin, NVME_PROP_VS, true, &value),
			 NVME_INVALID_FIELD | NVME_DNR);
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

static void shuts_down_with_a_flush(void **state)
{
	struct raw_host h;

	raw_host_open(&h, d.port);
	assert_int_equal(
		raw_property_set(&h.admin, NVME_PROP_CC, NVME_CC_ENABLE_VALUE | NVME_CC_SHN_NORMAL),
		NVME_OK);
	raw_wait_csts(&h.admin, 3u << 2, NVME_CSTS_SHST_COMPLETE);
	assert_int_equal(raw_io(&h.io, NVME_IO_READ, DAEMON_RAM, 0, 1, 512),
			 NVME_COMMAND_SEQUENCE | NVME_DNR);
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

static void disabling_drops_the_io_queues(void **state)
{
	struct raw_host h;

	raw_host_open(&h, d.port);
	assert_int_equal(raw_property_set(&h.admin, NVME_PROP_CC, 0x00460000), NVME_OK);
	raw_wait_csts(&h.admin, NVME_CSTS_RDY, 0);
	assert_true(raw_is_dropped(&h.io));
	assert_int_equal(daemon_n_connections(&d), 1);
	assert_int_equal(raw_property_set(&h.admin, NVME_PROP_CC, NVME_CC_ENABLE_VALUE), NVME_OK);
	raw_wait_csts(&h.admin, NVME_CSTS_RDY, NVME_CSTS_RDY);
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

/* ---- identify, features, logs ---------------------------------------------------------------- */

static enum nvme_status identify(struct raw_queue *q, unsigned cns, uint32_t nsid)
{
	struct nvme_sqe sqe = raw_sqe(q, NVME_ADMIN_IDENTIFY, nsid);
	struct nvme_cqe cqe;

	memset(q->data, 0xee, 2 * NVME_IDENTIFY_BYTES);
	raw_describe(q, &sqe, 0, NVME_IDENTIFY_BYTES);
	sqe.cdw10 = put_le32(cns);
	return raw_run(q, &sqe, NULL, 0, &cqe);
}

static void identifies_as_hosts_insist(void **state)
{
	const struct nvme_id_ctrl *id;
	struct raw_host h;

	raw_host_open_admin(&h, d.port, RAW_SUBNQN);
	id = (const void *)h.admin.data;
	assert_int_equal(identify(&h.admin, NVME_CNS_CTRL, 0), NVME_OK);
	assert_int_equal(get_le16(id->cntlid), h.cntlid);
	assert_int_not_equal(get_le16(id->vid), 0x8086);
	assert_int_equal(get_le32(id->sgls), 0x00100005);
	assert_int_equal(get_le32(id->ioccsz), 260);
	assert_int_equal(get_le32(id->iorcsz), 1);
	assert_int_equal(get_le16(id->icdoff), 0);
	assert_int_equal(get_le16(id->maxcmd), 128);
	assert_int_not_equal(get_le16(id->kas), 0);
	assert_int_equal(id->mdts, 8);
	assert_int_equal(id->cmic & NVME_CMIC_MULTI_CTRL, NVME_CMIC_MULTI_CTRL);
	assert_int_equal(id->cntrltype, NVME_CNTRLTYPE_IO);
	assert_int_equal(id->sqes, 0x66);
	assert_int_equal(id->cqes, 0x44);
	assert_true(get_le32(id->mnan) && get_le32(id->mnan) <= get_le32(id->nn));
	assert_int_equal(id->vwc & NVME_VWC_FLUSH_ALL, NVME_VWC_FLUSH_ALL);
	assert_string_equal((const char *)id->subnqn, RAW_SUBNQN);
	assert_int_equal((uint8_t)h.admin.data[NVME_IDENTIFY_BYTES], 0xee);
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

static void describes_its_namespaces(void **state)
{
	const struct nvme_id_ns *ns;
	const le32 *list;
	const uint8_t *p;
	struct raw_host h;

	raw_host_open_admin(&h, d.port, RAW_SUBNQN);
	ns = (const void *)h.admin.data;
	list = (const void *)h.admin.data;
	p = (const void *)h.admin.data;
	assert_int_equal(identify(&h.admin, NVME_CNS_NS_LIST, 1), NVME_OK);
	assert_int_equal(get_le32(list[0]), 2);
	assert_int_equal(get_le32(list[1]), 3);
	assert_int_equal(get_le32(list[2]), 4);
	assert_int_equal(get_le32(list[3]), 0);
	assert_int_equal(identify(&h.admin, NVME_CNS_NS_LIST, 0xfffffffe),
			 NVME_INVALID_NSID | NVME_DNR);
	assert_int_equal(identify(&h.admin, NVME_CNS_NS, DAEMON_FILE), NVME_OK);
	assert_int_equal(get_le64(ns->nsze), 4096);
	assert_int_equal(ns->lbaf[0].lbads, 12);
	assert_int_equal(ns->nmic, NVME_NMIC_SHARED);
	assert_int_equal(identify(&h.admin, NVME_CNS_NS, DAEMON_READ_ONLY), NVME_OK);
	assert_int_equal(ns->nsattr & NVME_NSATTR_WRITE_PROTECTED, 1);
	assert_int_equal(identify(&h.admin, NVME_CNS_NS, 77), NVME_OK);
	assert_int_equal(get_le64(ns->nsze), 0);
	assert_int_equal(identify(&h.admin, NVME_CNS_NS, 0), NVME_INVALID_NSID | NVME_DNR);
	assert_int_equal(identify(&h.admin, NVME_CNS_NS, 1025), NVME_INVALID_NSID | NVME_DNR);
	assert_int_equal(identify(&h.admin, NVME_CNS_NS_DESCS, DAEMON_RAM), NVME_OK);
	assert_int_equal(p[0], NVME_NIDT_UUID);
	assert_int_equal(p[20], NVME_NIDT_NGUID);
	assert_int_equal(p[40], 0);
	assert_int_equal(identify(&h.admin, NVME_CNS_NS_DESCS, 77), NVME_INVALID_NSID | NVME_DNR);
	assert_int_equal(identify(&h.admin, NVME_CNS_CSI_CTRL, 0), NVME_OK);
	assert_int_equal(identify(&h.admin, 0x1c, 0), NVME_INVALID_FIELD | NVME_DNR);
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

static enum nvme_status feature(struct raw_queue *q, uint8_t opcode, uint32_t cdw10, uint32_t cdw11,
				uint32_t n_bytes, uint32_t *ret_value)
{
	struct nvme_sqe sqe = raw_sqe(q, opcode, 0);
	struct nvme_cqe cqe;
	enum nvme_status status;

	if (n_bytes)
		raw_describe(q, &sqe, 0, n_bytes);
	sqe.cdw10 = put_le32(cdw10);
	sqe.cdw11 = put_le32(cdw11);
	status = raw_run(q, &sqe, NULL, 0, &cqe);
	*ret_value = get_le32(cqe.dw0);
	return status;
}

static void has_the_features_hosts_use(void **state)
{
	struct raw_host h;
	uint32_t value;

	raw_host_open_admin(&h, d.port, RAW_SUBNQN);
	assert_int_equal(feature(&h.admin, NVME_ADMIN_SET_FEATURES, 7, 0x00030003, 0, &value),
			 NVME_OK);
	assert_int_equal(value, 0x00030003);
	assert_int_equal(feature(&h.admin, NVME_ADMIN_GET_FEATURES, 7, 0, 0, &value), NVME_OK);
	assert_int_equal(value, 0x00030003);
	assert_int_equal(feature(&h.admin, NVME_ADMIN_SET_FEATURES, 7, 0xffff, 0, &value),
			 NVME_INVALID_FIELD | NVME_DNR);
	assert_int_equal(feature(&h.admin, NVME_ADMIN_SET_FEATURES, 0x0b, 0x100, 0, &value),
			 NVME_OK);
	assert_int_equal(feature(&h.admin, NVME_ADMIN_SET_FEATURES, 0x0b, 0x80000000, 0, &value),
			 NVME_INVALID_FIELD | NVME_DNR);
	assert_int_equal(feature(&h.admin, NVME_ADMIN_SET_FEATURES, 0x0f, 7000, 0, &value),
			 NVME_OK);
	assert_int_equal(feature(&h.admin, NVME_ADMIN_GET_FEATURES, 0x0f, 0, 0, &value), NVME_OK);
	assert_int_equal(value, 7000);
	assert_int_equal(feature(&h.admin, NVME_ADMIN_GET_FEATURES, 0x81, 1, 16, &value), NVME_OK);
	assert_memory_equal(h.admin.data, "raw host 16 byte", 16);
	assert_int_equal(feature(&h.admin, NVME_ADMIN_SET_FEATURES, 0x16, 0, 512, &value), NVME_OK);
	assert_int_equal(feature(&h.admin, NVME_ADMIN_GET_FEATURES, 0xd0, 0, 0, &value),
			 NVME_INVALID_FIELD | NVME_DNR);
	assert_int_equal(feature(&h.admin, NVME_ADMIN_SET_FEATURES, 0x80000001, 0, 0, &value),
			 NVME_FEATURE_NOT_SAVEABLE | NVME_DNR);
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

static enum nvme_status get_log(struct raw_queue *q, unsigned id, uint64_t offset, uint32_t n)
{
	struct nvme_sqe sqe = raw_sqe(q, NVME_ADMIN_GET_LOG_PAGE, 0xffffffff);
	struct nvme_cqe cqe;

	memset(q->data, 0xee, n + 64);
	raw_describe(q, &sqe, 0, n);
	sqe.cdw10 = put_le32(id | (n / 4 - 1) << 16);
	sqe.cdw11 = put_le32((n / 4 - 1) >> 16);
	sqe.cdw12 = put_le32((uint32_t)offset);
	sqe.cdw13 = put_le32((uint32_t)(offset >> 32));
	return raw_run(q, &sqe, NULL, 0, &cqe);
}

/* The number of error log entries so far, as SMART counts them. */
static uint64_t n_error_entries(struct raw_host *h)
{
	le64 n;

	assert_int_equal(get_log(&h->admin, NVME_LOG_SMART, 0, 512), NVME_OK);
	memcpy(&n, h->admin.data + offsetof(struct nvme_smart_log, n_error_entries), sizeof(n));
	return get_le64(n);
}

static void gives_log_pages_by_pieces(void **state)
{
	const struct nvme_error_entry *error;
	uint64_t n_errors;
	struct raw_host h;
	const uint8_t *p;

	raw_host_open(&h, d.port);
	p = (const void *)h.admin.data;
	error = (const void *)h.admin.data;
	n_errors = n_error_entries(&h);
	assert_int_equal(raw_io(&h.io, NVME_IO_READ, 99, 0, 1, 512), NVME_INVALID_NSID | NVME_DNR);
	assert_int_equal(get_log(&h.admin, NVME_LOG_ERROR, 0, 64), NVME_OK);
	assert_int_equal(get_le64(error->count), n_errors + 1);
	assert_int_equal(get_le16(error->sqid), 1);
	assert_int_equal(get_nvme_status(error->status), NVME_INVALID_NSID | NVME_DNR);
	assert_int_equal(n_error_entries(&h), n_errors + 1);
	assert_int_equal(get_log(&h.admin, NVME_LOG_SMART, 510 & ~3u, 512), NVME_OK);
	assert_int_equal(p[4], 0);
	assert_int_equal(p[511], 0); /* beyond the page: zero */
	assert_int_equal(p[512], 0xee);
	assert_int_equal(get_log(&h.admin, NVME_LOG_SMART, 516, 512),
			 NVME_INVALID_FIELD | NVME_DNR);
	assert_int_equal(get_log(&h.admin, NVME_LOG_SMART, 2, 512), NVME_INVALID_FIELD | NVME_DNR);
	assert_int_equal(get_log(&h.admin, NVME_LOG_FIRMWARE, 0, 512), NVME_OK);
	assert_int_equal(p[0], 1);
	assert_int_equal(get_log(&h.admin, NVME_LOG_CHANGED_NS, 0, 4096), NVME_OK);
	assert_int_equal(get_log(&h.admin, NVME_LOG_EFFECTS, 0, 4096), NVME_OK);
	assert_int_equal(p[4 * NVME_ADMIN_IDENTIFY], 1);
	assert_int_equal(p[1024 + 4 * NVME_IO_WRITE] & 1, 1);
	assert_int_equal(p[1024 + 4 * NVME_IO_COMPARE], 1);
	assert_int_equal(p[1024 + 4 * 0x79], 0);
	assert_int_equal(get_log(&h.admin, 0x42, 0, 512), NVME_LOG_PAGE_INVALID | NVME_DNR);
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

/* ---- I/O ------------------------------------------------------------------------------------- */

static void writes_in_capsule(struct raw_queue *q, uint32_t nsid, unsigned shift)
{
	struct nvme_sqe sqe = raw_sqe(q, NVME_IO_WRITE, nsid);
	uint8_t data[4096];
	struct nvme_cqe cqe;

	fill(data, sizeof(data), nsid);
	sqe.sgl.block.length = put_le32(sizeof(data));
	memset(&sqe.sgl.block.offset, 0, 8);
	sqe.sgl.block.type = NVME_SGL_DATA_BLOCK_OFFSET;
	sqe.cdw10 = put_le32(8);
	sqe.cdw12 = put_le32((4096u >> shift) - 1);
	assert_int_equal(raw_run(q, &sqe, data, sizeof(data), &cqe), NVME_OK);
	memset(q->data, 0, 4096);
	assert_int_equal(raw_io(q, NVME_IO_READ, nsid, 8, 4096 >> shift, 4096), NVME_OK);
	assert_memory_equal(q->data, data, sizeof(data));
}

static void writes_by_rdma(struct raw_queue *q, uint32_t nsid, unsigned shift, uint32_t n)
{
	uint8_t *copy = malloc(n);

	assert_non_null(copy);
	fill((uint8_t *)q->data, n, n);
	memcpy(copy, q->data, n);
	assert_int_equal(raw_io(q, NVME_IO_WRITE, nsid, 16, n >> shift, n), NVME_OK);
	memset(q->data, 0, n);
	assert_int_equal(raw_io(q, NVME_IO_READ, nsid, 16, n >> shift, n), NVME_OK);
	assert_memory_equal(q->data, copy, n);
	free(copy);
}

static void reads_what_it_wrote(void **state)
{
	struct raw_host h;

	raw_host_open(&h, d.port);
	writes_in_capsule(&h.io, DAEMON_RAM, 9);
	writes_in_capsule(&h.io, DAEMON_FILE, 12);
	for (uint32_t n = 4096; n <= 1024 * 1024; n *= 4) {
		writes_by_rdma(&h.io, DAEMON_RAM, 9, n);
		writes_by_rdma(&h.io, DAEMON_FILE, 12, n);
	}
	writes_by_rdma(&h.io, DAEMON_RAM, 9, 512);
	assert_int_equal(raw_io(&h.io, NVME_IO_FLUSH, DAEMON_FILE, 0, 1, 0), NVME_OK);
	assert_int_equal(raw_io(&h.io, NVME_IO_FLUSH, NVME_NSID_ALL, 0, 1, 0), NVME_OK);
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

static void zeroes_and_deallocates(struct raw_queue *q, uint32_t nsid, unsigned shift)
{
	static const uint8_t zeroes[8192];
	struct nvme_dsm_range ranges[2] = {{.slba = put_le64(16), .nlb = put_le32(4096u >> shift)},
					   {.nlb = put_le32(0)}};
	struct nvme_sqe sqe = raw_sqe(q, NVME_IO_DSM, nsid);
	struct nvme_cqe cqe;

	writes_by_rdma(q, nsid, shift, 16384);
	assert_int_equal(raw_io(q, NVME_IO_WRITE_ZEROES, nsid, 16, 8192 >> shift, 0), NVME_OK);
	assert_int_equal(raw_io(q, NVME_IO_READ, nsid, 16, 8192 >> shift, 8192), NVME_OK);
	assert_memory_equal(q->data, zeroes, sizeof(zeroes));
	memcpy(q->data, ranges, sizeof(ranges));
	raw_describe(q, &sqe, 0, 4096); /* as Linux does: more than the ranges */
	sqe.cdw10 = put_le32(1);
	sqe.cdw11 = put_le32(NVME_DSM_AD);
	assert_int_equal(raw_run(q, &sqe, NULL, 0, &cqe), NVME_OK);
	ranges[1] = (struct nvme_dsm_range){.slba = put_le64(UINT64_MAX), .nlb = put_le32(2)};
	memcpy(q->data, ranges, sizeof(ranges));
	sqe.cid = put_le16(q->next_cid++);
	assert_int_equal(raw_run(q, &sqe, NULL, 0, &cqe), NVME_LBA_OUT_OF_RANGE | NVME_DNR);
}

static void clears_blocks(void **state)
{
	struct raw_host h;

	raw_host_open(&h, d.port);
	zeroes_and_deallocates(&h.io, DAEMON_RAM, 9);
	zeroes_and_deallocates(&h.io, DAEMON_FILE, 12);
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

/* One command after the other until all identifiers have been used twice. */
static void counts_its_queue_head(void **state)
{
	struct nvme_cqe cqe;
	struct raw_host h;

	raw_host_open(&h, d.port);
	for (unsigned i = 1; i < 100; i++) { /* Connect was the first */
		struct nvme_sqe sqe = raw_sqe(&h.io, NVME_IO_FLUSH, DAEMON_RAM);

		assert_int_equal(raw_run(&h.io, &sqe, NULL, 0, &cqe), NVME_OK);
		assert_int_equal(get_le16(cqe.sqhd), (i + 1) % 32);
		assert_int_equal(get_le16(cqe.sqid), 1);
		assert_int_equal(get_le64(cqe.result), 0);
	}
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

/* The key of a window, with 4Fh: the response invalidates it, whatever the status. */
static void expect_invalidate(struct raw_queue *q, struct ibv_mw *mw, uint8_t opcode, uint64_t slba,
			      enum nvme_status status)
{
	struct nvme_sqe sqe = raw_sqe(q, opcode, DAEMON_FILE);
	struct nvme_cqe cqe;

	assert_true(raw_bind_window(q, mw, 0, 4096));
	raw_describe(q, &sqe, 0, 4096);
	sqe.sgl.keyed.key = put_le32(mw->rkey);
	sqe.sgl.keyed.type = NVME_SGL_KEYED_INVALIDATE;
	sqe.cdw10 = put_le32((uint32_t)slba);
	assert_int_equal(raw_run(q, &sqe, NULL, 0, &cqe), status);
	assert_int_equal(q->invalidated_rkey, mw->rkey);
}

static void invalidates_keys_when_asked(void **state)
{
	struct raw_host h;
	struct ibv_mw *mw;

	raw_host_open(&h, d.port);
	mw = ibv_alloc_mw(h.io.pd, IBV_MW_TYPE_2);
	if (!mw) { /* siw has none, so no host can ask */
		assert_int_equal(h.io.id->verbs->device->transport_type, IBV_TRANSPORT_IWARP);
		raw_host_close(&h);
		return;
	}
	expect_invalidate(&h.io, mw, NVME_IO_WRITE, 0, NVME_OK);
	expect_invalidate(&h.io, mw, NVME_IO_READ, 0, NVME_OK);
	expect_invalidate(&h.io, mw, NVME_IO_READ, 4096, NVME_LBA_OUT_OF_RANGE | NVME_DNR);
	assert_int_equal(raw_io(&h.io, NVME_IO_READ, DAEMON_FILE, 0, 1, 4096), NVME_OK);
	assert_int_equal(h.io.invalidated_rkey, 0);
	ibv_dealloc_mw(mw);
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

/* ---- discovery ------------------------------------------------------------------------------- */

static void discovers_what_it_may_use(void **state)
{
	const struct nvmf_discovery_header *header;
	const struct nvmf_discovery_entry *entry;
	const struct nvme_id_ctrl *id;
	struct raw_host h;
	uint32_t value;

	raw_host_open_admin(&h, d.port, NVMF_DISCOVERY_NQN);
	header = (const void *)h.admin.data;
	entry = (const void *)(h.admin.data + 1024);
	id = (const void *)h.admin.data;
	assert_int_equal(identify(&h.admin, NVME_CNS_CTRL, 0), NVME_OK);
	assert_int_equal(id->cntrltype, NVME_CNTRLTYPE_DISCOVERY);
	assert_int_equal(get_le32(id->oaes), 0x80000000);
	assert_int_equal(get_log(&h.admin, NVME_LOG_DISCOVERY, 0, 4096), NVME_OK);
	assert_int_equal(get_le64(header->numrec), 1); /* not the other host's subsystem */
	assert_int_equal(entry->trtype, NVMF_TRTYPE_RDMA);
	assert_string_equal((const char *)entry->subnqn, RAW_SUBNQN);
	assert_string_equal((const char *)entry->traddr, "127.0.0.1");
	assert_int_equal(atoi((const char *)entry->trsvcid), d.port);
	assert_int_equal((uint8_t)h.admin.data[2048], 0);
	assert_int_equal(get_log(&h.admin, NVME_LOG_DISCOVERY, 1024 + 256, 256), NVME_OK);
	assert_string_equal(h.admin.data, RAW_SUBNQN);
	assert_int_equal(get_log(&h.admin, NVME_LOG_SMART, 0, 512),
			 NVME_LOG_PAGE_INVALID | NVME_DNR);
	assert_int_equal(feature(&h.admin, NVME_ADMIN_SET_FEATURES, 0x0b, 0x80000000, 0, &value),
			 NVME_OK);
	assert_int_equal(feature(&h.admin, NVME_ADMIN_SET_FEATURES, 7, 0, 0, &value),
			 NVME_INVALID_FIELD | NVME_DNR);
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

/* ---- leaving --------------------------------------------------------------------------------- */

static void holds_event_requests_until_the_end(void **state)
{
	struct raw_host h;
	struct nvme_cqe cqe;

	raw_host_open_admin(&h, d.port, RAW_SUBNQN);
	for (unsigned i = 0; i < 4; i++) {
		struct nvme_sqe sqe = raw_sqe(&h.admin, NVME_ADMIN_ASYNC_EVENT_REQUEST, 0);

		raw_send(&h.admin, &sqe, sizeof(sqe));
	}
	assert_false(raw_receive(&h.admin, &cqe, 100));
	{
		struct nvme_sqe sqe = raw_sqe(&h.admin, NVME_ADMIN_ASYNC_EVENT_REQUEST, 0);

		assert_int_equal(raw_run(&h.admin, &sqe, NULL, 0, &cqe), NVME_AER_LIMIT | NVME_DNR);
	}
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

static void silence_ends_the_association(void **state)
{
	struct raw_connect c;
	struct raw_host h = {0};
	struct nvme_cqe cqe;
	uint64_t start_ns, ms;

	assert_int_equal(raw_open(&h.admin, d.port, 0, 32), 0);
	raw_connect_init(&c, &h.admin, 0, 31, NVMF_CNTLID_DYNAMIC);
	c.cmd.kato = put_le32(1000);
	start_ns = clock_ns();
	assert_int_equal(raw_connect(&h.admin, &c, &cqe), NVME_OK);
	assert_true(raw_is_dropped(&h.admin));
	ms = (clock_ns() - start_ns) / NSEC_PER_MSEC;
	assert_in_range(ms, 1000, 1000 + LATE_MS);
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(connects_with_the_worked_bytes),
		cmocka_unit_test(answers_an_io_queue_with_its_depth),
		cmocka_unit_test(shows_its_registers),
		cmocka_unit_test(shuts_down_with_a_flush),
		cmocka_unit_test(disabling_drops_the_io_queues),
		cmocka_unit_test(identifies_as_hosts_insist),
		cmocka_unit_test(describes_its_namespaces),
		cmocka_unit_test(has_the_features_hosts_use),
		cmocka_unit_test(gives_log_pages_by_pieces),
		cmocka_unit_test(reads_what_it_wrote),
		cmocka_unit_test(clears_blocks),
		cmocka_unit_test(counts_its_queue_head),
		cmocka_unit_test(invalidates_keys_when_asked),
		cmocka_unit_test(discovers_what_it_may_use),
		cmocka_unit_test(holds_event_requests_until_the_end),
		cmocka_unit_test(silence_ends_the_association),
	};

	return cmocka_run_group_tests_name("raw_host", tests, start, stop);
}
