/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Headers, checksum and sequence numbers of RoCE v2 without sockets. Sources: IBA volume 1 chapter
 * 9 and annex A17; the capture of two Linux machines with rdma_rxe (rping, kernel 6.1).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "softrdma/fabric/roce/icrc.h"
#include "softrdma/fabric/roce/ip_id.h"
#include "softrdma/fabric/roce/packet.h"
#include "softrdma/fabric/roce/psn.h"
#include "softrdma/fabric/roce/steer.h"

static uint8_t file[64 << 10];
static size_t file_bytes;

static uint16_t get16(const uint8_t *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

static uint32_t get_le32(const uint8_t *at)
{
	return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static union ibv_gid ip4(const uint8_t *address)
{
	union ibv_gid gid = {.raw = {[10] = 0xff, [11] = 0xff}};

	memcpy(gid.raw + 12, address, 4);
	return gid;
}

/* One packet of the capture. */
struct frame {
	const uint8_t *ip, *bytes; /* bytes: BTH to ICRC */
	size_t n;
	struct roce_ends ends;
	uint16_t ip_id;
};

/* The RoCE v2 packets of the capture, in order; 0 when there are no more. */
static int next_frame(size_t *at, struct frame *f)
{
	while (*at + 16 < file_bytes) {
		const uint8_t *p = file + *at + 16;

		*at += 16 + get_le32(file + *at + 8);
		if (get16(p + 12) != 0x0800 || p[23] != 17 || get16(p + 36) != ROCE_PORT)
			continue;
		f->ip = p + 14;
		f->bytes = p + 42;
		f->n = get16(p + 38) - 8u;
		f->ends = (struct roce_ends){ip4(p + 26), ip4(p + 30), get16(p + 34)};
		f->ip_id = get16(p + 18);
		return 1;
	}
	return 0;
}

static int read_capture(void **state)
{
	FILE *f = fopen(getenv("ROCE_CAPTURE"), "rb");

	roce_icrc_init();
	if (!f)
		return -1;
	file_bytes = fread(file, 1, sizeof(file), f);
	fclose(f);
	return file_bytes > 24 ? 0 : -1;
}

static void capture_icrcs(void **state)
{
	size_t at = 24, n = 0;
	struct frame f;
	uint16_t id;

	while (next_frame(&at, &f)) {
		uint32_t stored = get_le32(f.bytes + f.n - 4);

		assert_int_equal(roce_icrc(&f.ends, f.bytes, f.n - 4, f.ip_id, true), stored);
		assert_true(roce_icrc_solve(&f.ends, f.bytes, f.n - 4, stored, true, &id));
		assert_int_equal(id, f.ip_id);
		assert_false(roce_icrc_solve(&f.ends, f.bytes, f.n - 4, stored ^ 0x100, true, &id));
		n++;
	}
	assert_int_equal(n, 43);
}

/* Every packet that Linux sent is read, and written as it was. */
static void capture_headers(void **state)
{
	uint8_t out[ROCE_PACKET_MAX];
	size_t at = 24, headers;
	struct roce_packet p;
	struct frame f;

	while (next_frame(&at, &f)) {
		assert_true(roce_packet_decode(f.bytes, f.n, &p));
		headers = roce_packet_encode(&p, out);
		assert_ptr_equal(p.payload, f.bytes + headers);
		assert_int_equal(headers + p.payload_bytes + roce_pad_bytes(p.payload_bytes) + 4,
				 f.n);
		out[1] ^= 0x40; /* rxe does not set "migrated" */
		assert_memory_equal(out, f.bytes, headers);
	}
}

static struct roce_packet sample(uint8_t opcode)
{
	unsigned has = roce_traits(opcode);
	struct roce_packet p = {.opcode = opcode, .dest_qpn = 0xabcdef, .psn = 0xfffffe};

	p.solicited = true;
	p.ack_request = true;
	if (has & (ROCE_HAS_RETH | ROCE_HAS_ATOMIC)) {
		p.va = 0x1122334455667788;
		p.rkey = 0x99aabbcc;
	}
	p.length = has & ROCE_HAS_RETH ? 0x80000000u : 0;
	p.swap_add = has & ROCE_HAS_ATOMIC ? 0x0102030405060708 : 0;
	p.compare = has & ROCE_HAS_ATOMIC ? 0x1112131415161718 : 0;
	p.syndrome = has & ROCE_HAS_AETH ? 0x60 : 0;
	p.msn = has & ROCE_HAS_AETH ? 0x123456 : 0;
	p.original = has & ROCE_HAS_ATOMIC_ACK ? 0xfedcba9876543210 : 0;
	p.imm = has & ROCE_HAS_IMM ? 0xdeadbeef : 0;
	p.invalidate_key = has & ROCE_HAS_KEY ? 0xcafe : 0;
	p.q_key = has & ROCE_HAS_DETH ? 0x80010000 : 0;
	p.source_qpn = has & ROCE_HAS_DETH ? 1 : 0;
	p.srqn = has & ROCE_HAS_SRQ ? 0xabcdef : 0;
	p.payload_bytes = has & ROCE_HAS_PAYLOAD ? 5 : 0;
	return p;
}

static void assert_same(const struct roce_packet *a, const struct roce_packet *b)
{
	assert_int_equal(a->opcode, b->opcode);
	assert_true(b->solicited && b->ack_request && !b->was_congested);
	assert_int_equal(a->dest_qpn, b->dest_qpn);
	assert_int_equal(a->psn, b->psn);
	assert_int_equal(a->va, b->va);
	assert_int_equal(a->rkey, b->rkey);
	assert_int_equal(a->length, b->length);
	assert_int_equal(a->swap_add, b->swap_add);
	assert_int_equal(a->compare, b->compare);
	assert_int_equal(a->original, b->original);
	assert_int_equal(a->syndrome, b->syndrome);
	assert_int_equal(a->msn, b->msn);
	assert_int_equal(a->imm, b->imm);
	assert_int_equal(a->invalidate_key, b->invalidate_key);
	assert_int_equal(a->q_key, b->q_key);
	assert_int_equal(a->source_qpn, b->source_qpn);
	assert_int_equal(a->srqn, b->srqn);
	assert_int_equal(a->payload_bytes, b->payload_bytes);
}

static void every_opcode(void **state)
{
	unsigned known = 0;

	for (unsigned op = 0; op < 256; op++) {
		struct roce_packet p = sample((uint8_t)op), back;
		uint8_t bytes[ROCE_PACKET_MAX] = {0};
		size_t n = roce_packet_encode(&p, bytes);

		n += p.payload_bytes + roce_pad_bytes(p.payload_bytes) + ROCE_ICRC_BYTES;
		assert_true(n <= sizeof(bytes));
		if (!roce_traits((uint8_t)op)) {
			assert_false(roce_packet_decode(bytes, n, &back));
			continue;
		}
		known++;
		assert_true(roce_packet_decode(bytes, n, &back));
		assert_ptr_equal(back.payload,
				 bytes + n - 4 - p.payload_bytes - roce_pad_bytes(p.payload_bytes));
		assert_same(&p, &back);
		for (size_t cut = 0; cut < n - (p.payload_bytes ? 8 : 0); cut++)
			assert_false(roce_packet_decode(bytes, cut, &back));
	}
	assert_int_equal(known, 61);
}

/* IBA A14: the opcodes of RC, and after the BTH of each request 8 reserved bits and the SRQ's
 * number. */
static void xrc_header(void **state)
{
	const uint8_t bytes[] = {0xaa, 0x40, 0xff, 0xff, 0,    0,    0,	   17,
				 0x80, 0,    0,	   5,	 0x99, 0x12, 0x34, 0x56, /* XRCETH */
				 0,    0,    0,	   0,	 0,    0,    1,	   0,
				 0,    0,    0,	   7,	 0,    0,    0,	   4, /* RETH */
				 1,    2,    3,	   4,	 0,    0,    0,	   0};
	struct roce_packet p;

	assert_true(roce_packet_decode(bytes, sizeof(bytes), &p));
	assert_int_equal(p.opcode & ROCE_BASE_OPCODE, ROCE_WRITE_ONLY);
	assert_int_equal(p.srqn, 0x123456);
	assert_int_equal(p.va, 0x100);
	assert_int_equal(p.rkey, 7);
	assert_int_equal(p.length, 4);
	assert_int_equal(p.payload_bytes, 4);
	for (unsigned op = 0; op < 0x20; op++) {
		unsigned rc = roce_traits((uint8_t)op), xrc = roce_traits((uint8_t)(ROCE_XRC | op));

		assert_int_equal(xrc & ~(unsigned)(ROCE_IS_XRC | ROCE_HAS_SRQ),
				 rc & ~(unsigned)ROCE_IS_RC);
		assert_int_equal(!!(xrc & ROCE_HAS_SRQ), rc && !(rc & ROCE_IS_RESPONSE));
		assert_int_equal(!!(xrc & ROCE_IS_XRC), !!rc);
	}
}

static void refused_headers(void **state)
{
	struct roce_packet p = sample(ROCE_SEND_ONLY), back;
	uint8_t good[64] = {0}, bad[64];
	size_t n = roce_packet_encode(&p, good) + 8 + 4;

	assert_true(roce_packet_decode(good, n, &back));
	memcpy(bad, good, sizeof(bad));
	bad[1] |= 1; /* transport version 1 */
	assert_false(roce_packet_decode(bad, n, &back));
	memcpy(bad, good, sizeof(bad));
	bad[3] = 0xfe; /* another partition */
	assert_false(roce_packet_decode(bad, n, &back));
	memcpy(bad, good, sizeof(bad));
	bad[2] = 0x7f; /* a limited member of ours */
	assert_true(roce_packet_decode(bad, n, &back));
	assert_false(roce_packet_decode(good, n - 1, &back)); /* not padded */
	p = sample(ROCE_READ_REQUEST);
	n = roce_packet_encode(&p, bad) + 4;
	assert_true(roce_packet_decode(bad, n, &back));
	assert_false(roce_packet_decode(bad, n + 4, &back)); /* a payload where none may be */
}

/* The folded CRC, the one by tables, and the definition bit by bit. */
static void crc_three_ways(void **state)
{
	uint8_t data[600];
	uint32_t seed = 1;

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)((seed = seed * 1103515245 + 12345) >> 16);
	for (size_t n = 0; n <= sizeof(data) - 3; n++) {
		const uint8_t *from = data + n % 4;
		uint32_t c = 0x12345678 + (uint32_t)n;
		uint32_t folded = roce_crc(c, from, n), tables = roce_crc_by_table(c, from, n);

		for (size_t i = 0; i < n; i++) {
			c ^= from[i];
			for (int k = 0; k < 8; k++)
				c = c & 1 ? c >> 1 ^ 0xedb88320u : c >> 1;
		}
		assert_int_equal(folded, c);
		assert_int_equal(tables, c);
	}
}

static struct roce_ends ends_of(int v6)
{
	static const uint8_t a[4] = {10, 1, 2, 3}, b[4] = {10, 9, 8, 7};
	struct roce_ends e = {ip4(a), ip4(b), 0xd872};

	if (v6) {
		e.from = (union ibv_gid){.raw = {0x20, 1, 0x0d, 0xb8, [15] = 1}};
		e.to = (union ibv_gid){.raw = {0x20, 1, 0x0d, 0xb8, [15] = 2}};
	}
	return e;
}

static void solved_ids(void **state)
{
	static const uint16_t ids[] = {0, 1, 2, 63, 127, 0x100, 0x1234, 0xfffe, 0xffff};
	uint8_t bytes[ROCE_PACKET_MAX];
	struct roce_ends e = ends_of(0);
	uint16_t id;

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7);
	for (size_t n = 12; n < 140; n++)
		for (size_t i = 0; i < sizeof(ids) / sizeof(*ids); i++)
			for (int df = 0; df < 2; df++) {
				uint32_t c = roce_icrc(&e, bytes, n, ids[i], df);

				assert_true(roce_icrc_solve(&e, bytes, n, c, df, &id));
				assert_int_equal(id, ids[i]);
			}
	for (size_t n = 1000; n < sizeof(bytes) - 4; n += 211) {
		assert_true(roce_icrc_solve(&e, bytes, n, roce_icrc(&e, bytes, n, 4711, true), true,
					    &id));
		assert_int_equal(id, 4711);
	}
}

