/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of a volume, see volume_config.h: their table, from text and to text. */
#include "initiator/control/volume_config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/spin.h"
#include "base/units.h"

#define HOUR (3600 * NSEC_PER_SEC)

enum {
	DEFAULT_PORT = 4420,
};

static const char *const fences[] = {"require", "off", NULL}; /* enum volume_fence */
/* enum volume_policy */
static const char *const policies[] = {"latency", "queue-depth", "round-robin", NULL};

#define AT(field) offsetof(struct volume_config, field)

const struct volume_option volume_option_table[VOLUME_OPTIONS] = {
	{"ns", VOLUME_OPTION_NUMBER, AT(nsid), "N", "1", "namespace id", 1, UINT32_MAX - 1,
	 .letter = 'n'},
	{"path", VOLUME_OPTION_PATHS, AT(others), "ADDRESS[:PORT]", NULL,
	 "another portal of the target; may be repeated"},
	{"find-paths", VOLUME_OPTION_FLAG, AT(finds_paths), NULL, NULL,
	 "all portals that the target's discovery names"},
	{"policy", VOLUME_OPTION_CHOICE, AT(policy), NULL, "latency",
	 "which of equal paths takes an I/O", .choices = policies},
	{"hostnqn", VOLUME_OPTION_HOSTNQN, AT(hostnqn), "NQN", NULL,
	 "this host's NQN (default: /etc/nvme/hostnqn)"},
	{"hostid", VOLUME_OPTION_HOSTID, AT(hostid), "UUID", NULL,
	 "this host's id (default: /etc/nvme/hostid)"},
	{"host-address", VOLUME_OPTION_ADDRESS, AT(host_address), "ADDRESS", NULL,
	 "connect from this address"},
	{"dhchap-secret-file", VOLUME_OPTION_FILE, AT(secret_file), "PATH", NULL,
	 "secret of this host (DH-HMAC-CHAP)"},
	{"dhchap-ctrl-secret-file", VOLUME_OPTION_FILE, AT(ctrl_secret_file), "PATH", NULL,
	 "secret of the target, which must then prove it"},
	{"queues", VOLUME_OPTION_NUMBER, AT(n_queues), "N", NULL,
	 "one queue and thread a connection, up to N (default: as many as needed, up to 4)", 1,
	 VOLUME_QUEUES_MAX},
	{"queue-size", VOLUME_OPTION_NUMBER, AT(queue_size), "N", "128",
	 "commands in flight on a queue", VOLUME_QUEUE_SIZE_MIN, VOLUME_QUEUE_SIZE_MAX},
	/* Behind queues, by which it is divided. */
	{"buffers", VOLUME_OPTION_BUFFERS, AT(slab_bytes), "SIZE", NULL,
	 "locked memory of all queues together (default: 32MiB a queue, or as the limit allows)",
	 MIB, 64 * GIB},
	{"spin", VOLUME_OPTION_SPIN, AT(spin), "auto|always|never|TIME", "auto",
	 "how long to poll before sleeping"},
	{"memory-windows", VOLUME_OPTION_FLAG, AT(has_windows), NULL, NULL,
	 "give the target a separate key for each command (type 2 windows)"},
	{"keep-alive", VOLUME_OPTION_TIME, AT(keep_alive_ns), "TIME", "10s",
	 "keep-alive timeout, 0: none", 0, HOUR},
	{"io-timeout", VOLUME_OPTION_TIME, AT(io_timeout_ns), "TIME", "30s",
	 "check the target when a command has no answer for this long", NSEC_PER_SEC, HOUR},
	{"reconnect-delay", VOLUME_OPTION_TIME, AT(reconnect_delay_ns), "TIME", "2s",
	 "pause between attempts to reconnect", NSEC_PER_MSEC, HOUR},
	{"ctrl-loss-tmo", VOLUME_OPTION_TIMEOUT, AT(ctrl_loss_tmo_ns), "TIME|never", "10min",
	 "stop reconnecting and fail I/O after this time"},
	{"fail-on-denial", VOLUME_OPTION_FLAG, AT(fails_on_denial), NULL, NULL,
	 "fail I/O at once when the target denies access or removes the namespace"},
	{"fence", VOLUME_OPTION_CHOICE, AT(fence), NULL, "require",
	 "send a write again only after proof that its first copy is gone", .choices = fences},
	{"fast-io-fail-tmo", VOLUME_OPTION_TIMEOUT, AT(fast_io_fail_tmo_ns), "TIME|never", "never",
	 "fail I/O that has waited this long for a reconnect"},
};

