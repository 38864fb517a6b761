/* SPDX-License-Identifier: BSD-3-Clause */
/* Discovery, blocking, for command-line tools: connects to a discovery controller, reads
 * its log. */
#pragma once

#include "base/addr.h"
#include "initiator/control/volume.h"

enum {
	DISCOVER_RECORDS_MAX = 1024,
};

struct discover_record {
	unsigned subtype;	 /* 1 referral, 2 NVM subsystem, 3 current discovery subsystem */
	unsigned transport;	 /* 1 RDMA */
	unsigned address_family; /* 1 IPv4, 2 IPv6 */
	unsigned port_id;
	char subnqn[VOLUME_NQN_MAX];
	char traddr[257];
	char trsvcid[33];
};

struct discover_result {
	uint64_t genctr;
	unsigned n_records;
	struct discover_record *records; /* owned */
};

/* Uses config's address, hostnqn and hostid. 0, or -1 with *error filled. */
int discover(const struct volume_config *config, struct discover_result *ret_result,
	     struct error *error);
void discover_result_release(struct discover_result *result);
/* After a failed volume_open: when the target did not know the subsystem and discovery
 * shows one with a similar name, error's hint becomes "did you mean ...". Blocking;
 * does nothing otherwise. */
void discover_suggest(const struct volume_config *config, struct error *error);
