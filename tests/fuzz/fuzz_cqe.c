/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion queue entries of a hostile target, one after the other, at a host with some commands
 * in flight: which command each one completes, and the text and errno of its status. The device is
 * done with each second command's SEND before the target has answered, with the others after that.
 * Two of the commands are a fused pair, which is over when both are answered. Commands without an
 * answer are lost at the end, and then each command is free.
 */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "initiator/io/command.h"
#include "initiator/control/errors.h"
#include "initiator/io/io_status.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum {
	COMMANDS = 8,
	IN_FLIGHT = 5,
};

static void start_one(struct command_table *table, struct command *command, unsigned i)
{
	command->is_sending = true;
	command_start(table, command, i);
	if (i % 2)
		command_on_sent(&command->send, NULL);
}

static void start_some(struct command_table *table)
{
	struct command *pair[2];

	for (unsigned i = 0; i < IN_FLIGHT; i++)
		start_one(table, command_take(table), i);
	command_take_pair(table, pair);
	start_one(table, pair[0], IN_FLIGHT);
	start_one(table, pair[1], IN_FLIGHT + 1);
}

/* A half is answered, and the device is done with both. */
static void end_half(struct command *command)
{
	struct command *other = command->pair;
	const struct command *first = command->is_second ? other : command;
	bool may_repeat;

	command->is_sending = false;
	if (!command_is_idle(other))
		return;
	io_status_of_pair(first->status, first->pair->status, &may_repeat);
	command->pair = other->pair = NULL;
	command_give(command->table, command);
	command_give(other->table, other);
}

static void lose_all(struct command_table *table)
{
	while (!list_is_empty(&table->in_flight)) {
		struct command *command = list_entry(table->in_flight.prev, struct command, node);

		command->is_sending = false;
		if (command->pair)
			command->pair->is_sending = false;
		command_lose(command);
	}
	check(table->n_free == table->n);
}

static void name_status(const struct nvme_cqe *cqe, enum nvme_status status)
{
	struct volume_config config = {.subnqn = "nqn.a", .hostnqn = "nqn.b"};
	struct error error;

	config.address.sa.sa_family = AF_INET;
	error_from_connect(&error, &config, get_le16(cqe->cid) & 1, status, get_le64(cqe->result));
	check(strlen(error.message) < sizeof(error.message));
	error_connect_is_permanent(status);
	error_from_status(&error, "Identify", status);
	check(strlen(error.hint) < sizeof(error.hint));
}

static void answer(struct command_table *table, const struct nvme_cqe *cqe)
{
	struct command *command = command_find(table, get_le16(cqe->cid));
	enum nvme_status status = io_status_in(cqe);

	for (enum volume_op op = VOLUME_READ; op <= VOLUME_COMPARE_AND_WRITE; op++)
		check(io_status_errno(status, op) <= 0);
	check(io_status_errno(NVME_OK, VOLUME_READ) == 0);
	io_status_retry(status);
	name_status(cqe, status);
	if (!command)
		return;
	check(command->state == COMMAND_IN_FLIGHT);
	command_stop(table, command);
	command->status = status;
	if (command->pair)
		end_half(command);
	else if (command->is_sending)
		command_on_sent(&command->send, NULL);
	else
		command_give(table, command);
	check(command_find(table, get_le16(cqe->cid)) == NULL); /* answered twice */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct command_table table = {0};
	struct nvme_cqe cqe;

	if (command_table_init(&table, NULL, COMMANDS) < 0)
		return 0;
	start_some(&table);
	for (; n >= sizeof(cqe); data += sizeof(cqe), n -= sizeof(cqe)) {
		memcpy(&cqe, data, sizeof(cqe));
		answer(&table, &cqe);
	}
	lose_all(&table);
	command_table_deinit(&table);
	return 0;
}
