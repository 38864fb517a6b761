/* SPDX-License-Identifier: BSD-3-Clause */
/* Identify data and discovery log as hostile controllers could send them. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "initiator/control/ana_walk.h"
#include "initiator/control/discovery_log.h"
#include "initiator/control/ana_log.h"
#include "initiator/control/identify.h"
#include "initiator/control/lba_status.h"
#include "initiator/control/proof_log.h"

#define NQN "nqn.2026-01.test:s"

static struct nvme_id_ctrl good_controller(void)
{
	struct nvme_id_ctrl id = {
		.mdts = 5,
		.cntlid = put_le16(3),
		.ver = put_le32(0x10400),
		.kas = put_le16(10),
		.cntrltype = NVME_CNTRLTYPE_IO,
		.maxcmd = put_le16(128),
		.oncs = put_le16(NVME_ONCS_DSM | NVME_ONCS_WRITE_ZEROES),
		.vwc = NVME_VWC_PRESENT,
		.sgls = put_le32(0x00100005),
		.ioccsz = put_le32(260),
		.iorcsz = put_le32(1),
	};

	memcpy(id.sn, "SN 1                ", 20);
	memcpy(id.mn, "model\x1b[31m", 10);
	memset(id.fr, 'x', 8);
	memcpy(id.subnqn, NQN, sizeof(NQN));
	return id;
}

static void test_controller(void **state)
{
	struct nvme_id_ctrl id = good_controller();
	struct identify_controller c;

	assert_null(identify_parse_controller(&id, true, NQN, &c));
	assert_int_equal(c.cntlid, 3);
	assert_int_equal(c.max_transfer_bytes, 128 * 1024);
	assert_int_equal(c.in_capsule_bytes, 4096);
	assert_int_equal(c.max_commands, 128);
	assert_true(c.has_keep_alive && c.has_volatile_cache);
	assert_true(c.has_trim && c.has_write_zeroes);
	assert_string_equal(c.serial, "SN 1");
	assert_string_equal(c.model, "model?[31m");
	assert_string_equal(c.firmware, "xxxxxxxx");
}

static void test_compare_and_write(void **state)
{
	struct nvme_id_ctrl id = good_controller();
	struct nvme_id_ns space = {.nsze = put_le64(1000)};
	struct identify_controller c;
	struct identify_namespace ns;

	space.lbaf[0].lbads = 9;
	id.acwu = put_le16(7);
	space.nacwu = put_le16(0xffff);
	assert_null(identify_parse_controller(&id, true, NQN, &c));
	assert_null(identify_parse_namespace(&space, &ns));
	assert_int_equal(c.max_compare_blocks, 0); /* without FUSES, ACWU says nothing */
	assert_int_equal(ns.max_compare_blocks, 0);
	id.fuses = put_le16(NVME_FUSES_COMPARE_WRITE);
	space.nsfeat = NVME_NSFEAT_ATOMICS;
	assert_null(identify_parse_controller(&id, true, NQN, &c));
	assert_null(identify_parse_namespace(&space, &ns));
	assert_int_equal(c.max_compare_blocks, 8);
	assert_int_equal(ns.max_compare_blocks, 65536);
	space.nacwu = put_le16(0);
	assert_null(identify_parse_namespace(&space, &ns));
	assert_int_equal(ns.max_compare_blocks, 0); /* as ACWU */
}

static void test_transfer_size(void **state)
{
	struct nvme_id_ctrl id = good_controller();
	struct identify_controller c;

	for (unsigned mdts = 0; mdts < 256; mdts++) {
		uint64_t want = mdts && mdts < 8 ? 4096ull << mdts : IDENTIFY_TRANSFER_MAX;

		id.mdts = (uint8_t)mdts;
		assert_null(identify_parse_controller(&id, true, NQN, &c));
		assert_int_equal(c.max_transfer_bytes, want);
	}
}

