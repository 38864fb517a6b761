/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Static probes (USDT) for bpftrace, perf and SystemTap; rblkd(8) and rblk(8) list them. A probe
 * that no tracer is attached to costs one nop, and a note in an ELF section that is not loaded. To
 * keep it so, its arguments are variables, fields and addresses, and never need a computation.
 * Without <sys/sdt.h> there are no probes. Any thread.
 */
#pragma once

#include <stdint.h>

/* A little-endian field of a wire struct, read without conversion. */
typedef uint16_t probe_u16 __attribute__((may_alias, aligned(1)));
typedef uint32_t probe_u32 __attribute__((may_alias, aligned(1)));
#define PROBE_LE16(field) (*(const probe_u16 *)&(field))
#define PROBE_LE32(field) (*(const probe_u32 *)&(field))
/* Widened, since gdb has no name for some byte registers that a note can contain. */
#define PROBE_BYTE(field) ((uint32_t)(field))

#ifdef HAVE_SDT
#	define SDT_USE_VARIADIC
#	include <sys/sdt.h>
/* 1 to 12 arguments: numbers and pointers. */
#	define PROBE(provider, name, ...) STAP_PROBEV(provider, name, __VA_ARGS__)
#else
static inline void probe_nothing(int n, ...)
{
}
#	define PROBE(provider, name, ...)                                                         \
		do {                                                                               \
			if (0)                                                                     \
				probe_nothing(0, __VA_ARGS__);                                     \
		} while (0)
#endif
