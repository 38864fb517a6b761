/* SPDX-License-Identifier: BSD-3-Clause */
/* Little-endian numbers at any address. */
#pragma once

#include <stdint.h>
#include <string.h>

static inline uint16_t rd16(const uint8_t *p)
{
	return (uint16_t)(p[0] | p[1] << 8);
}
static inline uint32_t rd24(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16;
}
static inline uint32_t rd32(const uint8_t *p)
{
	return rd24(p) | (uint32_t)p[3] << 24;
}
static inline uint64_t rd64(const uint8_t *p)
{
	return rd32(p) | (uint64_t)rd32(p + 4) << 32;
}
static inline void wr16(uint8_t *p, unsigned v)
{
	p[0] = (uint8_t)v;
	p[1] = (uint8_t)(v >> 8);
}
static inline void wr32(uint8_t *p, uint32_t v)
{
	wr16(p, v & 0xffff);
	wr16(p + 2, v >> 16);
}
static inline void wr64(uint8_t *p, uint64_t v)
{
	wr32(p, (uint32_t)v);
	wr32(p + 4, (uint32_t)(v >> 32));
}
/* A text in n bytes, with blanks behind it. */
static inline void pad(uint8_t *p, size_t n, const char *s)
{
	memset(p, ' ', n);
	memcpy(p, s, strlen(s));
}
