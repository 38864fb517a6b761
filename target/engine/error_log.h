/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Failed commands of a controller, for the log page Error Information (01h; Base 2.0, 5.16.1.2),
 * which command/admin/log_page.c builds.
 */
#pragma once

#include "target/engine/controller.h"

/* Any poller, when the command is answered. The newest CONTROLLER_ERRORS entries are kept. */
void error_log_add(struct controller *controller, const struct request *r);
