/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The commands of the NVM command set and of admin queues, one line each. NAME stands for the entry
 * NAME_command, which the file of the command defines.
 */
#include "base/bits.h"
#include "target/command/commands.h"
#include "target/engine/command_table.h"

#define IO_COMMANDS(X)                                                                             \
	X(flush)                                                                                   \
	X(transfer_write)                                                                          \
	X(transfer_read)                                                                           \
	X(write_uncorrectable)                                                                     \
	X(compare)                                                                                 \
	X(write_zeroes)                                                                            \
	X(dsm)                                                                                     \
	X(verify)                                                                                  \
	X(resv_register)                                                                           \
	X(resv_report)                                                                             \
	X(resv_acquire)                                                                            \
	X(resv_release)                                                                            \
	X(copy)

#define ADMIN_COMMANDS(X)                                                                          \
	X(log_page)                                                                                \
	X(identify)                                                                                \
	X(abort)                                                                                   \
	X(features_set)                                                                            \
	X(features_get)                                                                            \
	X(async_event)                                                                             \
	X(keep_alive)

/* The others are those of association/fabrics.c. */
#define FABRICS_COMMANDS(X)                                                                        \
	X(property_set)                                                                            \
	X(property_get)

#define DECLARE(name) extern const struct nvme_command name##_command;
#define ENTRY(name)   &name##_command,

IO_COMMANDS(DECLARE)
ADMIN_COMMANDS(DECLARE)
FABRICS_COMMANDS(DECLARE)

static const struct nvme_command *const io_commands[] = {IO_COMMANDS(ENTRY)};
static const struct nvme_command *const admin_commands[] = {ADMIN_COMMANDS(ENTRY)};
static const struct nvme_command *const fabrics_commands[] = {FABRICS_COMMANDS(ENTRY)};

void commands_register(void)
{
	command_register(COMMANDS_IO, io_commands, ARRAY_LEN(io_commands));
	command_register(COMMANDS_ADMIN, admin_commands, ARRAY_LEN(admin_commands));
	command_register(COMMANDS_FABRICS, fabrics_commands, ARRAY_LEN(fabrics_commands));
}
