/* SPDX-License-Identifier: BSD-3-Clause */
/* The URI of a volume and its options, as librblk(3) lists them. Any thread. */
#pragma once

#include "initiator/control/volume.h"
#include "library/rblk.h"

struct open_options {
	struct volume_config config;
	uint64_t cache_bytes; /* 0: no cache */
	char fabric[64], hostnqn[VOLUME_NQN_MAX], hostid[64];
};

/* options: ends with a NULL name; or NULL. 0, or -errno with *error. Names of hosts are resolved,
 * and the identity of this host is read, or made. */
int options_parse_uri(const char *uri, const struct rblk_option *options, struct open_options *into,
		      struct error *error);
/* "HOST[:PORT]"; blocks until a name is resolved. 0, or -EINVAL or -ENOENT with *error. */
int options_parse_address(const char *host, union addr *ret_address, struct error *error);

/* Copies a message of the initiator. Options of the library have the names of those of rblk,
 * without the dashes. Any thread. */
void options_to_public(char *to, size_t n, const char *text);
