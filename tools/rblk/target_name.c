/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of targets and volumes; see target_name.h. */
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "initiator/control/volume.h"
#include "tools/rblk/report.h"
#include "tools/rblk/target_name.h"

static_assert((int)TARGET_NQN_MAX == (int)VOLUME_NQN_MAX, "one limit");

int target_address_parse(const char *text, union addr *ret_addr, struct error *error)
{
	int r = addr_parse_with_port(text, TARGET_DEFAULT_PORT, ret_addr);

	if (r == 0 && addr_lacks_scope(ret_addr)) {
		error_set(error, EXIT_USAGE, "name the interface: fe80::1%eth0",
			  "'%s' is a link-local address, which many interfaces have", text);
		return EXIT_USAGE;
	}
	if (r == 0)
		return 0;
	if (r == -EINVAL)
		error_set(error, EXIT_USAGE, "write it like 192.0.2.1:4420 or [2001:db8::1]:4420",
			  "'%s' is not an address", text);
	else
		error_set(error, EXIT_UNREACHABLE, "check the name, or give the address in numbers",
			  "cannot find the address of '%s'", text);
	return (int)error->code;
}

/* The last '@' splits: an NQN may contain one, an address cannot. */
int target_name_split(const char *text, char ret_nqn[TARGET_NQN_MAX], union addr *ret_address,
		      struct error *error)
{
	const char *at = strrchr(text, '@');
	size_t n = at ? (size_t)(at - text) : 0;

	if (!at) {
		error_set(error, EXIT_USAGE,
			  "write NQN@ADDRESS; `rblk discover ADDRESS` shows the NQNs",
			  "'%s' lacks the '@' before the target's address", text);
		return EXIT_USAGE;
	}
	if (n >= VOLUME_NQN_MAX || strncmp(text, "nqn.", 4) != 0) {
		error_set(
			error, EXIT_USAGE, NULL,
			"'%.*s' is not an NQN: it must begin with 'nqn.' and have at most %d bytes",
			(int)(n > 100 ? 100 : n), text, VOLUME_NQN_MAX - 1);
		return EXIT_USAGE;
	}
	memcpy(ret_nqn, text, n);
	ret_nqn[n] = '\0';
	return target_address_parse(at + 1, ret_address, error);
}

int target_name_parse(const char *text, struct volume_config *config, struct error *error)
{
	return target_name_split(text, config->subnqn, &config->address, error);
}

static bool is_name_char(char c)
{
	return isalnum((unsigned char)c) || c == '.' || c == '_' || c == '-';
}

/* A name becomes a file in the run directory and part of a URI, so it can neither leave the
 * directory, nor hide there, nor look like an option. */
bool volume_name_is_valid(const char *name)
{
	size_t n = strlen(name);

	if (n == 0 || n >= VOLUME_NAME_MAX || name[0] == '.' || name[0] == '-')
		return false;
	while (n)
		if (!is_name_char(name[--n]))
			return false;
	return true;
}

/* The part of the NQN that an administrator has chosen, behind its last colon. Namespace 1 is what
 * most subsystems have, so only others carry their number. */
void volume_name_default(const struct volume_config *config, char name[VOLUME_NAME_MAX])
{
	const char *colon = strrchr(config->subnqn, ':');
	const char *suffix = colon && colon[1] ? colon + 1 : config->subnqn;
	char number[16] = "";
	int n;

	if (config->nsid != 1)
		snprintf(number, sizeof(number), "-%u", config->nsid);
	n = snprintf(name, VOLUME_NAME_MAX, "%.*s%s", (int)(VOLUME_NAME_MAX - 1 - strlen(number)),
		     suffix, number);
	for (int i = 0; i < n && name[i]; i++)
		if (!is_name_char(name[i]) || (i == 0 && (name[i] == '.' || name[i] == '-')))
			name[i] = '_';
}
