/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The paths of a volume by discovery: the portals of its subsystem in the log of the target, and in
 * the logs of those to which the target refers, one step far. The target at the address of the
 * volume is asked, or if it does not answer, that of a path which is given. If none does, the paths
 * that are given are all; it is an error if there are none. One that is referred to and does not
 * answer is left out. Each is a record in the log.
 */
#include "base/log.h"
#include "initiator/control/discover.h"
#include "initiator/control/find_paths.h"

static void add(struct volume_config *config, const union addr *address, const union addr *found_at)
{
	char text[ADDR_STRING_MAX];

	if (volume_config_has_path(config, address))
		return;
	if (config->n_others == VOLUME_PATHS_MAX - 1) {
		log_warn("%s is left out: a volume has at most %u paths",
			 addr_format(text, address), VOLUME_PATHS_MAX);
		return;
	}
	config->others_found_at[config->n_others] = *found_at;
	config->others[config->n_others++] = *address;
}

/* found_at: where this log was read. */
static void add_all(struct volume_config *config, const struct discover_result *result,
		    const union addr *found_at)
{
	union addr address;

	for (unsigned i = 0; i < result->n_records; i++)
		if (discovery_portal(&result->records[i], config->subnqn, &address))
			add(config, &address, found_at);
}

/* config's host asks at this address. */
static void ask_there(struct volume_config *config, const union addr *address)
{
	struct volume_config there = *config;
	struct discover_result result = {0};
	struct error error = {0};

	there.address = *address;
	if (discover(&there, &result, &error) < 0)
		log_warn("a target that is referred to: %s", error.message);
	else
		add_all(config, &result, address);
	discover_result_release(&result);
}

/* The log of the first target that answers. 0, or an exit code with the *error of the volume's own
 * address. */
static int ask_first(const struct volume_config *config, union addr *ret_address,
		     struct discover_result *ret_result, struct error *error)
{
	struct volume_config there = *config;
	struct error ignored;
	char text[ADDR_STRING_MAX];

	*ret_address = config->address;
	if (discover(config, ret_result, error) == 0)
		return 0;
	for (unsigned i = 0; i < config->n_others; i++) {
		there.address = config->others[i];
		if (discover(&there, ret_result, &ignored) < 0)
			continue;
		*ret_address = there.address;
		log_warn("%s; paths are found by %s", error->message,
			 addr_format(text, &there.address));
		return 0;
	}
	return (int)error->code;
}

int find_paths(struct volume_config *config, struct error *error)
{
	struct discover_result result = {0};
	union addr address, first;
	unsigned n_asked = 0;
	int code = ask_first(config, &first, &result, error);

	if (code && config->n_others) {
		log_warn("%s; no paths are found beside those that were given", error->message);
		return 0;
	}
	if (code)
		return code;
	config->found_by = first;
	add_all(config, &result, &first);
	for (unsigned i = 0; i < result.n_records && n_asked < DISCOVERY_REFERRALS_MAX; i++)
		if (discovery_referral(&result.records[i], &address) &&
		    !volume_config_has_path(config, &address)) {
			ask_there(config, &address);
			n_asked++;
		}
	discover_result_release(&result);
	return 0;
}
