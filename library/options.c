/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nvme+rdma://HOST[:PORT]/NQN?NAME=VALUE&...: parsed from left to right, then the further options,
 * then what concerns several of them.
 */
#include "library/options.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/units.h"
#include "initiator/control/host_identity.h"

static const char scheme[] = "nvme+rdma://";
#define DEFAULT_PORT 4420
#define QUEUES	     8

enum {
	URI_MAX = 2048,
};

/* Beside the options of the volume itself (volume_config.c): texts for others to read. */
static const struct row {
	const char *name;
	size_t offset, n; /* in struct open_options */
} rows[] = {
	{"hostnqn", offsetof(struct open_options, hostnqn), VOLUME_NQN_MAX},
	{"hostid", offsetof(struct open_options, hostid),
	 sizeof(((struct open_options *)0)->hostid)},
	{"fabric", offsetof(struct open_options, fabric),
	 sizeof(((struct open_options *)0)->fabric)},
};

/* ---- values ---- */

static int parse_text(const char *text, char *into, size_t n)
{
	if (!*text || strlen(text) >= n)
		return -EINVAL;
	strcpy(into, text);
	return 0;
}

static int parse_cache(const char *text, uint64_t *into)
{
	int r = units_parse_size(text, into);

	return r < 0 ? r : *into <= 64 * GIB ? 0 : -ERANGE;
}

/* Each is one more, whether they come in one value or in several. */
static int parse_paths(const struct volume_option *option, const char *text,
		       struct volume_config *config)
{
	char copy[URI_MAX], *rest = copy, *one;
	int r = parse_text(text, copy, sizeof(copy));

	while (r == 0 && (one = strsep(&rest, ",")))
		r = volume_option_parse(option, one, config);
	return r;
}

/* I/O is in place here: without buffers. -EOPNOTSUPP: there is no such option. */
static int parse_value(const char *name, const char *text, struct open_options *o)
{
	const struct volume_option *option = volume_option_find(name);

	for (unsigned i = 0; i < ARRAY_LEN(rows); i++)
		if (!strcmp(rows[i].name, name))
			return parse_text(text, (char *)o + rows[i].offset, rows[i].n);
	if (!strcmp(name, "cache"))
		return parse_cache(text, &o->cache_bytes);
	if (!option || option->kind == VOLUME_OPTION_BUFFERS)
		return -EOPNOTSUPP;
	if (option->kind == VOLUME_OPTION_PATHS)
		return parse_paths(option, text, &o->config);
	return volume_option_parse(option, text, &o->config);
}

static int apply(const char *name, const char *value, struct open_options *o, struct error *error)
{
	int r = parse_value(name, value, o);

	if (r == -EOPNOTSUPP)
		error_set(error, EXIT_USAGE, "librblk(3) lists the options",
			  "there is no option '%.100s'", name);
	else if (r == -EEXIST)
		error_set(error, EXIT_USAGE, "each portal is one path",
			  "option %s: '%.100s' is given twice", name, value);
	else if (r < 0)
		error_set(error, EXIT_USAGE, "librblk(3) lists the values",
			  "option %s: '%.100s' is not a value of it", name, value);
	return r < 0 ? -EINVAL : 0;
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

static int apply_together(struct open_options *o, struct error *error)
{
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

	*into = (struct open_options){.fabric = "auto"};
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