const struct volume_option *volume_option_find(const char *name)
{
	for (unsigned i = 0; i < VOLUME_OPTIONS; i++)
		if (!strcmp(volume_option_table[i].name, name))
			return &volume_option_table[i];
	return NULL;
}

void volume_config_init(struct volume_config *config)
{
	*config = (struct volume_config){
		.n_queues = 4,
		.slab_bytes = 32 * MIB,
		.may_shrink_slab = true,
	};
	for (unsigned i = 0; i < VOLUME_OPTIONS; i++) {
		const struct volume_option *option = &volume_option_table[i];

		check(!option->standard ||
		      volume_option_parse(option, option->standard, config) == 0);
	}
}

bool volume_config_has_path(const struct volume_config *config, const union addr *address)
{
	if (addr_is_equal(address, &config->address))
		return true;
	for (unsigned i = 0; i < config->n_others; i++)
		if (addr_is_equal(address, &config->others[i]))
			return true;
	return false;
}

/* ---- from text ---- */

static int parse_flag(const char *text, bool *into)
{
	*into = !strcmp(text, "1") || !strcmp(text, "yes");
	return *into || !strcmp(text, "0") || !strcmp(text, "no") ? 0 : -EINVAL;
}

static int parse_choice(const char *const *choices, const char *text, unsigned *into)
{
	for (unsigned i = 0; choices[i]; i++) {
		if (strcmp(text, choices[i]) != 0)
			continue;
		*into = i;
		return 0;
	}
	return -EINVAL;
}

/* Empty is a mistake, not "none": a variable of a script that was not set would switch it off. */
static int parse_file(const char *text, char into[VOLUME_PATH_MAX])
{
	if (!*text || strlen(text) >= VOLUME_PATH_MAX)
		return -EINVAL;
	strcpy(into, text);
	return 0;
}

/* Each address is one path: two to one portal would share its fate, and mostly are a slip. */
static int parse_path(const char *text, struct volume_config *config)
{
	union addr address;

	if (config->n_others == ARRAY_LEN(config->others) ||
	    addr_parse_with_port(text, DEFAULT_PORT, &address) < 0 || addr_lacks_scope(&address))
		return -EINVAL;
	if (volume_config_has_path(config, &address))
		return -EEXIST;
	config->others[config->n_others++] = address;
	return 0;
}

static int set_buffers(uint64_t bytes, struct volume_config *config)
{
	config->slab_bytes = bytes / config->n_queues;
	config->may_shrink_slab = false;
	return config->slab_bytes >= VOLUME_SLAB_MIN ? 0 : -ERANGE;
}

/* "off" and -1 are what nvme-cli and the kernel's sysfs call "never". */
static int parse_timeout(const char *text, uint64_t *into)
{
	if (strcmp(text, "never") != 0 && strcmp(text, "off") != 0 && strcmp(text, "-1") != 0)
		return units_parse_duration(text, into);
	*into = UINT64_MAX;
	return 0;
}

/* The kinds whose value is a number with bounds. */
static int parse_number(const struct volume_option *option, const char *text,
			struct volume_config *config)
{
	void *into = (char *)config + option->offset;
	uint64_t number;
	int r = option->kind == VOLUME_OPTION_NUMBER ? units_parse_uint(text, &number)
		: option->kind == VOLUME_OPTION_TIME ? units_parse_duration(text, &number)
						     : units_parse_size(text, &number);

