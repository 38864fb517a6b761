/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nvme+rdma://HOST[:PORT]/NQN?NAME=VALUE&...: parsed from left to right, then the further options,
 * then what concerns several of them. Each name is a row of a table, with its parser and its
 * bounds.
 */
#include "library/options.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/spin.h"
#include "initiator/control/host_identity.h"

static const char scheme[] = "nvme+rdma://";
#define DEFAULT_PORT 4420
#define QUEUES	     8
#define HOUR	     (3600 * NSEC_PER_SEC)

enum {
	URI_MAX = 2048,
};

enum kind {
	KIND_NUMBER32,
	KIND_FLAG,
	KIND_SIZE,
	KIND_DURATION,
	KIND_NEVER, /* a duration, or "never" */
	KIND_SPIN,
	KIND_ADDRESS,
	KIND_PATHS, /* addresses, divided by commas */
	KIND_POLICY,
	KIND_TEXT, /* an array of max bytes */
};

struct row {
	const char *name;
	enum kind kind;
	size_t offset; /* in struct open_options */
	uint64_t min, max;
};

#define CONFIG(field) offsetof(struct open_options, config.field)
#define OPTION(field) offsetof(struct open_options, field)
static const struct row rows[] = {
	{"ns", KIND_NUMBER32, CONFIG(nsid), 1, UINT32_MAX - 1},
	{"queues", KIND_NUMBER32, CONFIG(n_queues), 1, VOLUME_QUEUES_MAX},
	{"queue-size", KIND_NUMBER32, CONFIG(queue_size), 16, 1024},
	{"hostnqn", KIND_TEXT, OPTION(hostnqn), 0, VOLUME_NQN_MAX},
	{"hostid", KIND_TEXT, OPTION(hostid), 0, sizeof(((struct open_options *)0)->hostid)},
	{"host-address", KIND_ADDRESS, CONFIG(host_address), 0, 0},
	{"path", KIND_PATHS, CONFIG(others), 0, 0},
	{"find-paths", KIND_FLAG, CONFIG(finds_paths), 0, 0},
	{"policy", KIND_POLICY, CONFIG(policy), 0, 0},
	{"fabric", KIND_TEXT, OPTION(fabric), 0, sizeof(((struct open_options *)0)->fabric)},
	{"spin", KIND_SPIN, OPTION(spin_ns), 0, 0},
	{"cache", KIND_SIZE, OPTION(cache_bytes), 0, 64 * GIB},
	{"keep-alive", KIND_DURATION, CONFIG(keep_alive_ns), 0, HOUR},
	{"io-timeout", KIND_DURATION, CONFIG(io_timeout_ns), NSEC_PER_SEC, HOUR},
	{"reconnect-delay", KIND_DURATION, CONFIG(reconnect_delay_ns), NSEC_PER_MSEC, HOUR},
	{"ctrl-loss-tmo", KIND_NEVER, CONFIG(ctrl_loss_tmo_ns), 0, UINT64_MAX},
	{"fast-io-fail-tmo", KIND_NEVER, CONFIG(fast_io_fail_tmo_ns), 0, UINT64_MAX},
	{"fail-on-denial", KIND_FLAG, CONFIG(fails_on_denial), 0, 0},
	{"memory-windows", KIND_FLAG, CONFIG(has_windows), 0, 0},
	{"dhchap-secret-file", KIND_TEXT, CONFIG(secret_file), 0, VOLUME_PATH_MAX},
	{"dhchap-ctrl-secret-file", KIND_TEXT, CONFIG(ctrl_secret_file), 0, VOLUME_PATH_MAX},
};

/* ---- values ---- */

static int parse_never(const char *text, uint64_t *into)
{
	if (strcmp(text, "never") != 0 && strcmp(text, "off") != 0 && strcmp(text, "-1") != 0)
		return units_parse_duration(text, into);
	*into = UINT64_MAX;
	return 0;
}

static int parse_flag(const char *text, bool *into)
{
	*into = !strcmp(text, "1") || !strcmp(text, "yes");
	return *into || !strcmp(text, "0") || !strcmp(text, "no") ? 0 : -EINVAL;
}

static int parse_text(const char *text, char *into, size_t n)
{
	if (!*text || strlen(text) >= n)
		return -EINVAL;
	strcpy(into, text);
	return 0;
}

