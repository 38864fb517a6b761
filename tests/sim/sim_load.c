/* SPDX-License-Identifier: BSD-3-Clause */
/* See sim.h: programs on the host with two paths, one a block. */
#include <string.h>

#include "tests/sim/sim.h"

enum {
	THINK_US = 8000,
	AGAIN_US = 5000,
	FLUSH_US = 60000,
	WRITES_PERCENT = 65,
	DURABLE_PERCENT = 15,
};

static struct {
	struct item {
		bool is_busy, is_sent, is_durable;
		enum sim_command_kind kind;
		uint32_t version;
		unsigned unproven; /* a bit a lost controller: it may have a copy of the write */
	} items[SIM_BLOCKS];
	bool is_flush_sent;
	uint32_t covers[SIM_BLOCKS];
	bool is_finishing;
} load;

static void try_to_send(unsigned block)
{
	struct item *b = &load.items[block];
	unsigned path = sim_host_choose_path();

	if (!b->is_busy || b->is_sent)
		return;
	if (path == SIM_PATHS || b->unproven) {
		sim_after(sim_between_us(500, AGAIN_US), try_to_send, block);
		return;
	}
	b->is_sent = true;
	if (b->kind == SIM_WRITE)
		sim_tell("block %u: write %u on path %u", block, b->version, path);
	sim_host_send(path, b->kind, block, b->version, b->is_durable);
}

static void begin_one(unsigned block)
{
	struct item *b = &load.items[block];

	if (load.is_finishing)
		return;
	b->is_busy = true;
	b->kind = sim_chance(WRITES_PERCENT) ? SIM_WRITE : SIM_READ;
	b->is_durable = b->kind == SIM_WRITE && sim_chance(DURABLE_PERCENT);
	if (b->kind == SIM_WRITE)
		b->version = sim_check_write(block);
	try_to_send(block);
}

static void flush(unsigned what)
{
	unsigned path = sim_host_choose_path();

	if (load.is_finishing)
		return;
	sim_after(sim_between_us(1000, FLUSH_US), flush, 0);
	if (load.is_flush_sent || path == SIM_PATHS || sim_host_is_write_through())
		return;
	load.is_flush_sent = true;
	sim_check_flush(load.covers);
	sim_host_send(path, SIM_FLUSH, 0, 0, false);
}

void sim_load_begin(void)
{
	memset(&load, 0, sizeof(load));
	for (unsigned i = 0; i < SIM_BLOCKS; i++)
		sim_after(sim_between_us(1000, THINK_US), begin_one, i);
	sim_after(sim_between_us(1000, FLUSH_US), flush, 0);
}

bool sim_load_finish(void)
{
	load.is_finishing = true;
	for (unsigned i = 0; i < SIM_BLOCKS; i++)
		if (load.items[i].is_busy)
			return false;
	return true;
}

void sim_load_answered(enum sim_command_kind kind, unsigned block, uint32_t version, bool is_done)
{
	struct item *b = &load.items[block];

	if (kind == SIM_FLUSH) {
		if (load.is_flush_sent && is_done)
			sim_check_flushed(load.covers, true);
		load.is_flush_sent = false;
		return;
	}
	b->is_sent = false;
	if (!is_done) {
		sim_after(sim_between_us(500, AGAIN_US), try_to_send, block);
		return;
	}
	if (kind == SIM_WRITE)
		sim_check_written(block, version, b->is_durable || sim_host_is_write_through());
	else
		sim_check_read(block, version);
	b->is_busy = false;
	sim_after(sim_between_us(100, THINK_US), begin_one, block);
}

void sim_load_lost(unsigned old, enum sim_command_kind kind, unsigned block)
{
	struct item *b = &load.items[block];

	if (kind == SIM_FLUSH) {
		load.is_flush_sent = false;
		return;
	}
	b->is_sent = false;
	if (kind == SIM_WRITE)
		b->unproven |= 1u << old;
	sim_after(sim_between_us(10, AGAIN_US), try_to_send, block);
}

void sim_load_proven(unsigned old)
{
	for (unsigned i = 0; i < SIM_BLOCKS; i++)
		load.items[i].unproven &= ~(1u << old);
}

void sim_load_power_was_lost(void)
{
	load.is_flush_sent = false;
}