	if (r < 0)
		return r;
	if (number < option->min || number > option->max)
		return -ERANGE;
	if (option->kind == VOLUME_OPTION_BUFFERS)
		return set_buffers(number, config);
	if (option->kind == VOLUME_OPTION_NUMBER)
		*(unsigned *)into = (unsigned)number;
	else
		*(uint64_t *)into = number;
	return 0;
}

int volume_option_parse(const struct volume_option *option, const char *text,
			struct volume_config *config)
{
	void *into = (char *)config + option->offset;

	switch (option->kind) {
	case VOLUME_OPTION_NUMBER:
	case VOLUME_OPTION_TIME:
	case VOLUME_OPTION_BUFFERS:
		return parse_number(option, text, config);
	case VOLUME_OPTION_FLAG:
		return parse_flag(text, into);
	case VOLUME_OPTION_CHOICE:
		return parse_choice(option->choices, text, into);
	case VOLUME_OPTION_TIMEOUT:
		return parse_timeout(text, into);
	case VOLUME_OPTION_SPIN:
		return spin_parse(text, into);
	case VOLUME_OPTION_FILE:
		return parse_file(text, into);
	case VOLUME_OPTION_ADDRESS:
		return addr_parse(text, 0, into);
	case VOLUME_OPTION_PATHS:
		return parse_path(text, config);
	case VOLUME_OPTION_HOSTNQN:
	case VOLUME_OPTION_HOSTID:
		break;
	}
	check(false);
	return -EINVAL;
}

/* ---- to text ---- */

static const char *format_time(char *buf, uint64_t ns)
{
	if (ns == UINT64_MAX)
		return "never";
	if (ns % NSEC_PER_SEC == 0)
		snprintf(buf, VOLUME_OPTION_MAX, "%llus", (unsigned long long)(ns / NSEC_PER_SEC));
	else
		snprintf(buf, VOLUME_OPTION_MAX, "%lluns", (unsigned long long)ns);
	return buf;
}

static const char *format_paths(char *buf, const struct volume_config *config)
{
	char one[ADDR_STRING_MAX];
	size_t at = 0;

	buf[0] = '\0';
	for (unsigned i = 0; i < config->n_others; i++)
		at += (size_t)snprintf(buf + at, VOLUME_OPTION_MAX - at, "%s%s", i ? "," : "",
				       addr_format(one, &config->others[i]));
	return buf;
}

const char *volume_option_format(const struct volume_option *option,
				 const struct volume_config *config, char buf[VOLUME_OPTION_MAX])
{
	const void *from = (const char *)config + option->offset;

	switch (option->kind) {
	case VOLUME_OPTION_NUMBER:
		snprintf(buf, VOLUME_OPTION_MAX, "%u", *(const unsigned *)from);
		return buf;
	case VOLUME_OPTION_FLAG:
		return *(const bool *)from ? "yes" : "no";
	case VOLUME_OPTION_CHOICE:
		return option->choices[*(const unsigned *)from];
	case VOLUME_OPTION_TIME:
	case VOLUME_OPTION_TIMEOUT:
		return format_time(buf, *(const uint64_t *)from);
	case VOLUME_OPTION_SPIN:
		return spin_format(buf, config->spin);
	case VOLUME_OPTION_BUFFERS:
		return units_format_exact(buf, config->slab_bytes * config->n_queues);
	case VOLUME_OPTION_FILE:
	case VOLUME_OPTION_HOSTNQN:
		return from;
	case VOLUME_OPTION_ADDRESS:
		return config->host_address.sa.sa_family ? addr_format(buf, from) : "";
	case VOLUME_OPTION_PATHS:
		return format_paths(buf, config);
	case VOLUME_OPTION_HOSTID:
		uuid_unparse_lower(config->hostid, buf);
		return buf;
	}
	return "";
}
