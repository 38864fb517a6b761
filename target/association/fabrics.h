/* SPDX-License-Identifier: BSD-3-Clause */
/* Registers the commands that a target serves. */
#pragma once

/* Main thread, before the first poller runs: registers all commands (command_table.h). */
void fabrics_register(void);
