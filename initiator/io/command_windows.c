/* SPDX-License-Identifier: BSD-3-Clause */
#include "initiator/io/command.h"
#include "initiator/io/command_windows.h"

int command_windows_open(struct command_table *table, const struct domain *domain)
{
	int r = 0;

	for (unsigned i = 0; i < table->n && r == 0; i++)
		r = window_open(domain, &table->commands[i].window);
	return r;
}

void command_windows_close(struct command_table *table)
{
	for (unsigned i = 0; i < table->n; i++)
		window_close(&table->commands[i].window);
}
