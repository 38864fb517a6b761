/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ICRC; see icrc.h. Where the processor multiplies without carries (PCLMULQDQ), runs of 64
 * bytes are folded (Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ
 * Instruction", Intel 2009); slicing by 8 does the rest, and everything elsewhere.
 */
#include "softrdma/fabric/roce/icrc.h"

#include <endian.h>
#include <pthread.h>
#include <string.h>

#include "softrdma/fabric/roce/packet.h"

#if defined(__x86_64__)
#	include <immintrin.h>
#endif

enum {
	IP4 = 20,
	IP4_AFTER_ID = 14,
	IP6 = 40,
	UDP = 8,
	BTH = ROCE_BTH_BYTES,
	FOLD_MIN = 64,
	SLICES = 8,
};

#define POLYNOMIAL	   0xedb88320u
#define X_TO_MINUS_1	   0xdb710641u /* the inverse of x; x^0 is 0x80000000 */
#define STATE_AFTER_8_ONES 0xdebb20e3u /* the header that only InfiniBand links have */

static uint32_t table[SLICES][256];
static uint32_t back[32]; /* x^(-8 * 2^i) */
static bool folds;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* ---- polynomials modulo POLYNOMIAL, the lowest power in the top bit ------------------------- */

static uint32_t times_x(uint32_t a)
{
	return a & 1 ? a >> 1 ^ POLYNOMIAL : a >> 1;
}

static uint32_t multiply(uint32_t a, uint32_t b)
{
	uint32_t product = 0;

	for (; a; a <<= 1, b = times_x(b))
		if (a & 0x80000000u)
			product ^= b;
	return product;
}

/* The state n zero bytes ago. */
static uint32_t rewind_zeros(uint32_t state, size_t n)
{
	for (unsigned i = 0; n; i++, n >>= 1)
		if (n & 1)
			state = multiply(state, back[i]);
	return state;
}

static void fill_tables(void)
{
	uint32_t power = X_TO_MINUS_1;

	for (uint32_t i = 0; i < 256; i++) {
		uint32_t c = i;

		for (int k = 0; k < 8; k++)
			c = times_x(c);
		table[0][i] = c;
	}
	for (uint32_t s = 1; s < SLICES; s++)
		for (uint32_t i = 0; i < 256; i++)
			table[s][i] = table[s - 1][i] >> 8 ^ table[0][table[s - 1][i] & 0xff];
	for (int k = 0; k < 3; k++)
		power = multiply(power, power);
	for (unsigned i = 0; i < 32; i++, power = multiply(power, power))
		back[i] = power;
#if defined(__x86_64__)
	folds = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
#endif
}

void roce_icrc_init(void)
{
	pthread_once(&once, fill_tables);
}

/* ---- CRC-32 --------------------------------------------------------------------------------- */

uint32_t roce_crc_by_table(uint32_t state, const uint8_t *data, size_t n)
{
	for (; n >= 8; data += 8, n -= 8) {
		uint64_t w;

		memcpy(&w, data, 8);
		w = le64toh(w) ^ state;
		state = 0;
		for (unsigned i = 0; i < 8; i++)
			state ^= table[7 - i][w >> (8 * i) & 0xff];
	}
	while (n--)
		state = state >> 8 ^ table[0][(uint8_t)state ^ *data++];
	return state;
}

#if defined(__x86_64__)

/* The constants are powers of x modulo the polynomial, from the paper. */
#	define FOLD_TARGET __attribute__((target("pclmul,sse4.1")))

FOLD_TARGET static __m128i fold_by(__m128i x, __m128i keys, __m128i next)
{
	__m128i low = _mm_clmulepi64_si128(x, keys, 0x00);
	__m128i high = _mm_clmulepi64_si128(x, keys, 0x11);

	return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

FOLD_TARGET static __m128i load(const uint8_t *at)
{
	return _mm_loadu_si128((const __m128i *)(const void *)at);
}

/* 128 bits to the 32 of the state: Barrett's reduction. */
FOLD_TARGET static uint32_t reduce(__m128i x, __m128i keys)
{
	const __m128i k5 = _mm_set_epi64x(0, 0x163cd6124);
	const __m128i barrett = _mm_set_epi64x(0x1f7011641, 0x1db710641);
	const __m128i low = _mm_setr_epi32(~0, 0, ~0, 0);
	__m128i y = _mm_clmulepi64_si128(x, keys, 0x10);

	x = _mm_xor_si128(_mm_srli_si128(x, 8), y);
	y = _mm_srli_si128(x, 4);
	x = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(x, low), k5, 0x00), y);
	y = _mm_clmulepi64_si128(_mm_and_si128(x, low), barrett, 0x10);
	y = _mm_clmulepi64_si128(_mm_and_si128(y, low), barrett, 0x00);
	return (uint32_t)_mm_extract_epi32(_mm_xor_si128(x, y), 1);
}

