/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fused pairs of the fake target: Compare (FUSE 1), and as the very next command of its queue
 * Write (FUSE 2). Both are executed when the data of both has come. A rule applies to a half as to
 * other commands, but silence and disconnect of the Write come after it was executed.
 */
#include <string.h>
#include <unistd.h>

#include "tests/hostile_target/pair.h"
#include "tests/hostile_target/resets.h"

enum {
	OPCODE_COMPARE = 0x05,
	OPCODE_WRITE = 0x01,
	SC_FIELD = 0x4002,
	SC_FAILED_FUSED = 0x4009,
	SC_MISCOMPARE = 0x4285,
	SC_RANGE = 0x4080,
};

static uint64_t slba_of(const struct slot *slot)
{
	return rd64(slot->capsule + 40);
}

static uint32_t bytes_of(const struct slot *slot)
{
	return (rd16(slot->capsule + 48) + 1u) * opt.block_size;
}

static enum action action_of(const struct slot *slot)
{
	return slot->rule ? slot->rule->action : ACT_NONE;
}

void pair_identify(uint8_t *data)
{
	if (!opt.compare)
		return;
	data[520] |= 1;
	wr16(data + 522, 1);
	wr16(data + 532, opt.compare - 1);
}

/* ---- executing ---- */

static void lose(const struct slot *slot)
{
	resets_lose(slot->conn->cntlid, slba_of(slot), bytes_of(slot) / opt.block_size);
}

static void answer(struct slot *slot, unsigned status)
{
	switch (action_of(slot)) {
	case ACT_EXIT:
		_exit(0);
	case ACT_DISCONNECT:
		lose(slot);
		fabric_disconnect(slot->conn);
		return;
	case ACT_SILENCE:
		lose(slot);
		return;
	default:
		command_done(slot, status);
	}
}

static bool has_status(const struct slot *slot)
{
	return action_of(slot) == ACT_STATUS;
}

/* The status of the Compare. */
static unsigned compare(const struct slot *first)
{
	uint64_t at = slba_of(first) * opt.block_size;

	if (opt.ana > 2)
		return opt.ana == 3 ? 0x302 : opt.ana == 4 ? 0x301 : 0x303;
	if (at + bytes_of(first) > opt.blocks * opt.block_size)
		return SC_RANGE;
	return memcmp(ram + at, first->data, bytes_of(first)) ? SC_MISCOMPARE : 0;
}

static void execute(struct slot *first, struct slot *second)
{
	unsigned status = compare(first);

	first->pair = second->pair = NULL;
	if (action_of(first) == ACT_DISCONNECT) {
		answer(first, 0);
		return;
	}
	resets_check(slba_of(second), bytes_of(second) / opt.block_size);
	if (!status && !has_status(first) && !has_status(second))
		memcpy(ram + slba_of(second) * opt.block_size, second->data, bytes_of(second));
	answer(first, status ? status : has_status(second) ? SC_FAILED_FUSED : 0);
	answer(second, status || has_status(first) ? SC_FAILED_FUSED : 0);
}

/* ---- taking ---- */

void pair_have_data(struct slot *slot)
{
	struct slot *other = slot->pair;

	slot->has_data = true;
	if (!other || !other->has_data)
		return;
	if (slot->event == EV_COMPARE)
		execute(slot, other);
	else
		execute(other, slot);
}

static void fetch(struct slot *slot)
{
	uint32_t n = bytes_of(slot);

	if (n > DATA_BYTES || n > opt.compare * opt.block_size)
		violation("a pair of %u bytes", n);
	else if (slot->capsule[24 + 15] != 0x01)
		fabric_read(slot, slot->data, n);
	else {
		memcpy(slot->data, slot->capsule + SQE_BYTES, n);
		pair_have_data(slot);
	}
}

static bool is_second_of(const struct slot *slot, const struct slot *first)
{
	return first && slot->capsule[0] == OPCODE_WRITE && slba_of(slot) == slba_of(first) &&
	       bytes_of(slot) == bytes_of(first) &&
	       rd32(slot->capsule + 4) == rd32(first->capsule + 4);
}

bool pair_start(struct slot *slot)
{
	struct conn *conn = slot->conn;
	unsigned fuse = slot->capsule[1] & 3;
	struct slot *first = conn->first;

	conn->first = NULL;
	slot->pair = NULL;
	slot->has_data = false;
	if (first && fuse != 2)
		violation("opcode %02x between Compare and Write", slot->capsule[0]);
	if (!fuse)
		return false;
	if (fuse == 1 && slot->capsule[0] == OPCODE_COMPARE) {
		conn->first = slot;
	} else if (fuse == 2 && is_second_of(slot, first)) {
		slot->pair = first;
		first->pair = slot;
	} else {
		violation("opcode %02x with FUSE %u after %s", slot->capsule[0], fuse,
			  first ? "another first" : "no first");
		command_done(slot, SC_FIELD);
		return true;
	}
	fetch(slot);
	return true;
}
