/* SPDX-License-Identifier: BSD-3-Clause */
/* See commands.h. */
#include "base/bits.h"
#include "target/command/commands.h"
#include "target/engine/record/command_table.h"

#define COMMAND(file, name) extern const struct nvme_command name##_command;
#include "target/command/admin/command_list.h"
#include "target/command/io/command_list.h"
#undef COMMAND
extern const struct nvme_command property_get_command, property_set_command;

#define COMMAND(file, name) &name##_command,
static const struct nvme_command *const admin_commands[] = {
#include "target/command/admin/command_list.h"
};
static const struct nvme_command *const io_commands[] = {
#include "target/command/io/command_list.h"
};
#undef COMMAND
/* association/fabrics.c has the other Fabrics commands, which make associations. */
static const struct nvme_command *const fabrics_commands[] = {
	&property_get_command,
	&property_set_command,
};

void commands_register(void)
{
	command_register(COMMANDS_ADMIN, admin_commands, ARRAY_LEN(admin_commands));
	command_register(COMMANDS_IO, io_commands, ARRAY_LEN(io_commands));
	command_register(COMMANDS_FABRICS, fabrics_commands, ARRAY_LEN(fabrics_commands));
}