/* Each is one more, whether they come in one value or in several. */
static int parse_paths(const char *text, struct volume_config *config)
{
	char copy[URI_MAX], *rest = copy, *one;

	if (!*text || strlen(text) >= sizeof(copy))
		return -EINVAL;
	strcpy(copy, text);
	while ((one = strsep(&rest, ","))) {
		if (config->n_others == ARRAY_LEN(config->others) ||
		    addr_parse_with_port(one, DEFAULT_PORT, &config->others[config->n_others]) < 0)
			return -EINVAL;
		config->n_others++;
	}
	return 0;
}

static int parse_policy(const char *text, enum volume_policy *into)
{
	static const char *const names[] = {
		[VOLUME_POLICY_LATENCY] = "latency",
		[VOLUME_POLICY_QUEUE_DEPTH] = "queue-depth",
		[VOLUME_POLICY_ROUND_ROBIN] = "round-robin",
	};

	for (unsigned i = 0; i < ARRAY_LEN(names); i++) {
		if (strcmp(text, names[i]) != 0)
			continue;
		*into = (enum volume_policy)i;
		return 0;
	}
	return -EINVAL;
}

static bool is_within(const struct row *row, uint64_t value)
{
	return value >= row->min && value <= row->max;
}

/* The kinds whose value is a number with bounds. */
static int parse_number(const struct row *row, const char *text, uint64_t *into)
{
	int r = -EINVAL;

	switch (row->kind) {
	case KIND_NUMBER32:
		r = units_parse_uint(text, into);
		break;
	case KIND_SIZE:
		r = units_parse_size(text, into);
		break;
	case KIND_DURATION:
		r = units_parse_duration(text, into);
		break;
	case KIND_NEVER:
		r = parse_never(text, into);
		break;
	default:
		break;
	}
	return r < 0 ? r : is_within(row, *into) ? 0 : -ERANGE;
}

static int parse_value(const struct row *row, const char *text, struct open_options *o)
{
	void *into = (char *)o + row->offset;
	uint64_t number;
	int r;

	switch (row->kind) {
	case KIND_FLAG:
		return parse_flag(text, into);
	case KIND_SPIN:
		return spin_parse(text, into);
	case KIND_ADDRESS:
		return addr_parse(text, 0, into);
	case KIND_PATHS:
		return parse_paths(text, &o->config);
	case KIND_POLICY:
		return parse_policy(text, into);
	case KIND_TEXT:
		return parse_text(text, into, row->max);
	default:
		break;
	}
	r = parse_number(row, text, &number);
	if (r == 0 && row->kind == KIND_NUMBER32)
		*(uint32_t *)into = (uint32_t)number;
	else if (r == 0)
		*(uint64_t *)into = number;
	return r;
}

static int apply(const char *name, const char *value, struct open_options *o, struct error *error)
{
	for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
		if (strcmp(rows[i].name, name) != 0)
			continue;
		if (parse_value(&rows[i], value, o) == 0)
			return 0;
		error_set(error, EXIT_USAGE, "librblk(3) lists the values",
			  "option %s: '%.100s' is not a value of it", name, value);
		return -EINVAL;
	}
	error_set(error, EXIT_USAGE, "librblk(3) lists the options", "there is no option '%.100s'",
		  name);
	return -EINVAL;
}

/* ---- the URI ---- */

static int hex_digit(char c)
{
	return isdigit((unsigned char)c) ? c - '0' : tolower((unsigned char)c) - 'a' + 10;
}

/* "%3a" becomes ":", in place. */
static int unescape(char *text)
{
	char *to = text;

	for (const char *from = text; *from; from++, to++) {
		*to = *from;
		if (*from != '%')
			continue;
		if (!isxdigit((unsigned char)from[1]) || !isxdigit((unsigned char)from[2]))
			return -EINVAL;
		*to = (char)(hex_digit(from[1]) << 4 | hex_digit(from[2]));
		if (!*to)
			return -EINVAL;
		from += 2;
	}
	*to = '\0';
	return 0;
}

static int bad_uri(const char *uri, struct error *error)
{
	error_set(error, EXIT_USAGE, "write nvme+rdma://HOST[:PORT]/NQN?ns=1",
		  "'%.200s' is not the URI of a volume", uri);
	return -EINVAL;
}

