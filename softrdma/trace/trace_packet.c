/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One RoCE v2 packet: Ethernet, IPv4 or IPv6, UDP to port 4791, BTH, what the caller
 * adds, ICRC (InfiniBand specification volume 1, annexes A16 and A17).
 *
 * MAC addresses are made of the IP addresses. The UDP source port is that of the flow's
 * queue pair, as adapters choose it, so that a capture tool tells connections apart.
 */
#include "softrdma/trace/trace_file.h"
#include "softrdma/trace/trace_packet.h"

#include <assert.h>
#include <endian.h>
#include <string.h>

#include "softrdma/process/part.h"

enum {
	ETHERNET = 14,
	IP4 = 20,
	IP6 = 40,
	UDP = 8,
	BTH = 12,
	ICRC = 4,
	ROCE_PORT = 4791,
	TTL = 64,
};

static uint32_t crc_table[256];

static void start(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t c = i;

		for (int k = 0; k < 8; k++)
			c = c & 1 ? c >> 1 ^ 0xedb88320u : c >> 1;
		crc_table[i] = c;
	}
}

static uint32_t crc(uint32_t c, const uint8_t *data, size_t n)
{
	while (n--)
		c = c >> 8 ^ crc_table[(uint8_t)c ^ *data++];
	return c;
}

uint8_t *trace_packet_add(struct trace_packet *p, unsigned n)
{
	uint8_t *at = p->data + p->len;

	assert(p->len + n <= sizeof(p->data));
	memset(at, 0, n);
	p->len += n;
	return at;
}

static void put16(uint8_t *at, uint32_t v)
{
	at[0] = (uint8_t)(v >> 8);
	at[1] = (uint8_t)v;
}

void trace_packet_add16(struct trace_packet *p, uint32_t v)
{
	put16(trace_packet_add(p, 2), v);
}

void trace_packet_add32(struct trace_packet *p, uint32_t v)
{
	v = htobe32(v);
	memcpy(trace_packet_add(p, 4), &v, 4);
}

void trace_packet_add64(struct trace_packet *p, uint64_t v)
{
	v = htobe64(v);
	memcpy(trace_packet_add(p, 8), &v, 8);
}

/* ---- headers ------------------------------------------------------------------------ */

static bool is_ip4(const union ibv_gid *gid)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	return !memcmp(gid->raw, mapped, sizeof(mapped));
}

/* Locally administered; the last four bytes are the address's. */
static void add_mac(struct trace_packet *p, const union ibv_gid *gid)
{
	uint8_t *at = trace_packet_add(p, 6);

	at[0] = 0x02;
	memcpy(at + 2, gid->raw + 12, 4);
}

static void add_ip4(struct trace_packet *p, const struct trace_flow *f)
{
	uint8_t *ip = trace_packet_add(p, IP4);

	ip[0] = 0x45;
	ip[6] = 0x40; /* do not fragment */
	ip[8] = TTL;
	ip[9] = 17; /* UDP */
	memcpy(ip + 12, f->from.raw + 12, 4);
	memcpy(ip + 16, f->to.raw + 12, 4);
}

static void add_ip6(struct trace_packet *p, const struct trace_flow *f)
{
	uint8_t *ip = trace_packet_add(p, IP6);

	ip[0] = 0x60;
	ip[6] = 17;
	ip[7] = TTL;
	memcpy(ip + 8, f->from.raw, 16);
	memcpy(ip + 24, f->to.raw, 16);
}

void trace_packet_begin(struct trace_packet *p, const struct trace_flow *f,
			const struct trace_bth *bth)
{
	bool v4 = is_ip4(&f->to) && is_ip4(&f->from);
	uint8_t *at;

	p->len = 0;
	add_mac(p, &f->to);
	add_mac(p, &f->from);
	trace_packet_add16(p, v4 ? 0x0800 : 0x86dd);
	p->ip = p->len;
	if (v4)
		add_ip4(p, f);
	else
		add_ip6(p, f);
	trace_packet_add16(p, 0xc000 | (bth->dest_qpn & 0x3fff));
	trace_packet_add16(p, ROCE_PORT);
	trace_packet_add32(p, 0); /* length and checksum */
	p->bth = p->len;
	at = trace_packet_add(p, 4);
	at[0] = bth->opcode;
	at[1] = (uint8_t)(bth->solicited << 7 | 1 << 6); /* migrated: the usual state */
	put16(at + 2, 0xffff);				 /* P_Key */
	trace_packet_add32(p, bth->dest_qpn & 0xffffff);
	trace_packet_add32(p, (uint32_t)bth->ack_request << 31 | (bth->psn & 0xffffff));
}

