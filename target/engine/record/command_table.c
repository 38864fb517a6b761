/* SPDX-License-Identifier: BSD-3-Clause */
/* See command_table.h. */
#include "base/check.h"
#include "target/engine/record/command_table.h"

enum {
	OPCODES = 256,
};

static_assert(OPCODES == UINT8_MAX + 1, "any opcode finds an entry");

static enum nvme_status parse_unknown(struct request *r)
{
	return NVME_INVALID_OPCODE | NVME_DNR;
}

static const struct nvme_command unknown = {.parse = parse_unknown};
static const struct nvme_command unknown_fabrics = {.parse = parse_unknown,
						    .flags = COMMAND_BEFORE_READY};

/* Thread: main fills it before the first poller runs; then it is constant. */
static const struct nvme_command *table[COMMAND_SETS][OPCODES] = {
	[COMMANDS_ADMIN] = {[0 ... OPCODES - 1] = &unknown},
	[COMMANDS_IO] = {[0 ... OPCODES - 1] = &unknown},
	[COMMANDS_FABRICS] = {[0 ... OPCODES - 1] = &unknown_fabrics},
};

static bool is_whole(const struct nvme_command *command)
{
	bool is_second = command->flags & COMMAND_FUSED_SECOND;

	return command->parse && command->name && is_second == (command->join != NULL) &&
	       is_second == (command->place != NULL);
}

void command_register(enum command_set set, const struct nvme_command *const *commands, unsigned n)
{
	check(set < COMMAND_SETS);
	for (unsigned i = 0; i < n; i++) {
		const struct nvme_command **slot = &table[set][commands[i]->opcode];

		check(is_whole(commands[i]));
		check(!(*slot)->name || *slot == commands[i]);
		*slot = commands[i];
	}
}

const struct nvme_command *command_of(enum command_set set, uint8_t opcode)
{
	return table[set][opcode];
}

const struct nvme_command *const *command_table(enum command_set set)
{
	return table[set];
}

enum nvme_status command_parse_nothing(struct request *r)
{
	return NVME_OK;
}
