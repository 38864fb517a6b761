/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The Discovery Log Page (70h): which subsystems this host may use, and where. Poller of the admin
 * queue. Any host may read it, so it has only what that host is allowed to use.
 */
#pragma once

#include <stdint.h>

#include "transport/wire/nvme.h"

struct request;

/* Fills r->length bytes of the discovery log from this offset; the buffer is zeroed. */
enum nvme_status discovery_fill_log(struct request *r, uint64_t offset);