static void test_capsule_size(void **state)
{
	struct nvme_id_ctrl id = good_controller();
	struct identify_controller c;

	id.ioccsz = put_le32(4);
	assert_null(identify_parse_controller(&id, true, NQN, &c));
	assert_int_equal(c.in_capsule_bytes, 0);
	id.ioccsz = put_le32(0xffffffff);
	assert_null(identify_parse_controller(&id, true, NQN, &c));
	assert_int_equal(c.in_capsule_bytes, IDENTIFY_TRANSFER_MAX);
	id.sgls = put_le32(0x00000005); /* no in-capsule offsets: no data in capsules */
	assert_null(identify_parse_controller(&id, true, NQN, &c));
	assert_int_equal(c.in_capsule_bytes, 0);
	id.ioccsz = put_le32(3);
	assert_non_null(identify_parse_controller(&id, true, NQN, &c));
}

static void test_refused_controllers(void **state)
{
	struct nvme_id_ctrl id;
	struct identify_controller c;

	id = good_controller();
	id.icdoff = put_le16(1);
	assert_non_null(identify_parse_controller(&id, true, NQN, &c));
	id = good_controller();
	id.sgls = put_le32(0x00100001);
	assert_non_null(identify_parse_controller(&id, true, NQN, &c));
	id = good_controller();
	id.cntrltype = NVME_CNTRLTYPE_DISCOVERY;
	assert_non_null(identify_parse_controller(&id, true, NQN, &c));
	assert_null(identify_parse_controller(&id, false, NQN, &c));
	id = good_controller();
	memset(id.subnqn, 'a', sizeof(id.subnqn)); /* without an end */
	assert_non_null(identify_parse_controller(&id, true, NQN, &c));
	assert_non_null(identify_parse_controller(&id, true, "nqn.2026-01.test:other", &c));
}

static struct nvme_id_ns good_namespace(void)
{
	struct nvme_id_ns id = {
		.nsze = put_le64(1000),
		.nlbaf = 1,
		.flbas = 1,
		.dlfeat = 9,
	};

	id.lbaf[0].lbads = 9;
	id.lbaf[1].lbads = 12;
	return id;
}

static void test_namespace(void **state)
{
	struct nvme_id_ns id = good_namespace();
	struct identify_namespace ns;

	assert_null(identify_parse_namespace(&id, &ns));
	assert_int_equal(ns.n_blocks, 1000);
	assert_int_equal(ns.block_shift, 12);
	assert_true(ns.reads_zero_after_trim && ns.can_unmap_zeroes && !ns.is_read_only);
	id.dlfeat = 8; /* deallocated blocks need not read zero */
	id.nsattr = NVME_NSATTR_WRITE_PROTECTED;
	assert_null(identify_parse_namespace(&id, &ns));
	assert_true(!ns.reads_zero_after_trim && !ns.can_unmap_zeroes && ns.is_read_only);
	id.nsze = put_le64(0);
	assert_null(identify_parse_namespace(&id, &ns));
	assert_int_equal(ns.n_blocks, 0);
}

static void test_refused_namespaces(void **state)
{
	struct nvme_id_ns id = good_namespace();
	struct identify_namespace ns;

	id.flbas = 2; /* beyond nlbaf */
	assert_non_null(identify_parse_namespace(&id, &ns));
	id.nlbaf = 255;
	id.flbas = 0x6f;				     /* the last of 64 */
	assert_non_null(identify_parse_namespace(&id, &ns)); /* its lbads is 0 */
	id.lbaf[63].lbads = 9;
	assert_null(identify_parse_namespace(&id, &ns));
	id = good_namespace();
	for (unsigned lbads = 0; lbads < 256; lbads++) {
		id.lbaf[1].lbads = (uint8_t)lbads;
		if (lbads >= 9 && lbads <= 12)
			assert_null(identify_parse_namespace(&id, &ns));
		else
			assert_non_null(identify_parse_namespace(&id, &ns));
	}
	id = good_namespace();
	id.lbaf[1].ms = put_le16(8);
	assert_non_null(identify_parse_namespace(&id, &ns));
	id = good_namespace();
	id.nsze = put_le64((uint64_t)INT64_MAX >> 12);
	assert_null(identify_parse_namespace(&id, &ns));
	id.nsze = put_le64(((uint64_t)INT64_MAX >> 12) + 1);
	assert_non_null(identify_parse_namespace(&id, &ns));
}

