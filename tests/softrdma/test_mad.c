/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The connection manager's MADs: every one that a kernel sent or received in a capture, byte for
 * byte, and what the fields of some of them mean. IBA 12.6, annex A11.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "mads.h"
#include "softrdma/cm/mad_ip.h"

#define N_CAPTURED (sizeof(captured) / sizeof(captured[0]))

static void bytes_of(const char *hex, uint8_t ret[MAD_BYTES])
{
	char two[3] = {0};

	memset(ret, 0, MAD_BYTES);
	for (unsigned i = 0; hex[2 * i]; i++) {
		memcpy(two, hex + 2 * i, 2);
		ret[i] = (uint8_t)strtoul(two, NULL, 16);
	}
}

static struct mad decoded(unsigned n)
{
	uint8_t bytes[MAD_BYTES];
	struct mad m;

	bytes_of(captured[n].hex, bytes);
	assert_int_equal(mad_decode(bytes, &m), 0);
	assert_int_equal(m.type, captured[n].type);
	return m;
}

static void captured_ones_come_back_byte_for_byte(void **state)
{
	for (unsigned i = 0; i < N_CAPTURED; i++) {
		uint8_t bytes[MAD_BYTES], again[MAD_BYTES];
		struct mad m = decoded(i);

		bytes_of(captured[i].hex, bytes);
		mad_encode(&m, again);
		assert_memory_equal(bytes, again, MAD_BYTES);
	}
}

static void request_has_the_values_of_its_sender(void **state)
{
	static const uint8_t guid[] = {0x50, 0x54, 0, 0xff, 0xfe, 0x77, 0, 2};
	static const uint8_t from[16] = {[10] = 0xff, 0xff, 10, 77, 0, 2};
	static const uint8_t to[16] = {[10] = 0xff, 0xff, 10, 77, 0, 1};
	struct mad m = decoded(0);
	struct mad_ip ip;

	assert_int_equal(m.tid, 0x2c27e6f26);
	assert_int_equal(m.local_id, 0x266f7ec2);
	assert_int_equal(MAD_RDMA_PS(m.req.service_id), 0x106);
	assert_int_equal(MAD_PORT(m.req.service_id), 7174);
	assert_memory_equal(m.req.guid, guid, 8);
	assert_int_equal(m.req.qpn, 17);
	assert_int_equal(m.req.responder_resources, 1);
	assert_int_equal(m.req.initiator_depth, 1);
	assert_int_equal(m.req.remote_timeout, 20);
	assert_int_equal(m.req.transport, 0);
	assert_int_equal(m.req.flow_control, 0);
	assert_int_equal(m.req.psn, 0x46d596);
	assert_int_equal(m.req.local_timeout, 20);
	assert_int_equal(m.req.retry_count, 7);
	assert_int_equal(m.req.pkey, 0xffff);
	assert_int_equal(m.req.path_mtu, 3);
	assert_int_equal(m.req.rnr_retry_count, 7);
	assert_int_equal(m.req.max_retries, 15);
	assert_int_equal(m.req.srq, 0);
	assert_int_equal(m.req.primary.local_lid, 0xffff);
	assert_memory_equal(m.req.primary.local_gid, from, 16);
	assert_memory_equal(m.req.primary.remote_gid, to, 16);
	assert_int_equal(m.req.primary.flow_label, 0x0fb8f);
	assert_int_equal(m.req.primary.hop_limit, 64);
	assert_int_equal(m.req.primary.is_subnet_local, 0);
	assert_int_equal(m.req.primary.ack_timeout, 19);
	assert_int_equal(mad_ip_decode(m.data, &ip), 0);
	assert_false(ip.is_v6);
	assert_int_equal(ip.source_port, 0x8b57);
	assert_memory_equal(ip.source, from, 16);
	assert_memory_equal(ip.destination, to, 16);
}

static void reply_and_the_rest_have_theirs(void **state)
{
	struct mad rep = decoded(1), dreq = decoded(3), rej = decoded(N_CAPTURED - 1);

	assert_int_equal(rep.local_id, 0xe27c55be);
	assert_int_equal(rep.remote_id, 0x266f7ec2);
	assert_int_equal(rep.rep.qpn, 17);
	assert_int_equal(rep.rep.psn, 0xf4eb24);
	assert_int_equal(rep.rep.responder_resources, 1);
	assert_int_equal(rep.rep.initiator_depth, 1);
	assert_int_equal(rep.rep.ack_delay, 15);
	assert_int_equal(rep.rep.rnr_retry_count, 7);
	assert_int_equal(rep.rep.srq, 0);
	assert_int_equal(dreq.dreq.remote_qpn, 17);
	assert_int_equal(rej.local_id, 0);
	assert_int_equal(rej.remote_id, 0x246f7ec2);
	assert_int_equal(rej.rej.reason, MAD_REASON_NO_SERVICE);
	assert_int_equal(rej.rej.answered, MAD_ANSWERS_REQ);
}

