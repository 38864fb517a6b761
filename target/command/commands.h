/* SPDX-License-Identifier: BSD-3-Clause */
/* Registers the commands of this floor. */
#pragma once

/* Main thread, before the first poller runs: registers the commands with command_table.h. */
void commands_register(void);
