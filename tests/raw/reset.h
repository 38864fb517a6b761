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
/* Reads that log page, into admin->data; flags: further bits of CDW10. Its number of entries. */
unsigned raw_reset_log(struct raw_queue *admin, enum nvme_log page, uint32_t flags);
/* The first entry of log page 1Eh, which raw_reset_log has read. */
const struct nvme_cross_reset_entry *raw_first_reset(const struct raw_queue *admin);
/* Enables these events, and asks for one. */
void raw_enable_events(struct raw_queue *admin, uint32_t mask);
/* This event comes next. */
void raw_expect_event(struct raw_queue *admin, uint32_t event);