static int apply_query(char *query, struct open_options *o, struct error *error)
{
	char *next, *value;
	int r = 0;

	for (; query && r == 0; query = next) {
		next = strchr(query, '&');
		if (next)
			*next++ = '\0';
		value = strchr(query, '=');
		if (value)
			*value++ = '\0';
		if (unescape(query) < 0 || (value && unescape(value) < 0))
			return bad_uri(query, error);
		/* "?memory-windows" is enough for a flag. */
		if (*query)
			r = apply(query, value ? value : "1", o, error);
	}
	return r;
}

int options_parse_address(const char *host, union addr *ret_address, struct error *error)
{
	int r = addr_parse_with_port(host, DEFAULT_PORT, ret_address);

	if (r == -EINVAL)
		error_set(error, EXIT_USAGE, "write it like 192.0.2.1:4420 or [2001:db8::1]:4420",
			  "'%.200s' is not an address", host);
	else if (r < 0)
		error_set(error, EXIT_UNREACHABLE, "check the name, or give the address in numbers",
			  "cannot find the address of '%.200s'", host);
	return r;
}

static int parse_uri(const char *uri, struct open_options *o, struct error *error)
{
	char text[URI_MAX], *host = text + strlen(scheme), *nqn, *query;
	int r;

	if (!uri || strlen(uri) >= sizeof(text) || strncmp(uri, scheme, strlen(scheme)) != 0)
		return bad_uri(uri ? uri : "", error);
	strcpy(text, uri);
	query = strchr(host, '?');
	if (query)
		*query++ = '\0';
	nqn = strchr(host, '/');
	if (!nqn)
		return bad_uri(uri, error);
	*nqn++ = '\0';
	if (unescape(nqn) < 0 || strncmp(nqn, "nqn.", 4) != 0 ||
	    parse_text(nqn, o->config.subnqn, VOLUME_NQN_MAX) < 0)
		return bad_uri(uri, error);
	r = options_parse_address(host, &o->config.address, error);
	return r < 0 ? r : apply_query(query, o, error);
}

/* Each portal is one path. */
static int check_paths(const struct volume_config *config, struct error *error)
{
	char text[ADDR_STRING_MAX];

	for (unsigned i = 0; i < config->n_others; i++) {
		bool is_twice = addr_is_equal(&config->others[i], &config->address);

		for (unsigned j = 0; j < i; j++)
			is_twice |= addr_is_equal(&config->others[i], &config->others[j]);
		if (!is_twice)
			continue;
		error_set(error, EXIT_USAGE, "each portal is one path",
			  "option path: '%s' is given twice",
			  addr_format(text, &config->others[i]));
		return -EINVAL;
	}
	return 0;
}

static int apply_together(struct open_options *o, struct error *error)
{
	int r = check_paths(&o->config, error);

	if (r < 0)
		return r;
	if (*o->config.ctrl_secret_file && !*o->config.secret_file) {
		error_set(
			error, EXIT_USAGE, NULL,
			"option dhchap-ctrl-secret-file needs dhchap-secret-file: the host proves itself first");
		return -EINVAL;
	}
	if (host_identity_load("/etc/nvme", *o->hostnqn ? o->hostnqn : NULL,
			       *o->hostid ? o->hostid : NULL, &o->config, error) < 0)
		return -EINVAL;
	return 0;
}

int options_parse_uri(const char *uri, const struct rblk_option *options, struct open_options *into,
		      struct error *error)
{
	int r;

	*into = (struct open_options){.spin_ns = SPIN_AUTO, .fabric = "auto"};
	volume_config_init(&into->config);
	into->config.n_queues = QUEUES;
	into->config.slab_bytes = VOLUME_SLAB_MIN; /* not used: I/O is in place */
	r = parse_uri(uri, into, error);
	for (; options && options->name && r == 0; options++)
		r = apply(options->name, options->value ? options->value : "1", into, error);
	return r < 0 ? r : apply_together(into, error);
}

/* At the beginning of a word: names may have dashes. */
static bool is_option(const char *text, char before)
{
	return (!before || before == ' ' || before == '(') && !strncmp(text, "--", 2) &&
	       islower((unsigned char)text[2]);
}

void options_to_public(char *to, size_t n, const char *text)
{
	size_t at = 0;

	for (; *text && at + 1 < n; text++) {
		if (is_option(text, at ? to[at - 1] : '\0'))
			text += 2;
		to[at++] = *text;
	}
	to[at] = '\0';
}
