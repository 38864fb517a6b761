/* SPDX-License-Identifier: BSD-3-Clause */
/* See frame.h. */
#include <stdbool.h>
#include <string.h>

#include "base/bits.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/crc32.h"
#include "tools/shared/frame.h"

enum {
	ETHERNET = 14,
	IP4 = 20,
	IP6 = 40,
	UDP = 8,
	BTH = 12,
	ICRC = 4,
	ROCE_PORT = 4791,
	IP_UDP = 17,
	HOPS = 64,
};

uint8_t *frame_add(struct frame *frame, unsigned n)
{
	uint8_t *at = frame->data + frame->n;

	check(n <= sizeof(frame->data) - frame->n);
	memset(at, 0, n);
	frame->n += n;
	return at;
}

static void put16(uint8_t *at, uint32_t v)
{
	at[0] = (uint8_t)(v >> 8);
	at[1] = (uint8_t)v;
}

void frame_add16(struct frame *frame, uint32_t v)
{
	put16(frame_add(frame, 2), v);
}

void frame_add32(struct frame *frame, uint32_t v)
{
	be32 wire = put_be32(v);

	memcpy(frame_add(frame, 4), &wire, 4);
}

void frame_add64(struct frame *frame, uint64_t v)
{
	be64 wire = put_be64(v);

	memcpy(frame_add(frame, 8), &wire, 8);
}

/* ---- headers -------------------------------------------------------------------------------- */

static bool is_ip4(const uint8_t address[16])
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	return !memcmp(address, mapped, sizeof(mapped));
}

/* Locally administered; the last four bytes are the address's. */
static void add_mac(struct frame *frame, const uint8_t address[16])
{
	uint8_t *at = frame_add(frame, 6);

	at[0] = 0x02;
	memcpy(at + 2, address + 12, 4);
}

static void add_ip4(struct frame *frame, const uint8_t from[16], const uint8_t to[16])
{
	uint8_t *ip = frame_add(frame, IP4);

	ip[0] = 0x45;
	ip[6] = 0x40; /* do not fragment */
	ip[8] = HOPS;
	ip[9] = IP_UDP;
	memcpy(ip + 12, from + 12, 4);
	memcpy(ip + 16, to + 12, 4);
}

static void add_ip6(struct frame *frame, const uint8_t from[16], const uint8_t to[16])
{
	uint8_t *ip = frame_add(frame, IP6);

	ip[0] = 0x60;
	ip[6] = IP_UDP;
	ip[7] = HOPS;
	memcpy(ip + 8, from, 16);
	memcpy(ip + 24, to, 16);
}

void frame_begin(struct frame *frame, const uint8_t from[16], const uint8_t to[16],
		 const struct frame_bth *bth)
{
	bool v4 = is_ip4(from) && is_ip4(to);

	frame->n = 0;
	add_mac(frame, to);
	add_mac(frame, from);
	frame_add16(frame, v4 ? 0x0800 : 0x86dd);
	frame->ip = frame->n;
	if (v4)
		add_ip4(frame, from, to);
	else
		add_ip6(frame, from, to);
	/* As adapters choose it: by the queue pair. */
	frame_add16(frame, 0xc000 | (bth->dest_qpn & 0x3fff));
	frame_add16(frame, ROCE_PORT);
	frame_add32(frame, 0); /* length and checksum */
	frame->bth = frame->n;
	frame_add32(frame, (uint32_t)bth->opcode << 24 | 1 << 22 | 0xffff); /* migrated; P_Key */
	frame_add32(frame, bth->dest_qpn & 0xffffff);
	frame_add32(frame, bth->psn & 0xffffff);
}

/* ---- checksums ------------------------------------------------------------------------------ */

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

/* Over the frame with the fields that routers change set to ones, after eight bytes of ones for the
 * header that only InfiniBand links have. */
