/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of commands of a lane. I/O loop only; nothing is allocated after init.
 *
 * A command is taken, started (in flight), and at its end stopped (answered) and sent
 * (the SEND's completion is in), in whichever order; then it is given back. The
 * completion of a SEND may be learnt late, because not every SEND asks for one
 * (transport/qp.h): until then the slot lingers, neither in flight nor free. That is why
 * the table has more slots than the queue has entries.
 *
 * Invariant: each slot is exactly one of free, taken by a step that runs now, or in
 * flight and/or being sent. in_flight is sorted by time of sending: its head is the
 * oldest command.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/bits.h"
#include "base/check.h"
#include "initiator/io/command.h"
#include "initiator/io/slab.h"

const struct state_rule command_rules[] = {
	[COMMAND_FREE] = {"free", STATE_TO(COMMAND_IN_FLIGHT)},
	[COMMAND_IN_FLIGHT] = {"in flight", STATE_TO(COMMAND_ANSWERED)},
	[COMMAND_ANSWERED] = {"answered", STATE_TO(COMMAND_FREE) | STATE_TO(COMMAND_REVOKING)},
	[COMMAND_REVOKING] = {"revoking", STATE_TO(COMMAND_ANSWERED)},
};

static uint16_t slot_of(const struct command_table *table, uint16_t cid)
{
	return cid & (uint16_t)(table->n_slots - 1);
}

static size_t capsules_bytes(unsigned n)
{
	return n * sizeof(struct command_capsule);
}

size_t command_table_bytes(unsigned n)
{
	return align_up(capsules_bytes(n) + sizeof(struct nvmf_connect_data), SLAB_UNIT);
}

int command_table_init(struct command_table *table, struct lane *lane, unsigned n)
{
	size_t capsules = capsules_bytes(n);

	check(n && n < 1u << 15); /* a bit of the CID is left for the generation */
	*table = (struct command_table){.n = n, .n_slots = (uint16_t)(1u << log2_ceil(n))};
	list_init(&table->in_flight);
	table->memory_bytes = command_table_bytes(n);
	table->memory = slab_map(table->memory_bytes);
	table->commands = calloc(n, sizeof(*table->commands));
	table->free = calloc(n, sizeof(*table->free));
	if (!table->memory || !table->commands || !table->free)
		return -ENOMEM;
	table->connect_data = (void *)(table->memory + capsules);
	for (unsigned i = 0; i < n; i++) {
		struct command *command = &table->commands[i];

		command->lane = lane;
		command->table = table;
		command->cid = (uint16_t)i;
		command->capsule = (void *)(table->memory + i * sizeof(struct command_capsule));
		list_init(&command->node);
		table->free[i] = (uint16_t)(n - 1 - i);
	}
	table->n_free = n;
	return 0;
}

void command_table_deinit(struct command_table *table)
{
	slab_unmap(table->memory, table->memory_bytes);
	free(table->commands);
	free(table->free);
	*table = (struct command_table){0};
}

struct command *command_take(struct command_table *table)
{
	struct command *command;

	if (!table->n_free)
		return NULL;
	command = &table->commands[table->free[--table->n_free]];
	command->cid = (uint16_t)(command->cid + table->n_slots);
	command->io = NULL;
	command->data = COMMAND_DATA_REMOTE;
	command->is_timed = false;
	command->n_bytes = 0;
	command->status = NVME_OK;
	command->capsule->sqe = (struct nvme_sqe){
		.flags = NVME_FLAGS_PSDT_SGL,
		.cid = put_le16(command->cid),
		.sgl.keyed.type = NVME_SGL_KEYED_ADDRESS,
	};
	return command;
}

void command_start(struct command_table *table, struct command *command, uint64_t now_ns)
{
	command_move(command, COMMAND_IN_FLIGHT);
	command->start_ns = now_ns;
	list_add_tail(&table->in_flight, &command->node);
	table->n_in_flight++;
}

void command_stop(struct command_table *table, struct command *command)
{
	command_move(command, COMMAND_ANSWERED);
	table->n_lent -= command->data == COMMAND_DATA_LENT;
	list_remove(&command->node);
	table->n_in_flight--;
	atomic_store_explicit(&table->n_answered, command_n_answered(table) + 1,
			      memory_order_relaxed);
}

void command_give(struct command_table *table, struct command *command)
{
	check(!command->is_sending);
	command_move(command, COMMAND_FREE);
	command->io = NULL;
	table->free[table->n_free++] = slot_of(table, command->cid);
}

void command_take_pair(struct command_table *table, struct command *ret_pair[2])
{
	struct command *first = command_take(table), *second = command_take(table);

	check(first && second);
	first->capsule->sqe.flags |= NVME_FLAGS_FUSE_FIRST;
	second->capsule->sqe.flags |= NVME_FLAGS_FUSE_SECOND;
	first->is_second = false;
	second->is_second = true;
	first->pair = second;
	second->pair = first;
	ret_pair[0] = first;
	ret_pair[1] = second;
}

void command_lose(struct command *command)
{
	struct command *other = command->pair;

	command_stop(command->table, command);
	command->pair = NULL;
	command_give(command->table, command);
	if (!other)
		return;
	if (other->state == COMMAND_IN_FLIGHT)
		command_stop(other->table, other);
	other->pair = NULL;
	command_give(other->table, other);
}

void command_on_sent(struct work *work, const struct completion *c)
{
	struct command *command = container_of(work, struct command, send);

	command->is_sending = false;
	if (command->state == COMMAND_ANSWERED)
		command_give(command->table, command);
}

struct command *command_find(struct command_table *table, uint16_t cid)
{
	unsigned slot = slot_of(table, cid);
	struct command *command;

	if (slot >= table->n)
		return NULL;
	command = &table->commands[slot];
	return command->state == COMMAND_IN_FLIGHT && command->cid == cid ? command : NULL;
}
