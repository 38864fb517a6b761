/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory windows of a queue's commands, one each; io.c binds them. */
#pragma once

struct command_table;
struct domain;

/* Control, for an association. 0 or -errno; close accepts what was not opened, or in part. */
int command_windows_open(struct command_table *table, const struct domain *domain);
void command_windows_close(struct command_table *table);
