/* SPDX-License-Identifier: BSD-3-Clause */
/* Parsing of the Discovery log page (Fabrics 1.1, 5.3). Pure; the page is untrusted. */
#pragma once

#include <stdbool.h>
#include <stdlib.h>

#include "base/addr.h"
#include "initiator/control/volume_config.h"
#include "transport/wire/fabrics.h"

enum {
	DISCOVER_RECORDS_MAX = 1024,
	DISCOVERY_REFERRALS_MAX = 7, /* that are followed */
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

/* 0, or -EPROTO. *ret_n is at most DISCOVER_RECORDS_MAX. */
int discovery_parse_header(const void *data, uint64_t *ret_genctr, unsigned *ret_n);
/* 0, or -EPROTO for an entry that cannot be used (it is skipped). */
int discovery_parse_entry(const void *data, struct discover_record *ret);
/* Reads from an entry the address of a portal of the subsystem, or of another discovery service;
 * numeric, over RDMA. False: it is neither, or its address is of no use. */
bool discovery_portal(const struct discover_record *record, const char *subnqn,
		      union addr *ret_address);
bool discovery_referral(const struct discover_record *record, union addr *ret_address);

static inline void discover_result_release(struct discover_result *result)
{
	free(result->records);
	*result = (struct discover_result){0};
}
