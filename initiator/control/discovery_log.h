/* SPDX-License-Identifier: BSD-3-Clause */
/* Parsing of the Discovery log page (Fabrics 1.1, 5.3). Pure; the page is untrusted. */
#pragma once

#include "initiator/control/discover.h"
#include "transport/wire/fabrics.h"

/* 0, or -EPROTO. *ret_n is at most DISCOVER_RECORDS_MAX. */
int discovery_parse_header(const void *data, uint64_t *ret_genctr, unsigned *ret_n);
/* 0, or -EPROTO for an entry that cannot be used (it is skipped). */
int discovery_parse_entry(const void *data, struct discover_record *ret);
