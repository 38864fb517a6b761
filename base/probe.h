/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Static probes (USDT), for bpftrace, perf and SystemTap; rblkd(8) and rblk(8) list them. One that
 * nobody looks at is a nop, and a note in a section that is not loaded. So its arguments are what is at
 * hand: variables, fields, addresses; nothing that has to be worked out. Without <sys/sdt.h> there are
 * none.
 */
#pragma once

#include <stdint.h>

/* A field as it came from the wire (little endian), read as it lies there. */
typedef uint16_t probe_u16 __attribute__((may_alias, aligned(1)));
typedef uint32_t probe_u32 __attribute__((may_alias, aligned(1)));
#define PROBE_LE16(field) (*(const probe_u16 *)&(field))
#define PROBE_LE32(field) (*(const probe_u32 *)&(field))
/* gdb has no name for every byte of a register that a note may speak of. */
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