static void test_ids(void **state)
{
	uint8_t data[4096] = {0};
	struct identify_ids ids;

	data[0] = NVME_NIDT_NGUID;
	data[1] = 16;
	memset(data + 4, 0x11, 16);
	data[20] = 77; /* unknown type: skipped */
	data[21] = 3;
	data[27] = NVME_NIDT_UUID;
	data[28] = 16;
	memset(data + 31, 0x22, 16);
	data[47] = NVME_NIDT_EUI64;
	data[48] = 4; /* wrong length */
	identify_parse_ids(data, &ids);
	assert_int_equal(ids.nguid[0], 0x11);
	assert_int_equal(ids.uuid[15], 0x22);
	assert_int_equal(ids.eui64[0], 0);
}

/* Lists that run past their end, in a buffer whose end the sanitizer guards. */
static void test_long_ids(void **state)
{
	uint8_t *data = malloc(4096);
	struct identify_ids ids;

	for (unsigned length = 1; length < 256; length++) {
		memset(data, (int)length, 4096);
		identify_parse_ids(data, &ids);
	}
	memset(data, 1, 4096);
	data[4095] = 255;
	identify_parse_ids(data, &ids);
	free(data);
}

static void test_matching(void **state)
{
	struct identify_ids a = {.uuid = {1}}, b = {.uuid = {1}}, none = {0};

	assert_true(identify_ids_match(&a, &b));
	b.nguid[3] = 9; /* only one of them has an NGUID */
	assert_true(identify_ids_match(&a, &b));
	b.uuid[0] = 2;
	assert_false(identify_ids_match(&a, &b));
	assert_true(identify_ids_match(&a, &none));
	assert_true(identify_ids_are_empty(&none));
	assert_false(identify_ids_are_empty(&a));
}

static void test_limits(void **state)
{
	struct nvme_id_ctrl_nvm id = {
		.wzsl = 3, .dmrsl = put_le32(77), .aocs = put_le16(NVME_AOCS_ALLOCATED_BLOCKS)};
	struct identify_limits limits;

	identify_parse_limits(&id, &limits);
	assert_int_equal(limits.max_zero_bytes, 32768);
	assert_int_equal(limits.max_trim_blocks, 77);
	assert_true(limits.reports_allocated);
	id.wzsl = 255; /* too large for a shift */
	identify_parse_limits(&id, &limits);
	assert_int_equal(limits.max_zero_bytes, 0);
}

static unsigned read_status(const struct nvme_lba_status_desc *descs, uint32_t n_told,
			    unsigned condition, struct volume_run runs[VOLUME_RUNS_MAX])
{
	static _Alignas(8) uint8_t page[ADMIN_DATA_BYTES];
	struct nvme_lba_status *status = (struct nvme_lba_status *)(void *)page;
	unsigned n = MIN(n_told, 4u);

	memset(page, 0, sizeof(page));
	status->nlsd = put_le32(n_told);
	status->cmpc = (uint8_t)condition;
	memcpy(page + sizeof(*status), descs, n * sizeof(*descs));
	return lba_status_read(page, 100, 50, runs, VOLUME_RUNS_MAX);
}

#define DESC(slba, n)                                                                              \
	{                                                                                          \
		.dslba = put_le64(slba), .nlb = put_le32(n), .status = NVME_LBARS_ALLOCATED        \
	}

