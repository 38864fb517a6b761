/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The paths of a volume by discovery: the portals of its subsystem in the log of the target, and in
 * the logs of those to which the target refers, one step far. A target that does not answer at the
 * address of the volume is an error; one that is referred to is left out, with a record in the log.
 */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "initiator/control/discover.h"
#include "tools/rblk/find_paths.h"
#include "tools/rblk/target_name.h"
#include "tools/rblk/volume_options.h"

enum {
	TYPE_REFERRAL = 1, /* NVMe-oF 1.1, SUBTYPE */
	TYPE_SUBSYSTEM = 2,
	TRANSPORT_RDMA = 1,
	FAMILY_IPV6 = 2,
};

static bool parse_address(const struct discover_record *record, union addr *ret_address)
{
	char text[sizeof(record->traddr) + sizeof(record->trsvcid) + 8];

	snprintf(text, sizeof(text), record->address_family == FAMILY_IPV6 ? "[%s]:%s" : "%s:%s",
		 record->traddr, record->trsvcid);
	return record->transport == TRANSPORT_RDMA &&
	       addr_parse_with_port(text, TARGET_DEFAULT_PORT, ret_address) == 0;
}

static void add(struct volume_config *config, const union addr *address)
{
	char text[ADDR_STRING_MAX];

	if (volume_options_has_path(config, address))
		return;
	if (config->n_others == VOLUME_PATHS_MAX - 1)
		log_warn("%s is left out: a volume has at most %u paths",
			 addr_format(text, address), VOLUME_PATHS_MAX);
	else
		config->others[config->n_others++] = *address;
}

static void add_all(struct volume_config *config, const struct discover_result *result)
{
	union addr address;

	for (unsigned i = 0; i < result->n_records; i++)
		if (result->records[i].subtype == TYPE_SUBSYSTEM &&
		    !strcmp(result->records[i].subnqn, config->subnqn) &&
		    parse_address(&result->records[i], &address))
			add(config, &address);
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
		add_all(config, &result);
	discover_result_release(&result);
}

int find_paths(struct volume_config *config, struct error *error)
{
	struct discover_result result = {0};
	union addr address;

	if (discover(config, &result, error) < 0)
		return (int)error->code;
	add_all(config, &result);
	for (unsigned i = 0; i < result.n_records; i++)
		if (result.records[i].subtype == TYPE_REFERRAL &&
		    parse_address(&result.records[i], &address) &&
		    !volume_options_has_path(config, &address))
			ask_there(config, &address);
	discover_result_release(&result);
	return 0;
}
