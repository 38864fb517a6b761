/* SPDX-License-Identifier: BSD-3-Clause */
/* Bytes from a peer: SGL descriptors, CM private data, NQNs. Rules R1 and R3; table 1b of CVEs. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/bits.h"
#include "transport/capsule.h"
#include "transport/wire/strings.h"

static struct nvme_sgl keyed(uint8_t type, uint64_t address, uint32_t length, uint32_t key)
{
	return (struct nvme_sgl){.keyed = {.address = put_le64(address),
					   .length = put_le24(length),
					   .key = put_le32(key),
					   .type = type}};
}

static struct nvme_sgl in_capsule(uint64_t offset, uint32_t length)
{
	return (struct nvme_sgl){.block = {.offset = put_le64(offset),
					   .length = put_le32(length),
					   .type = NVME_SGL_DATA_BLOCK_OFFSET}};
}

static void keyed_descriptor(void **state)
{
	struct nvme_sgl sgl = keyed(0x40, 0x123456789abcdef0, 0xfffffe, 0xdeadbeef);
	struct sgl_data data;

	assert_int_equal(sgl_parse(&sgl, 64, &data), NVME_OK);
	assert_int_equal(data.place, SGL_HOST);
	assert_int_equal(data.address, 0x123456789abcdef0);
	assert_int_equal(data.length, 0xfffffe);
	assert_int_equal(data.key, 0xdeadbeef);
	assert_false(data.wants_invalidate);
}

static void keyed_with_invalidate(void **state)
{
	struct nvme_sgl sgl = keyed(0x4f, 1, 4096, 7);
	struct sgl_data data;

	assert_int_equal(sgl_parse(&sgl, 64, &data), NVME_OK);
	assert_true(data.wants_invalidate);
	/* A command without data registered nothing, so it must not invalidate a key. */
	sgl = keyed(0x4f, 1, 0, 7);
	assert_int_equal(sgl_parse(&sgl, 64, &data), NVME_OK);
	assert_int_equal(data.place, SGL_NONE);
	assert_false(data.wants_invalidate);
}

static void in_capsule_within_what_was_received(void **state)
{
	struct nvme_sgl sgl = in_capsule(0, 1024);
	struct sgl_data data;

	assert_int_equal(sgl_parse(&sgl, 64 + 1024, &data), NVME_OK);
	assert_int_equal(data.place, SGL_CAPSULE);
	assert_int_equal(data.length, 1024);
	/* The receive buffer may be larger, but its tail is another command's data. */
	assert_int_equal(sgl_parse(&sgl, 64 + 1023, &data), NVME_SGL_LENGTH_INVALID | NVME_DNR);
}

/* CVE-2026-72129: an accepted offset that made a length underflow. */
static void in_capsule_offset_does_not_wrap(void **state)
{
	const uint64_t offsets[] = {1025, UINT32_MAX, UINT64_MAX, UINT64_MAX - 63, 1ULL << 32};
	struct nvme_sgl sgl;
	struct sgl_data data;

	for (unsigned i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		sgl = in_capsule(offsets[i], 512);
		assert_int_equal(sgl_parse(&sgl, 64 + 1024, &data),
				 NVME_SGL_OFFSET_INVALID | NVME_DNR);
	}
	sgl = in_capsule(1024, 1);
	assert_int_equal(sgl_parse(&sgl, 64 + 1024, &data), NVME_SGL_LENGTH_INVALID | NVME_DNR);
	sgl = in_capsule(512, UINT32_MAX);
	assert_int_equal(sgl_parse(&sgl, 64 + 1024, &data), NVME_SGL_LENGTH_INVALID | NVME_DNR);
	sgl = in_capsule(512, 512);
	assert_int_equal(sgl_parse(&sgl, 64 + 1024, &data), NVME_OK);
	assert_int_equal(data.offset, 512);
}

