/* SPDX-License-Identifier: BSD-3-Clause */
/* The Fabrics commands that make an association. NAME stands for the entry NAME_command. */
#include "base/bits.h"
#include "target/association/fabrics.h"
#include "target/command/commands.h"
#include "target/engine/record/command_table.h"
#include "transport/wire/fabrics.h"

#define FABRICS_COMMANDS(X)                                                                        \
	X(connect)                                                                                 \
	X(auth_send)                                                                               \
	X(auth_receive)                                                                            \
	X(disconnect)

#define DECLARE(name) extern const struct nvme_command name##_command;
#define ENTRY(name)   &name##_command,

FABRICS_COMMANDS(DECLARE)

static enum nvme_status refuse(struct request *r)
{
	return NVME_INVALID_OPCODE | NVME_DNR;
}

/* Optional, and not supported. The log has its name, because a host may send it. */
const struct nvme_command disconnect_command = {
	.opcode = NVMF_DISCONNECT,
	.name = "Disconnect",
	.parse = refuse,
	.flags = COMMAND_BEFORE_READY,
};

static const struct nvme_command *const fabrics_commands[] = {FABRICS_COMMANDS(ENTRY)};

void fabrics_register(void)
{
	commands_register();
	command_register(COMMANDS_FABRICS, fabrics_commands, ARRAY_LEN(fabrics_commands));
}