static void ip_headers_come_back(void **state)
{
	for (unsigned i = 0; i < N_CAPTURED; i++) {
		struct mad m = decoded(i);
		uint8_t bytes[MAD_IP_BYTES];
		struct mad_ip ip;

		if (m.type != MAD_REQ)
			continue;
		assert_int_equal(mad_ip_decode(m.data, &ip), 0);
		mad_ip_encode(&ip, bytes);
		assert_memory_equal(bytes, m.data, MAD_IP_BYTES);
		assert_memory_equal(ip.source, m.req.primary.local_gid, 16);
		assert_memory_equal(ip.destination, m.req.primary.remote_gid, 16);
	}
}

/* Each bit of the 256 bytes, alone: a field's, or reserved and dropped. Never two fields'. */
static void every_bit_is_of_one_field_or_of_none(void **state)
{
	for (enum mad_type type = MAD_FIRST; type <= MAD_LAST; type++) {
		struct mad empty = {.type = type};
		unsigned n_kept = 0;

		for (unsigned bit = 24 * 8; bit < 8 * MAD_BYTES; bit++) {
			uint8_t bytes[MAD_BYTES], again[MAD_BYTES], none[MAD_BYTES];
			struct mad m;

			mad_encode(&empty, none);
			memcpy(bytes, none, MAD_BYTES);
			bytes[bit / 8] |= (uint8_t)(0x80 >> bit % 8);
			if (mad_decode(bytes, &m))
				continue; /* a length beyond its field */
			mad_encode(&m, again);
			assert_true(!memcmp(again, bytes, MAD_BYTES) ||
				    !memcmp(again, none, MAD_BYTES));
			n_kept += !memcmp(again, bytes, MAD_BYTES);
		}
		assert_true(n_kept >= 8 * mad_data_bytes(type) + 24);
	}
}

static void other_datagrams_are_refused(void **state)
{
	uint8_t bytes[MAD_BYTES];
	struct mad m;

	for (unsigned i = 0; i < 4; i++) { /* versions, class, method */
		bytes_of(captured[0].hex, bytes);
		bytes[i] ^= 0x10;
		assert_int_equal(mad_decode(bytes, &m), -EPROTO);
	}
	bytes_of(captured[0].hex, bytes);
	bytes[17] = 0x19; /* LAP */
	assert_int_equal(mad_decode(bytes, &m), -EOPNOTSUPP);
	bytes[17] = 0x0f;
	assert_int_equal(mad_decode(bytes, &m), -EOPNOTSUPP);
	assert_int_equal(mad_data_bytes((enum mad_type)0x0f), 0);
	assert_string_equal(mad_name((enum mad_type)0x0f), "?");
	assert_string_equal(mad_name(MAD_DREQ), "DREQ");
}

static void lengths_beyond_their_field_are_refused(void **state)
{
	struct mad m = {.type = MAD_REJ, .rej = {.ari_len = 73}};
	uint8_t bytes[MAD_BYTES];

	mad_encode(&m, bytes);
	assert_int_equal(mad_decode(bytes, &m), -EPROTO);
	m = (struct mad){.type = MAD_SIDR_REP, .sidr_rep = {.info_len = 73}};
	mad_encode(&m, bytes);
	assert_int_equal(mad_decode(bytes, &m), -EPROTO);
}

static void other_ip_headers_are_refused(void **state)
{
	struct mad m = decoded(0);
	struct mad_ip ip;

	m.data[1] = 0x50;
	assert_int_equal(mad_ip_decode(m.data, &ip), -EPROTO);
	m.data[1] = 0x40;
	m.data[0] = 0x10;
	assert_int_equal(mad_ip_decode(m.data, &ip), -EPROTO);
}

static void unknown_types_encode_to_a_header(void **state)
{
	struct mad m = {.type = (enum mad_type)0x19, .tid = 7};
	uint8_t bytes[MAD_BYTES];

	mad_encode(&m, bytes);
	assert_int_equal(bytes[17], 0x19);
	assert_int_equal(bytes[15], 7);
	assert_int_equal(bytes[24], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(captured_ones_come_back_byte_for_byte),
		cmocka_unit_test(request_has_the_values_of_its_sender),
		cmocka_unit_test(reply_and_the_rest_have_theirs),
		cmocka_unit_test(ip_headers_come_back),
		cmocka_unit_test(every_bit_is_of_one_field_or_of_none),
		cmocka_unit_test(other_datagrams_are_refused),
		cmocka_unit_test(lengths_beyond_their_field_are_refused),
		cmocka_unit_test(other_ip_headers_are_refused),
		cmocka_unit_test(unknown_types_encode_to_a_header),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
