/* SPDX-License-Identifier: BSD-3-Clause */
/* The header in front of a datagram; see datagram.h. */
#include "softrdma/fabric/datagram.h"

#include <string.h>

enum {
	IP4_AT = 20, /* of the IPv4 header */
	IP4_BYTES = 20,
	UDP = 17,
	UDP_BYTES = 8 + 12 + 8 + 4, /* UDP, BTH, DETH, ICRC */
	DONT_FRAGMENT = 0x40,
};

static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

bool sr_gid_is_ip4(const union ibv_gid *gid)
{
	return !memcmp(gid->raw, mapped, sizeof(mapped));
}

bool sr_gid_is_multicast(const union ibv_gid *gid)
{
	return sr_gid_is_ip4(gid) ? gid->raw[12] >> 4 == 14 : gid->raw[0] == 0xff;
}

static uint8_t *put16(uint8_t *at, uint32_t v)
{
	at[0] = (uint8_t)(v >> 8);
	at[1] = (uint8_t)v;
	return at + 2;
}

/* RFC 1071; 0 over a header that has its checksum. */
static uint16_t checksum(const uint8_t *header)
{
	uint32_t sum = 0;

	for (unsigned i = 0; i < IP4_BYTES; i += 2)
		sum += (uint32_t)header[i] << 8 | header[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t) ~(sum + (sum >> 16));
}

static void build_ip4(const struct sr_datagram *d, uint32_t length, uint8_t *at)
{
	const struct sr_address *a = d->address;

	at[0] = 0x45;
	at[1] = a->traffic_class;
	put16(at + 2, IP4_BYTES + length);
	at[6] = DONT_FRAGMENT;
	at[8] = a->hop_limit;
	at[9] = UDP;
	memcpy(at + 12, a->local.raw + 12, 4);
	memcpy(at + 16, a->remote.raw + 12, 4);
	put16(at + 10, checksum(at));
}

void sr_grh_build(const struct sr_datagram *d, uint8_t ret[SR_GRH_BYTES])
{
	const struct sr_address *a = d->address;
	uint32_t length = UDP_BYTES + d->length + (-d->length & 3) + (d->has_imm ? 4 : 0);

	memset(ret, 0, SR_GRH_BYTES);
	if (sr_gid_is_ip4(&a->remote)) {
		build_ip4(d, length, ret + IP4_AT);
		return;
	}
	put16(ret, 6u << 12 | (uint32_t)a->traffic_class << 4 | (a->flow_label >> 16 & 15));
	put16(ret + 2, a->flow_label);
	put16(ret + 4, length);
	ret[6] = UDP;
	ret[7] = a->hop_limit;
	memcpy(ret + 8, a->local.raw, 16);
	memcpy(ret + 24, a->remote.raw, 16);
}

static void read_ip4(const uint8_t *at, struct sr_address *ret)
{
	memcpy(ret->remote.raw, mapped, sizeof(mapped));
	memcpy(ret->local.raw, mapped, sizeof(mapped));
	memcpy(ret->remote.raw + 12, at + 12, 4);
	memcpy(ret->local.raw + 12, at + 16, 4);
	ret->traffic_class = at[1];
	ret->hop_limit = at[8];
}

void sr_grh_read(const uint8_t grh[SR_GRH_BYTES], struct sr_address *ret)
{
	*ret = (struct sr_address){0};
	if (grh[IP4_AT] == 0x45 && !checksum(grh + IP4_AT)) {
		read_ip4(grh + IP4_AT, ret);
		return;
	}
	memcpy(ret->remote.raw, grh + 8, 16);
	memcpy(ret->local.raw, grh + 24, 16);
	ret->traffic_class = (uint8_t)(grh[0] << 4 | grh[1] >> 4);
	ret->flow_label = (uint32_t)(grh[1] & 15) << 16 | (uint32_t)grh[2] << 8 | grh[3];
	ret->hop_limit = grh[7];
}
