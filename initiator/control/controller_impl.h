/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parts of a controller among themselves:
 *
 *   controller.c            connection, start, stop
 *     controller_setup.c    commands until live, and those of the normal shutdown
 *       controller_auth.c, keep_alive.c, async_event.c, ana_log.c, power.c
 *         controller_command.c    states, failure, sending
 */
#pragma once

#include "initiator/control/controller.h"