static void unknown_types(void **state)
{
	struct sgl_data data;

	for (unsigned type = 0; type < 256; type++) {
		struct nvme_sgl sgl = keyed((uint8_t)type, 0, 0, 0);
		enum nvme_status status = sgl_parse(&sgl, 64, &data);

		if (type == 0x40 || type == 0x4f || type == 0x01)
			assert_int_equal(status, NVME_OK);
		else if (type >> 4 == 4 || type >> 4 == 0)
			assert_int_equal(status, NVME_INVALID_FIELD | NVME_DNR);
		else
			assert_int_equal(status, NVME_SGL_TYPE_INVALID | NVME_DNR);
	}
}

static struct nvmf_cm_req good_request(void)
{
	return (struct nvmf_cm_req){.qid = put_le16(1),
				    .hrqsize = put_le16(128),
				    .hsqsize = put_le16(127),
				    .cntlid = put_le16(5)};
}

static void cm_request(void **state)
{
	struct nvmf_cm_req req = good_request();
	struct cm_queue_request out;

	/* InfiniBand CMs pad the private data: 56 bytes arrive. */
	uint8_t padded[56] = {0};
	memcpy(padded, &req, sizeof(req));
	assert_int_equal(cm_req_parse(padded, sizeof(padded), 128, &out), NVMF_CM_OK);
	assert_int_equal(out.qid, 1);
	assert_int_equal(out.n_sq, 128);
	assert_int_equal(out.n_rq, 128);
}

/* Linux: "nvmet-rdma: reject short connection requests" */
static void cm_request_refused(void **state)
{
	struct nvmf_cm_req req = good_request();
	struct cm_queue_request out;

	assert_int_equal(cm_req_parse(&req, 31, 128, &out), NVMF_CM_INVALID_LENGTH);
	assert_int_equal(cm_req_parse(NULL, 0, 128, &out), NVMF_CM_INVALID_LENGTH);
	assert_int_equal(cm_req_parse(&req, 32, 127, &out), NVMF_CM_INVALID_HSQSIZE);
	req.qid = put_le16(0);
	assert_int_equal(cm_req_parse(&req, 32, 1024, &out), NVMF_CM_INVALID_HSQSIZE);
	req = good_request();
	req.hsqsize = put_le16(0);
	assert_int_equal(cm_req_parse(&req, 32, 128, &out), NVMF_CM_INVALID_HSQSIZE);
	req.hsqsize = put_le16(0xffff);
	assert_int_equal(cm_req_parse(&req, 32, 128, &out), NVMF_CM_INVALID_HSQSIZE);
	req = good_request();
	req.hrqsize = put_le16(0);
	assert_int_equal(cm_req_parse(&req, 32, 128, &out), NVMF_CM_INVALID_HRQSIZE);
	req = good_request();
	req.recfmt = put_le16(1);
	assert_int_equal(cm_req_parse(&req, 32, 128, &out), NVMF_CM_INVALID_RECFMT);
}

static void nqn_fields(void **state)
{
	uint8_t field[256] = "nqn.2026-01.org.example:disk";
	char nqn[NVMF_NQN_MAX + 1];

	assert_int_equal(nqn_from_field(field, sizeof(field), nqn), 0);
	assert_string_equal(nqn, "nqn.2026-01.org.example:disk");
	memset(field, 'n', sizeof(field)); /* no NUL at all */
	assert_int_equal(nqn_from_field(field, sizeof(field), nqn), -EINVAL);
	memset(field, 0, sizeof(field));
	assert_int_equal(nqn_from_field(field, sizeof(field), nqn), -EINVAL);
	memcpy(field, "iqn.2026-01.org.example:disk", 29);
	assert_int_equal(nqn_from_field(field, sizeof(field), nqn), -EINVAL);
	memcpy(field, "nqn.2026-01.org.example:a b", 28);
	assert_int_equal(nqn_from_field(field, sizeof(field), nqn), -EINVAL);
	/* 223 characters are legal, 224 are not */
	memset(field, 0, sizeof(field));
	memset(field, 'x', 223);
	memcpy(field, "nqn.", 4);
	assert_int_equal(nqn_from_field(field, sizeof(field), nqn), 0);
	field[223] = 'x';
	assert_int_equal(nqn_from_field(field, sizeof(field), nqn), -EINVAL);
}