static uint32_t icrc(const struct frame *frame)
{
	uint8_t head[8 + IP6 + UDP + BTH], *ip = head + 8, *udp;
	unsigned n = frame->bth - frame->ip + BTH;
	uint32_t crc;

	memset(head, 0xff, 8);
	memcpy(ip, frame->data + frame->ip, n);
	if (ip[0] >> 4 == 4) {
		ip[1] = ip[8] = ip[10] = ip[11] = 0xff;
		udp = ip + IP4;
	} else {
		ip[0] |= 0x0f;
		ip[1] = ip[2] = ip[3] = ip[7] = 0xff;
		udp = ip + IP6;
	}
	udp[6] = udp[7] = udp[UDP + 4] = 0xff;
	crc = crc32_add(0, head, 8 + n);
	return crc32_add(crc, frame->data + frame->bth + BTH, frame->n - frame->bth - BTH);
}

static void add_icrc(struct frame *frame)
{
	le32 sum = put_le32(icrc(frame));

	memcpy(frame_add(frame, ICRC), &sum, ICRC);
}

/* IPv6 does not allow a UDP checksum of zero. */
static void sum_udp6(struct frame *frame, unsigned n_udp)
{
	uint8_t *ip = frame->data + frame->ip, *udp = ip + IP6;
	uint32_t sum = fold(sum16(sum16(IP_UDP + n_udp, ip + 8, 32), udp, n_udp));

	put16(udp + 6, sum ? sum : 0xffff);
}

void frame_end(struct frame *frame)
{
	uint8_t *ip = frame->data + frame->ip;
	bool v4 = ip[0] >> 4 == 4;
	unsigned pad = -(frame->n - frame->bth) & 3, n_udp;

	frame_add(frame, pad);
	n_udp = frame->n - frame->bth + ICRC + UDP;
	frame->data[frame->bth + 1] |= (uint8_t)(pad << 4);
	put16(frame->data + frame->bth - UDP + 4, n_udp);
	put16(ip + (v4 ? 2 : 4), v4 ? n_udp + IP4 : n_udp);
	if (v4)
		put16(ip + 10, fold(sum16(0, ip, IP4)));
	add_icrc(frame);
	if (!v4)
		sum_udp6(frame, n_udp);
}

/* ---- pcapng --------------------------------------------------------------------------------- */

enum {
	BLOCK_SECTION = 0x0a0d0d0a,
	BLOCK_INTERFACE = 1,
	BLOCK_PACKET = 6,
	LINK_ETHERNET = 1,
	OPT_IF_NAME = 2,
	OPT_IF_TSRESOL = 9,
	NAME_MAX_BYTES = 16,
};

static void write32(FILE *file, uint32_t v)
{
	fwrite(&v, sizeof(v), 1, file);
}

void frame_file_begin(FILE *file, const char *name)
{
	char text[NAME_MAX_BYTES] = "";
	unsigned n = (unsigned)MIN(strlen(name), sizeof(text)), padded = (n + 3) & ~3u;

	memcpy(text, name, n);
	write32(file, BLOCK_SECTION);
	write32(file, 28);
	write32(file, 0x1a2b3c4d); /* byte order of this file */
	write32(file, 1);	   /* version 1.0 */
	write32(file, UINT32_MAX); /* the section's length is not known */
	write32(file, UINT32_MAX);
	write32(file, 28);
	write32(file, BLOCK_INTERFACE);
	write32(file, 36 + padded);
	write32(file, LINK_ETHERNET);
	write32(file, 0); /* no limit on a frame's length */
	write32(file, OPT_IF_NAME | n << 16);
	fwrite(text, padded, 1, file);
	write32(file, OPT_IF_TSRESOL | 1 << 16);
	write32(file, 9); /* 10^-9 s */
	write32(file, 0); /* end of options */
	write32(file, 36 + padded);
}

void frame_file_add(FILE *file, const struct frame *frame, uint64_t wall_ns)
{
	uint32_t padded = (frame->n + 3) & ~3u;

	write32(file, BLOCK_PACKET);
	write32(file, 32 + padded);
	write32(file, 0); /* interface */
	write32(file, (uint32_t)(wall_ns >> 32));
	write32(file, (uint32_t)wall_ns);
	write32(file, frame->n);
	write32(file, frame->n);
	fwrite(frame->data, frame->n, 1, file);
	fwrite("\0\0\0", padded - frame->n, 1, file);
	write32(file, 32 + padded);
}
