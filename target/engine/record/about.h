/* SPDX-License-Identifier: BSD-3-Clause */
/* The subject of a log record about a controller's host (LOG_ABOUT). Any thread. */
#pragma once

#include "base/log.h"
#include "target/engine/record/controller.h"
#include "target/engine/record/portal.h"

#define CONTROLLER_ABOUT(c)                                                                        \
	LOG_ABOUT(.subsystem = (c)->subnqn, .host = (c)->hostnqn, .portal = (c)->portal->name)