/* NQNs are UTF-8. Characters that would corrupt a log or a terminal are refused. */
static void nqn_characters(void **state)
{
	static const char *const good[] = {"\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80",
					   "\xc2\xa0"};
	static const char *const bad[] = {"\n",
					  "\x1b[2J",
					  "\x7f",
					  "\xc2\x9b"
					  "2J",
					  "\xc2\x80",
					  "\x80",
					  "\xff",
					  "\xc3",
					  "\xc3(",
					  "\xe2\x82",
					  "\xe2\x82\x41",
					  "\xc0\xaf",
					  "\xe0\x80\xaf",
					  "\xf0\x80\x80\xaf",
					  "\xed\xa0\x80",
					  "\xf4\x90\x80\x80",
					  "\xf8\x88\x80\x80"};
	char nqn[64];

	for (unsigned i = 0; i < ARRAY_LEN(good); i++) {
		snprintf(nqn, sizeof(nqn), "nqn.2026-01.org:%sx", good[i]);
		assert_null(nqn_check(nqn));
	}
	for (unsigned i = 0; i < ARRAY_LEN(bad); i++) {
		snprintf(nqn, sizeof(nqn), "nqn.2026-01.org:%s", bad[i]);
		assert_non_null(nqn_check(nqn));
	}
}

static void hosts_may_be_without_a_name(void **state)
{
	uint8_t field[256] = "";
	char nqn[NVMF_NQN_MAX + 1];

	assert_int_equal(hostnqn_from_field(field, sizeof(field), nqn), 0);
	assert_string_equal(nqn, "");
	assert_string_not_equal(hostnqn_label(nqn), "");
	memcpy(field, "host7", 6);
	assert_int_equal(hostnqn_from_field(field, sizeof(field), nqn), 0);
	assert_string_equal(hostnqn_label(nqn), "host7");
	memcpy(field, "a b", 4);
	assert_int_equal(hostnqn_from_field(field, sizeof(field), nqn), -EINVAL);
	memcpy(field, "a\x1b", 3);
	assert_int_equal(hostnqn_from_field(field, sizeof(field), nqn), -EINVAL);
	memset(field, 'n', sizeof(field));
	assert_int_equal(hostnqn_from_field(field, sizeof(field), nqn), -EINVAL);
}

/* Section 21 of the wire's worked bytes: a completion with Invalid Field and DNR is
 * 0480h. */
static void status_on_the_wire(void **state)
{
	le16 wire = put_nvme_status(NVME_INVALID_FIELD | NVME_DNR);

	assert_int_equal(wire.b[0], 0x04);
	assert_int_equal(wire.b[1], 0x80);
	wire = put_nvme_status(NVME_CONNECT_BUSY);
	assert_int_equal(wire.b[0], 0x02);
	assert_int_equal(wire.b[1], 0x03);
	assert_int_equal(nvme_status_code(get_nvme_status(wire)), NVME_CONNECT_BUSY);
	assert_string_equal(nvme_status_string(NVME_LBA_OUT_OF_RANGE | NVME_DNR),
			    "LBA Out of Range");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keyed_descriptor),
		cmocka_unit_test(keyed_with_invalidate),
		cmocka_unit_test(in_capsule_within_what_was_received),
		cmocka_unit_test(in_capsule_offset_does_not_wrap),
		cmocka_unit_test(unknown_types),
		cmocka_unit_test(cm_request),
		cmocka_unit_test(cm_request_refused),
		cmocka_unit_test(nqn_fields),
		cmocka_unit_test(nqn_characters),
		cmocka_unit_test(hosts_may_be_without_a_name),
		cmocka_unit_test(status_on_the_wire),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