/* The checksum leaves out what routers change, and nothing else. */
static void damage_is_found(void **state)
{
	uint8_t bytes[80];
	uint16_t id;

	memset(bytes, 0x5a, sizeof(bytes));
	for (int v6 = 0; v6 < 2; v6++) {
		struct roce_ends e = ends_of(v6), other = e;
		uint32_t c = roce_icrc(&e, bytes, sizeof(bytes), 0, true);

		for (size_t bit = 0; bit < 8 * sizeof(bytes); bit++) {
			bool varies = bit / 8 == 4;

			bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
			if (roce_icrc_solve(&e, bytes, sizeof(bytes), c, true, &id) != varies)
				fail_msg("bit %zu of byte %zu", bit % 8, bit / 8);
			bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		}
		other.from.raw[15] ^= 1;
		assert_false(roce_icrc_solve(&other, bytes, sizeof(bytes), c, true, &id));
		other = e;
		other.source_port ^= 1;
		assert_false(roce_icrc_solve(&other, bytes, sizeof(bytes), c, true, &id));
		assert_false(roce_icrc_solve(&e, bytes, sizeof(bytes) - 4, c, true, &id));
	}
}

static void numbers_wrap(void **state)
{
	assert_int_equal(roce_psn_add(0xffffff, 1), 0);
	assert_int_equal(roce_psn_add(0, 0xffffff), 0xffffff);
	assert_int_equal(roce_psn_diff(0, 0xffffff), 1);
	assert_int_equal(roce_psn_diff(0xffffff, 0), -1);
	assert_int_equal(roce_psn_diff(0x7fffff, 0), 0x7fffff);
	assert_int_equal(roce_psn_diff(0x800000, 0), -0x800000);
	assert_true(roce_psn_within(1, 0xfffffe, 4));
	assert_false(roce_psn_within(2, 0xfffffe, 4));
	assert_false(roce_psn_within(0xfffffd, 0xfffffe, 4));
	assert_false(roce_psn_within(5, 5, 0));
	assert_int_equal(roce_n_packets(0, 1024), 1);
	assert_int_equal(roce_n_packets(1024, 1024), 1);
	assert_int_equal(roce_n_packets(1025, 1024), 2);
	assert_int_equal(roce_n_packets(1u << 31, 256), 1u << 23);
}

