/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Text to and from sizes, durations and plain numbers; see units.h. Pure functions.
 *
 * A fraction is accepted when the result is whole ("1.5GiB", "0.5s"): to refuse a size is better
 * than to round it without notice. SI names (kB, MB) are refused, because half of their users mean
 * the IEC unit.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/units.h"

#define TIB (1024 * GIB)
#define PIB (1024 * TIB)
#define EIB (1024 * PIB)

struct unit {
	const char *name; /* NULL ends the table */
	uint64_t factor;
};

static const struct unit sizes[] = {
	{"", 1},      {"B", 1},	    {"K", KIB},	  {"KiB", KIB}, {"M", MIB},
	{"MiB", MIB}, {"G", GIB},   {"GiB", GIB}, {"T", TIB},	{"TiB", TIB},
	{"P", PIB},   {"PiB", PIB}, {"E", EIB},	  {"EiB", EIB}, {NULL, 0},
};

static const struct unit durations[] = {
	{"", NSEC_PER_SEC},	     {"ns", 1},
	{"us", NSEC_PER_USEC},	     {"ms", NSEC_PER_MSEC},
	{"s", NSEC_PER_SEC},	     {"sec", NSEC_PER_SEC},
	{"min", 60 * NSEC_PER_SEC},  {"h", 3600 * NSEC_PER_SEC},
	{"d", 86400 * NSEC_PER_SEC}, {NULL, 0},
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static int parse_digits(const char **p, uint64_t *ret_value)
{
	uint64_t value = 0;

	if (!is_digit(**p))
		return -EINVAL;
	for (; is_digit(**p); (*p)++)
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(**p - '0'), &value))
			return -ERANGE;
	*ret_value = value;
	return 0;
}

int units_parse_uint(const char *s, uint64_t *ret_value)
{
	uint64_t value;
	int r = parse_digits(&s, &value);

	if (r < 0)
		return r;
	if (*s)
		return -EINVAL;
	*ret_value = value;
	return 0;
}

/* ".25" is 25 of 100. Accepts a text without a fraction. */
static int parse_fraction(const char **p, uint64_t *ret_part, uint64_t *ret_of)
{
	*ret_part = 0;
	*ret_of = 1;
	if (**p != '.')
		return 0;
	(*p)++;
	if (!is_digit(**p))
		return -EINVAL;
	for (; is_digit(**p); (*p)++) {
		if (*ret_of == 1000000000)
			return -EINVAL;
		*ret_part = *ret_part * 10 + (uint64_t)(**p - '0');
		*ret_of *= 10;
	}
	return 0;
}

static const struct unit *find_unit(const struct unit *units, const char *name)
{
	for (; units->name; units++)
		if (!strcasecmp(units->name, name))
			return units;
	return NULL;
}

static int parse_scaled(const char *s, const struct unit *units, uint64_t *ret_value)
{
	uint64_t value, part, of;
	const struct unit *unit;
	int r = parse_digits(&s, &value);

	if (r < 0)
		return r;
	r = parse_fraction(&s, &part, &of);
	if (r < 0)
		return r;
	if (s[0] == ' ' && s[1])
		s++;
	unit = find_unit(units, s);
	if (!unit)
		return -EINVAL;
	if (__builtin_mul_overflow(value, unit->factor, &value) ||
	    __builtin_mul_overflow(part, unit->factor, &part))
		return -ERANGE;
	if (part % of)
		return -EINVAL;
	if (__builtin_add_overflow(value, part / of, &value))
		return -ERANGE;
	*ret_value = value;
	return 0;
}

int units_parse_size(const char *s, uint64_t *ret_bytes)
{
	return parse_scaled(s, sizes, ret_bytes);
}

int units_parse_duration(const char *s, uint64_t *ret_ns)
{
	return parse_scaled(s, durations, ret_ns);
}

static const char *const size_names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};

/* "1.50" becomes "1.5", "2.00" becomes "2". The text must have a point. */
static void trim_zeros(char *s)
{
	char *end = s + strlen(s);

	while (end[-1] == '0')
		*--end = '\0';
	if (end[-1] == '.')
		*--end = '\0';
}

const char *units_format_size(char buf[UNITS_MAX], uint64_t bytes)
{
	double value = (double)bytes;
	unsigned i = 0;
	int decimals;

	for (; value >= 999.5 && i < ARRAY_LEN(size_names) - 1; i++)
		value /= 1024;
	decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
	snprintf(buf, UNITS_MAX, "%.*f", decimals, value);
	if (decimals)
		trim_zeros(buf);
	strcat(buf, size_names[i]);
	return buf;
}

const char *units_format_exact(char buf[UNITS_MAX], uint64_t bytes)
{
	unsigned i = 0;

	for (; bytes && bytes % 1024 == 0 && i < ARRAY_LEN(size_names) - 1; i++)
		bytes /= 1024;
	snprintf(buf, UNITS_MAX, "%" PRIu64 "%s", bytes, size_names[i]);
	return buf;
}

/* Below a minute: two significant digits are enough to compare latencies by eye. */
static const char *format_short(char buf[UNITS_MAX], double value, const char *unit)
{
	int decimals = value < 9.95 ? 1 : 0;

	snprintf(buf, UNITS_MAX, "%.*f", decimals, value);
	if (decimals)
		trim_zeros(buf);
	strcat(buf, unit);
	return buf;
}

static const char *format_long(char buf[UNITS_MAX], uint64_t seconds)
{
	unsigned s = (unsigned)(seconds % 60), min = (unsigned)(seconds / 60 % 60);
	unsigned h = (unsigned)(seconds / 3600 % 24);

	if (seconds < 3600)
		snprintf(buf, UNITS_MAX, "%umin%02us", min, s);
	else if (seconds < 86400)
		snprintf(buf, UNITS_MAX, "%uh%02umin", h, min);
	else
		snprintf(buf, UNITS_MAX, "%" PRIu64 "d%02uh", seconds / 86400, h);
	return buf;
}

const char *units_format_duration(char buf[UNITS_MAX], uint64_t ns)
{
	double value = (double)ns;

	if (ns == 0)
		return strcpy(buf, "0s");
	if (ns < 1000)
		return format_short(buf, value, "ns");
	if (value < 999.5 * NSEC_PER_USEC)
		return format_short(buf, value / NSEC_PER_USEC, "us");
	if (value < 999.5 * NSEC_PER_MSEC)
		return format_short(buf, value / NSEC_PER_MSEC, "ms");
	if (value < 59.5 * NSEC_PER_SEC)
		return format_short(buf, value / NSEC_PER_SEC, "s");
	return format_long(buf, ns / NSEC_PER_SEC + (ns % NSEC_PER_SEC >= NSEC_PER_SEC / 2));
}
