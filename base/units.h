/* SPDX-License-Identifier: BSD-3-Clause */
/* Text to and from sizes, durations and plain numbers. Pure, any thread. The caller owns buf. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Decimal digits and nothing else. Returns 0 or -EINVAL/-ERANGE. */
int units_parse_uint(const char *s, uint64_t *ret_value);
/* "4096", "4KiB", "1 MiB", "1G" (IEC; K, M, G, T alone mean KiB...). Returns 0 or
 * -EINVAL/-ERANGE. */
int units_parse_size(const char *s, uint64_t *ret_bytes);
/* "500ms", "5s", "2min", "1h"; a bare number is seconds. Returns 0 or -EINVAL/-ERANGE. */
int units_parse_duration(const char *s, uint64_t *ret_ns);

#define UNITS_MAX 24
/* "100GiB", "1.5MiB", "512B": at most 3 significant digits. */
const char *units_format_size(char buf[UNITS_MAX], uint64_t bytes);
/* In the largest unit that divides it: "100GiB", "1536KiB", "4097B". */
const char *units_format_exact(char buf[UNITS_MAX], uint64_t bytes);
/* "38us", "1.2ms", "12s", "5min07s", "3d02h". */
const char *units_format_duration(char buf[UNITS_MAX], uint64_t ns);