/* A guest's rxe with two CPUs: 79be after 79ca. An identifier that is far off is damage still. */
static void ids_of_several_cpus(void **state)
{
	struct roce_ip_id s = {0};

	assert_true(roce_ip_id_fits(&s, 0x79ca, 1));
	assert_true(roce_ip_id_fits(&s, 0x79be, 1));
	assert_true(roce_ip_id_fits(&s, 0x79cb, 1));
	assert_int_equal(s.last, 0x79cb); /* a late one does not turn the count back */
	assert_false(roce_ip_id_fits(&s, 0x79cb - ROCE_ID_BEHIND - 1, 1));
	s = (struct roce_ip_id){.last = 0x0005, .has_last = true, .last_ms = 1};
	assert_true(roce_ip_id_fits(&s, 0xfff0, 1));
	assert_false(roce_ip_id_fits(&s, 0x7000, 1));
}

/* ---- steering ---- */

static void open_group(int socks[ROCE_SOCKETS], struct sockaddr_in *at)
{
	struct sock_fprog program = {sizeof(roce_steering) / sizeof(*roce_steering),
				     (struct sock_filter *)(uintptr_t)roce_steering};
	socklen_t len = sizeof(*at);
	int one = 1;

	*at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	for (int i = 0; i < ROCE_SOCKETS; i++) {
		socks[i] = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
		setsockopt(socks[i], SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));
		assert_int_equal(bind(socks[i], (struct sockaddr *)at, sizeof(*at)), 0);
		assert_int_equal(getsockname(socks[i], (struct sockaddr *)at, &len), 0);
	}
	assert_int_equal(setsockopt(socks[0], SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program,
				    sizeof(program)),
			 0);
}

