/* SPDX-License-Identifier: BSD-3-Clause */
/* The addresses of a connection, in front of the private data of a REQ: annex A11. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define MAD_IP_BYTES 36

struct mad_ip {
	bool is_v6;
	uint16_t source_port;
	uint8_t source[16], destination[16]; /* as GIDs */
};

/* 0, or -EPROTO: another version, or neither IPv4 nor IPv6. */
int mad_ip_decode(const uint8_t bytes[MAD_IP_BYTES], struct mad_ip *ret);
void mad_ip_encode(const struct mad_ip *ip, uint8_t ret[MAD_IP_BYTES]);
