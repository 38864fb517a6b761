/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The error log of a controller: its failed commands, for the log page Error Information (01h; Base
 * 2.0, 5.16.1.2), which command/admin/log_page.c builds.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "transport/wire/nvme.h"

struct controller;

/* Any poller, when it answers the command. The newest CONTROLLER_ERRORS entries stay. has_lba: the
 * command has found its namespace. */
void error_log_add(struct controller *controller, uint16_t qid, const struct nvme_sqe *sqe,
		   enum nvme_status status, bool has_lba);