/* The loopback delivers before sendto returns. */
static int arrived_at(const int socks[ROCE_SOCKETS])
{
	uint8_t byte;

	for (int i = 0; i < ROCE_SOCKETS; i++)
		if (recv(socks[i], &byte, sizeof(byte), MSG_TRUNC) >= 0)
			return i;
	return -1;
}

static void expect_agreement(int sender, const int socks[ROCE_SOCKETS],
			     const struct sockaddr_in *at, const uint8_t *bytes, size_t n)
{
	assert_int_equal(sendto(sender, bytes, n, 0, (const struct sockaddr *)at, sizeof(*at)), n);
	assert_int_equal(arrived_at(socks), roce_steer(bytes, n));
}

/* The kernel's program and ours find the same process for every kind of packet. */
static void the_kernel_steers_alike(void **state)
{
	static const uint8_t attributes[] = {0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18};
	int socks[ROCE_SOCKETS], sender = socket(AF_INET, SOCK_DGRAM, 0);
	uint8_t bytes[300] = {ROCE_UD_SEND_ONLY};
	struct sockaddr_in at;

	open_group(socks, &at);
	for (unsigned i = 0; i < 256; i++) {
		uint32_t qpn = 0x123400 + (i << 8) + 7 * i % 256;

		bytes[5] = (uint8_t)(qpn >> 16);
		bytes[6] = (uint8_t)(qpn >> 8);
		bytes[7] = (uint8_t)qpn;
		bytes[4] = (uint8_t)i; /* reserved, FECN and BECN do not count */
		expect_agreement(sender, socks, &at, bytes, sizeof(bytes));
		bytes[5] = bytes[6] = 0;
		bytes[7] = 1;
		bytes[ROCE_MAD_AT + ROCE_MAD_DATA] = (uint8_t)(3 * i);
		bytes[ROCE_MAD_AT + ROCE_MAD_DATA + 4] = (uint8_t)i;
		for (unsigned j = 0; j < sizeof(attributes); j++) {
			bytes[ROCE_MAD_AT + ROCE_MAD_ATTRIBUTE + 1] = attributes[j];
			expect_agreement(sender, socks, &at, bytes, sizeof(bytes));
		}
	}
	assert_int_equal(roce_steer(bytes, sizeof(bytes)), 3 * 255 % ROCE_MEMBERS);
	bytes[ROCE_MAD_AT + ROCE_MAD_ATTRIBUTE + 1] = ROCE_ATTRIBUTE_REQ;
	assert_int_equal(roce_steer(bytes, sizeof(bytes)), ROCE_FOR_ANY);
	for (size_t n = 1; n < 12; n++)
		expect_agreement(sender, socks, &at, bytes, n);
	for (int i = 0; i < ROCE_SOCKETS; i++)
		close(socks[i]);
	close(sender);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(capture_icrcs),
		cmocka_unit_test(capture_headers),
		cmocka_unit_test(every_opcode),
		cmocka_unit_test(refused_headers),
		cmocka_unit_test(crc_three_ways),
		cmocka_unit_test(solved_ids),
		cmocka_unit_test(ids_of_several_cpus),
		cmocka_unit_test(damage_is_found),
		cmocka_unit_test(xrc_header),
		cmocka_unit_test(numbers_wrap),
		cmocka_unit_test(the_kernel_steers_alike),
	};

	return cmocka_run_group_tests(tests, read_capture, NULL);
}