/* A target's answers on blocks 100 to 149, and what is believed. */
static void test_lba_status(void **state)
{
	enum {
		NOTHING = 0,
		MORE = NVME_LBA_STATUS_INCOMPLETE,
		ALL = NVME_LBA_STATUS_COMPLETE,
	};
	const struct {
		struct nvme_lba_status_desc descs[3];
		uint32_t n;
		unsigned condition;
		struct volume_run runs[VOLUME_RUNS_MAX];
	} cases[] = {
		{{}, 0, ALL, {{50, true}}},
		{{}, 0, MORE, {{50, false}}}, /* nothing is known */
		{{}, 0, NOTHING, {{50, false}}},
		{{DESC(100, 50)}, 1, ALL, {{50, false}}},
		{{DESC(110, 5)},
		 1,
		 ALL,
		 {{10, true}, {5, false}}}, /* as many as there is room for */
		{{DESC(100, 5)}, 1, ALL, {{5, false}, {45, true}}},
		{{DESC(100, 5)}, 1, MORE, {{5, false}}},
		{{DESC(100, 5)}, 1, 77, {{5, false}}},
		{{DESC(100, 5), DESC(105, 5)}, 2, ALL, {{10, false}, {40, true}}},
		/* beyond the range, on either side */
		{{DESC(90, 15), DESC(140, 1000)}, 2, ALL, {{5, false}, {35, true}}},
		{{DESC(0, 1000)}, 1, MORE, {{50, false}}},
		{{DESC(0, 10)}, 1, ALL, {{50, true}}},
		{{DESC(500, 10)}, 1, ALL, {{50, true}}},
		/* contradictions */
		{{DESC(120, 5), DESC(110, 5)}, 2, ALL, {{50, false}}},
		{{DESC(120, 5), DESC(124, 5)}, 2, ALL, {{50, false}}},
		{{DESC(120, 0)}, 1, ALL, {{50, false}}},
		{{DESC(UINT64_MAX, 5)}, 1, ALL, {{50, false}}},
		{{DESC(100, 5)}, 100000, ALL, {{50, false}}}, /* more than an answer holds */
		{{DESC(100, 5)}, UINT32_MAX, ALL, {{50, false}}},
	};
	struct volume_run runs[VOLUME_RUNS_MAX];

	for (unsigned i = 0; i < ARRAY_LEN(cases); i++) {
		unsigned n = cases[i].runs[1].length ? 2 : 1;

		assert_int_equal(read_status(cases[i].descs, cases[i].n, cases[i].condition, runs),
				 n);
		for (unsigned k = 0; k < n; k++) {
			assert_int_equal(runs[k].length, cases[i].runs[k].length);
			assert_int_equal(runs[k].is_hole, cases[i].runs[k].is_hole);
		}
	}
}

static void test_lists(void **state)
{
	uint8_t data[4096] = {0};
	char text[128];
	le32 n;

	assert_string_equal(identify_format_list(data, text, sizeof(text)), "none");
	for (unsigned i = 0; i < 3; i++) {
		n = put_le32(i * i + 1);
		memcpy(data + 4 * i, &n, 4);
	}
	assert_string_equal(identify_format_list(data, text, sizeof(text)), "1, 2, 5");
	assert_true(identify_list_has(data, 5));
	assert_false(identify_list_has(data, 6));
	memset(data, 0xff, sizeof(data));
	assert_true(identify_list_has(data, 6)); /* overflow: any namespace may have changed */
	identify_format_list(data, text, sizeof(text));
	assert_non_null(strstr(text, "..."));
	for (size_t i = 25; i < sizeof(text); i++)
		assert_true(strlen(identify_format_list(data, text, i)) < i);
}

static size_t put_group(uint8_t *page, size_t at, uint32_t id, uint32_t n_nsids, uint8_t ana_state)
{
	struct nvme_ana_group group = {
		.grpid = put_le32(id), .nnsids = put_le32(n_nsids), .state = ana_state};

	memcpy(page + at, &group, sizeof(group));
	return at + sizeof(group) + 4 * (size_t)n_nsids;
}

static enum ana_walk walk(uint32_t group, const uint8_t *page, size_t n,
			  struct ana_cursor *ret_cursor)
{
	*ret_cursor = (struct ana_cursor){.group = group};
	return ana_log_walk(ret_cursor, page, n);
}

