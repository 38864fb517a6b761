/* SPDX-License-Identifier: BSD-3-Clause */
/* Cross-Controller Reset as a host of raw verbs sends it. A command that is not answered fails the
 * test. */
#pragma once

#include "tests/raw/host.h"
#include "transport/wire/nvme.h"
#include "transport/wire/nvme_cross_reset.h"

/* A controller as its host names it. */
struct raw_name {
	uint16_t id;
	uint8_t ciu;
	uint64_t cirn;
};

struct nvme_id_ctrl raw_identify(struct raw_queue *admin);
struct raw_name raw_name_of(struct raw_host *h);
struct nvme_sqe raw_reset_command(struct raw_queue *through, struct raw_name name);
enum nvme_status raw_reset(struct raw_queue *through, struct raw_name name, bool *ret_is_immediate);
