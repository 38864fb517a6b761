/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion queue entries of a hostile target, one after the other, at a host with some commands
 * in flight: which command each one completes, and the text and errno of its status. The device is
 * done with each second command's SEND before the target has answered, with the others after that.
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

static void start_one(struct command_table *table, unsigned i)
{
	struct command *command = command_take(table);

	command->is_sending = true;
	command_start(table, command, i);
	if (i % 2)
		command_on_sent(&command->send, NULL);
}

static void start_some(struct command_table *table)
{
	for (unsigned i = 0; i < IN_FLIGHT; i++)
		start_one(table, i);
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
	if (command->is_sending)
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
	command_table_deinit(&table);
	return 0;
}