static void test_ana_log(void **state)
{
	uint8_t page[4096] = {0};
	struct ana_cursor cursor;
	size_t at = put_group(page, 16, 1, 0, NVME_ANA_STATE_OPTIMIZED);

	page[8] = 3; /* groups */
	at = put_group(page, at, 5, 2, 0xf0 | NVME_ANA_STATE_INACCESSIBLE);
	at = put_group(page, at, 9, 0, 7); /* there is no such state */
	assert_int_equal(walk(1, page, sizeof(page), &cursor), ANA_WALK_FOUND);
	assert_int_equal(cursor.state, NVME_ANA_STATE_OPTIMIZED);
	assert_int_equal(walk(5, page, sizeof(page), &cursor), ANA_WALK_FOUND);
	assert_int_equal(cursor.state, NVME_ANA_STATE_INACCESSIBLE);
	assert_int_equal(walk(9, page, sizeof(page), &cursor), ANA_WALK_FOUND);
	assert_int_equal(cursor.state, 0);
	assert_int_equal(walk(2, page, sizeof(page), &cursor), ANA_WALK_END);
	/* In pieces, split at each possible place. */
	for (size_t n = 64; n <= at; n += 4) {
		enum ana_walk first = walk(9, page, n, &cursor);

		while (first == ANA_WALK_MORE)
			first = ana_log_walk(&cursor, page + cursor.at, 64);
		assert_int_equal(first, ANA_WALK_FOUND);
	}
	/* More groups than the target has, and one whose NSIDs never end. */
	page[8] = page[9] = 0xff;
	assert_int_equal(walk(2, page, sizeof(page), &cursor), ANA_WALK_MORE);
	assert_in_range(cursor.at, 4096 - 32, 4096);
	put_group(page, 16, 1, UINT32_MAX, NVME_ANA_STATE_OPTIMIZED);
	assert_int_equal(walk(5, page, sizeof(page), &cursor), ANA_WALK_MORE);
	assert_int_equal(cursor.at, 48 + 4 * (uint64_t)UINT32_MAX);
	assert_int_equal(cursor.n_left, 0xfffe);
}

/* Log page 1Eh: only the entry of this very controller counts. */
static void test_resets_log(void **state)
{
	static const enum proof_word words[] = {PROOF_UNDER_WAY, PROOF_OVER, PROOF_REFUSED,
						PROOF_REFUSED};
	uint8_t page[4096] = {[0] = 2, [8] = 4, [10] = 9, [14] = 1, [16] = 5, [18] = 9};

	for (unsigned i = 0; i < 4; i++) {
		page[22] = (uint8_t)i;
		assert_int_equal(proof_log_find(page, sizeof(page), 5, 9), words[i]);
	}
	assert_int_equal(proof_log_find(page, sizeof(page), 4, 9), PROOF_OVER);
	assert_int_equal(proof_log_find(page, sizeof(page), 4, 8), PROOF_LATER);
	assert_int_equal(proof_log_find(page, sizeof(page), 6, 9), PROOF_LATER);
	page[0] = 1; /* the second entry is beyond the end */
	assert_int_equal(proof_log_find(page, sizeof(page), 5, 9), PROOF_LATER);
	page[0] = page[1] = 0xff;
	assert_int_equal(proof_log_find(page, sizeof(page), 77, 9), PROOF_LATER);
	for (size_t n = 0; n < 24; n++)
		assert_int_equal(proof_log_find(page, n, 5, 9), PROOF_LATER);
}

static void test_discovery_entry(void **state)
{
	struct nvmf_discovery_entry entry = {.trtype = 1, .adrfam = 2, .subtype = 2};
	struct discover_record record;

	memcpy(entry.subnqn, NQN, sizeof(NQN));
	memset(entry.traddr, ' ', sizeof(entry.traddr));
	memcpy(entry.traddr, "fe80::1", 7);
	memset(entry.trsvcid, '4', sizeof(entry.trsvcid)); /* no end: 32 digits */
	assert_int_equal(discovery_parse_entry(&entry, &record), 0);
	assert_string_equal(record.subnqn, NQN);
	assert_string_equal(record.traddr, "fe80::1");
	assert_int_equal(strlen(record.trsvcid), 32);
	entry.subnqn[3] = 0x1b;
	assert_int_equal(discovery_parse_entry(&entry, &record), -EPROTO);
	memset(entry.subnqn, 'a', sizeof(entry.subnqn));
	assert_int_equal(discovery_parse_entry(&entry, &record), -EPROTO);
}

