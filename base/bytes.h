/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Integers in wire order: structs of bytes with alignment 1. So a wire struct needs no packing and
 * has no padding, and a forgotten conversion does not compile. get_le16(v) reads one, put_le16(x)
 * makes one. Pure, any thread.
 */
#pragma once

#include <assert.h>
#include <endian.h>
#include <stdint.h>
#include <string.h>

typedef struct {
	uint8_t b[2];
} le16;
typedef struct {
	uint8_t b[3];
} le24;
typedef struct {
	uint8_t b[4];
} le32;
typedef struct {
	uint8_t b[8];
} le64;
typedef struct {
	uint8_t b[2];
} be16;
typedef struct {
	uint8_t b[4];
} be32;
typedef struct {
	uint8_t b[8];
} be64;

#define BYTES_DEFINE(type, host, from_wire, to_wire)                                               \
	static inline host get_##type(type v)                                                      \
	{                                                                                          \
		host x;                                                                            \
		memcpy(&x, v.b, sizeof(x));                                                        \
		return from_wire(x);                                                               \
	}                                                                                          \
	static inline type put_##type(host x)                                                      \
	{                                                                                          \
		type v;                                                                            \
		x = to_wire(x);                                                                    \
		memcpy(v.b, &x, sizeof(x));                                                        \
		return v;                                                                          \
	}

static_assert(_Alignof(le64) == 1 && _Alignof(be64) == 1, "a wire struct has no padding");
static_assert(sizeof(le24) == 3 && sizeof(le32) == 4 && sizeof(be64) == 8, "as on the wire");

BYTES_DEFINE(le16, uint16_t, le16toh, htole16)
BYTES_DEFINE(le32, uint32_t, le32toh, htole32)
BYTES_DEFINE(le64, uint64_t, le64toh, htole64)
BYTES_DEFINE(be16, uint16_t, be16toh, htobe16)
BYTES_DEFINE(be32, uint32_t, be32toh, htobe32)
BYTES_DEFINE(be64, uint64_t, be64toh, htobe64)

static inline uint32_t get_le24(le24 v)
{
	return (uint32_t)v.b[0] | (uint32_t)v.b[1] << 8 | (uint32_t)v.b[2] << 16;
}

/* x must be below 2^24. */
static inline le24 put_le24(uint32_t x)
{
	return (le24){{(uint8_t)x, (uint8_t)(x >> 8), (uint8_t)(x >> 16)}};
}
