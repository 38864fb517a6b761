/* SPDX-License-Identifier: BSD-3-Clause */
/* Which commands there are. */
#pragma once

/* Main thread, before the first poller runs: registers the commands of this floor
 * (command_table.h). */
void commands_register(void);