static bool is_portal(unsigned family, const char *traddr, const char *trsvcid)
{
	struct discover_record record = {.subtype = 2, .transport = 1, .address_family = family};
	union addr address;
	bool is_one;

	strcpy(record.subnqn, NQN);
	strcpy(record.traddr, traddr);
	strcpy(record.trsvcid, trsvcid);
	is_one = discovery_portal(&record, NQN, &address);
	assert_false(discovery_portal(&record, "nqn.2026-01.test:t", &address));
	assert_false(discovery_referral(&record, &address));
	record.subtype = 1;
	assert_false(discovery_portal(&record, NQN, &address));
	assert_int_equal(discovery_referral(&record, &address), is_one);
	record.transport = 3;
	assert_false(discovery_referral(&record, &address));
	return is_one;
}

/* No name, not even one of hexadecimal digits, is ever looked up. */
static void test_discovery_address(void **state)
{
	assert_true(is_portal(1, "192.0.2.1", "4420"));
	assert_true(is_portal(1, "192.0.2.1", ""));
	assert_true(is_portal(2, "2001:db8::1", "65535"));
	assert_false(is_portal(1, "192.0.2.1", "0"));
	assert_false(is_portal(1, "192.0.2.1", "65536"));
	assert_false(is_portal(1, "192.0.2.1", "4420]"));
	assert_false(is_portal(1, "0.0.0.0", "4420"));
	assert_false(is_portal(1, "beef", "4420"));
	assert_false(is_portal(1, "2001:db8::1", "4420"));
	assert_false(is_portal(2, "192.0.2.1", "4420"));
	assert_false(is_portal(2, "::", "4420"));
	assert_false(is_portal(2, "fe80::1", "4420"));
	assert_false(is_portal(3, "192.0.2.1", "4420"));
}

static void test_discovery_header(void **state)
{
	struct nvmf_discovery_header header = {.genctr = put_le64(9), .numrec = put_le64(3)};
	uint64_t genctr;
	unsigned n;

	assert_int_equal(discovery_parse_header(&header, &genctr, &n), 0);
	assert_int_equal(genctr, 9);
	assert_int_equal(n, 3);
	header.numrec = put_le64(UINT64_MAX);
	assert_int_equal(discovery_parse_header(&header, &genctr, &n), 0);
	assert_int_equal(n, DISCOVER_RECORDS_MAX);
	header.recfmt = put_le16(1);
	assert_int_equal(discovery_parse_header(&header, &genctr, &n), -EPROTO);
}

/* For any bytes, the parsers return, and their results are usable. */
static void test_random(void **state)
{
	uint8_t *data = malloc(4096);
	struct identify_controller c;
	struct identify_namespace ns;
	struct identify_ids ids;
	struct identify_limits limits;
	struct discover_record record;
	char text[64];

	srand(1);
	for (unsigned round = 0; round < 2000; round++) {
		for (unsigned i = 0; i < 4096; i++)
			data[i] = (uint8_t)(rand() >> 5);
		identify_parse_controller(data, round % 2, NQN, &c);
		if (!identify_parse_namespace(data, &ns) && ns.n_blocks)
			assert_true(ns.block_shift >= 9 && ns.block_shift <= 12);
		identify_parse_ids(data, &ids);
		identify_parse_limits(data, &limits);
		identify_format_list(data, text, sizeof(text));
		discovery_parse_entry(data, &record);
	}
	free(data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_controller),
		cmocka_unit_test(test_compare_and_write),
		cmocka_unit_test(test_transfer_size),
		cmocka_unit_test(test_capsule_size),
		cmocka_unit_test(test_refused_controllers),
		cmocka_unit_test(test_namespace),
		cmocka_unit_test(test_refused_namespaces),
		cmocka_unit_test(test_ids),
		cmocka_unit_test(test_long_ids),
		cmocka_unit_test(test_matching),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_lba_status),
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_ana_log),
		cmocka_unit_test(test_resets_log),
		cmocka_unit_test(test_discovery_entry),
		cmocka_unit_test(test_discovery_address),
		cmocka_unit_test(test_discovery_header),
		cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