/* n is at least FOLD_MIN and a multiple of 16. */
FOLD_TARGET static uint32_t crc_by_folding(uint32_t state, const uint8_t *data, size_t n)
{
	const __m128i by_64 = _mm_set_epi64x(0x1c6e41596, 0x154442bd4);
	const __m128i by_16 = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
	__m128i x[4];

	for (int i = 0; i < 4; i++)
		x[i] = load(data + 16 * i);
	x[0] = _mm_xor_si128(x[0], _mm_cvtsi32_si128((int)state));
	for (data += 64, n -= 64; n >= 64; data += 64, n -= 64)
		for (int i = 0; i < 4; i++)
			x[i] = fold_by(x[i], by_64, load(data + 16 * i));
	for (int i = 1; i < 4; i++)
		x[0] = fold_by(x[0], by_16, x[i]);
	for (; n; data += 16, n -= 16)
		x[0] = fold_by(x[0], by_16, load(data));
	return reduce(x[0], by_16);
}

#else

static uint32_t crc_by_folding(uint32_t state, const uint8_t *data, size_t n)
{
	return roce_crc_by_table(state, data, n);
}

#endif

uint32_t roce_crc(uint32_t state, const uint8_t *data, size_t n)
{
	size_t whole = n & ~(size_t)15;

	if (!folds || n < FOLD_MIN)
		return roce_crc_by_table(state, data, n);
	state = crc_by_folding(state, data, whole);
	return roce_crc_by_table(state, data + whole, n - whole);
}

/* ---- packets -------------------------------------------------------------------------------- */

bool roce_gid_is_ip4(const union ibv_gid *gid)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	return !memcmp(gid->raw, mapped, sizeof(mapped));
}

static bool is_ip4(const struct roce_ends *e)
{
	return roce_gid_is_ip4(&e->from) && roce_gid_is_ip4(&e->to);
}

static void put16(uint8_t *at, size_t v)
{
	at[0] = (uint8_t)(v >> 8);
	at[1] = (uint8_t)v;
}

/* The IP header with its variable fields as ones; udp: bytes from the UDP header to the ICRC. */
static size_t put_ip(uint8_t *ip, const struct roce_ends *e, size_t udp, uint16_t id, bool df)
{
	if (is_ip4(e)) {
		memset(ip, 0xff, IP4);
		ip[0] = 0x45;
		put16(ip + 2, IP4 + udp);
		put16(ip + 4, id);
		put16(ip + 6, df ? 0x4000 : 0);
		ip[9] = 17; /* UDP */
		memcpy(ip + 12, e->from.raw + 12, 4);
		memcpy(ip + 16, e->to.raw + 12, 4);
		return IP4;
	}
	memset(ip, 0xff, IP6);
	ip[0] = 0x6f;
	put16(ip + 4, udp);
	ip[6] = 17;
	memcpy(ip + 8, e->from.raw, 16);
	memcpy(ip + 24, e->to.raw, 16);
	return IP6;
}

uint32_t roce_icrc(const struct roce_ends *e, const uint8_t *bytes, size_t n, uint16_t ip_id,
		   bool df)
{
	uint8_t head[IP6 + UDP + BTH];
	size_t udp = UDP + n + ROCE_ICRC_BYTES;
	uint8_t *at = head + put_ip(head, e, udp, ip_id, df);
	uint32_t state;

	put16(at, e->source_port);
	put16(at + 2, ROCE_PORT);
	put16(at + 4, udp);
	put16(at + 6, 0xffff); /* the UDP checksum */
	memcpy(at + UDP, bytes, BTH);
	at[UDP + 4] = 0xff; /* FECN, BECN and reserved bits */
	state = roce_crc(STATE_AFTER_8_ONES, head, (size_t)(at - head) + UDP + BTH);
	return ~roce_crc(state, bytes + BTH, n - BTH);
}

bool roce_icrc_solve(const struct roce_ends *e, const uint8_t *bytes, size_t n, uint32_t stored,
		     bool df, uint16_t *ret_ip_id)
{
	uint32_t difference = roce_icrc(e, bytes, n, 0, df) ^ stored;

	*ret_ip_id = 0;
	if (!difference || !is_ip4(e))
		return !difference;
	/* The difference by the ID alone, seen where the ID's two bytes enter the CRC. */
	difference = rewind_zeros(difference, 2 + IP4_AFTER_ID + UDP + n);
	*ret_ip_id = (uint16_t)((difference & 0xff) << 8 | (difference >> 8 & 0xff));
	return !(difference >> 16);
}
