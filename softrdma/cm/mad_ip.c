/* SPDX-License-Identifier: BSD-3-Clause */
#include "softrdma/cm/mad_ip.h"

#include <errno.h>
#include <string.h>

static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

static void get_address(const uint8_t at[16], bool is_v6, uint8_t ret[16])
{
	memcpy(ret, at, 16);
	if (!is_v6)
		memcpy(ret, mapped, sizeof(mapped));
}

static void put_address(const uint8_t gid[16], bool is_v6, uint8_t ret[16])
{
	memcpy(ret, gid, 16);
	if (!is_v6)
		memset(ret, 0, sizeof(mapped));
}

int mad_ip_decode(const uint8_t bytes[MAD_IP_BYTES], struct mad_ip *ret)
{
	unsigned version = bytes[1] >> 4;

	if (bytes[0] || (version != 4 && version != 6))
		return -EPROTO;
	ret->is_v6 = version == 6;
	ret->source_port = (uint16_t)(bytes[2] << 8 | bytes[3]);
	get_address(bytes + 4, ret->is_v6, ret->source);
	get_address(bytes + 20, ret->is_v6, ret->destination);
	return 0;
}

void mad_ip_encode(const struct mad_ip *ip, uint8_t ret[MAD_IP_BYTES])
{
	ret[0] = 0;
	ret[1] = ip->is_v6 ? 0x60 : 0x40;
	ret[2] = (uint8_t)(ip->source_port >> 8);
	ret[3] = (uint8_t)ip->source_port;
	put_address(ip->source, ip->is_v6, ret + 4);
	put_address(ip->destination, ip->is_v6, ret + 20);
}
