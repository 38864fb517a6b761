/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The error log of a controller: its failed commands, for the log page Error Information (01h; Base
 * 2.0, 5.16.1.2), which command/admin/log_page.c builds.
 */
#pragma once

#include "target/engine/controller.h"

/* Any poller, when it answers the command. The newest CONTROLLER_ERRORS entries stay. */
void error_log_add(struct controller *controller, const struct request *r);