/* ---- checksums ---------------------------------------------------------------------- */

static uint32_t sum16(uint32_t sum, const uint8_t *data, size_t n)
{
	for (; n > 1; data += 2, n -= 2)
		sum += (uint32_t)data[0] << 8 | data[1];
	return n ? sum + ((uint32_t)data[0] << 8) : sum;
}

static uint32_t fold(uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return ~sum & 0xffff;
}

/* Over the packet with the fields that routers change set to ones, after eight bytes of ones for
 * the header that only InfiniBand links have. */
static uint32_t icrc(const struct trace_packet *p)
{
	uint8_t head[8 + IP6 + UDP + BTH];
	uint8_t *ip = head + 8, *udp;
	unsigned n = p->bth - p->ip + BTH;
	uint32_t c;

	memset(head, 0xff, 8);
	memcpy(ip, p->data + p->ip, n);
	if (p->bth - p->ip == IP4 + UDP) {
		ip[1] = ip[8] = 0xff;
		ip[10] = ip[11] = 0xff;
		udp = ip + IP4;
	} else {
		ip[0] |= 0x0f;
		ip[1] = ip[2] = ip[3] = ip[7] = 0xff;
		udp = ip + IP6;
	}
	udp[6] = udp[7] = 0xff;
	udp[UDP + 4] = 0xff;
	c = crc(UINT32_MAX, head, 8 + n);
	return ~crc(c, p->data + p->bth + BTH, p->len - p->bth - BTH);
}

static void finish_ip4(struct trace_packet *p)
{
	uint8_t *ip = p->data + p->ip;

	put16(ip + 2, p->len - p->ip + ICRC);
	put16(ip + 10, fold(sum16(0, ip, IP4)));
}

/* IPv6 does not allow a UDP checksum of zero. */
static void finish_udp6(struct trace_packet *p)
{
	uint8_t *ip = p->data + p->ip, *udp = ip + IP6;
	unsigned n = p->len - p->bth + UDP;
	uint32_t sum = fold(sum16(sum16(17 + n, ip + 8, 32), udp, n));

	put16(udp + 6, sum ? sum : 0xffff);
}

void trace_packet_end(struct trace_packet *p)
{
	unsigned pad = -(p->len - p->bth) & 3;
	bool v4 = p->bth - p->ip == IP4 + UDP;
	uint32_t le;

	trace_packet_add(p, pad);
	p->data[p->bth + 1] |= (uint8_t)(pad << 4);
	put16(p->data + p->bth - UDP + 4, p->len - p->bth + UDP + ICRC);
	if (v4)
		finish_ip4(p);
	else
		put16(p->data + p->ip + 4, p->len - p->bth + UDP + ICRC);
	le = htole32(icrc(p));
	memcpy(trace_packet_add(p, ICRC), &le, ICRC);
	if (!v4)
		finish_udp6(p);
	trace_put(p);
}

void trace_packet_finish(struct trace_packet *p, uint16_t source_port, uint16_t ip_id)
{
	bool v4 = p->bth - p->ip == IP4 + UDP;
	uint8_t *ip = p->data + p->ip, *udp = p->data + p->bth - UDP;
	unsigned n = p->len - p->bth + UDP;

	put16(udp, source_port);
	put16(udp + 4, n);
	if (v4) {
		put16(ip + 2, p->len - p->ip);
		put16(ip + 4, ip_id);
		put16(ip + 10, fold(sum16(0, ip, IP4)));
	} else {
		put16(ip + 4, n);
		finish_udp6(p);
	}
	trace_put(p);
}

static const struct sr_part part = {.start = start};
SR_PART(part);
