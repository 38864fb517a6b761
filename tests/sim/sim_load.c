/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See sim.h: programs on the host, one a block, and the checker. A write has the next number of its
 * block. A block has one command at a time, so what a read must find is known: the last write that
 * was acknowledged.
 */
#include <string.h>

#include "tests/sim/sim.h"

enum {
	THINK_US = 8000,
	AGAIN_US = 5000,
	FLUSH_US = 60000,
	WRITES_PERCENT = 65,
};

static struct {
	struct block {
		uint32_t acknowledged, flushed, issued;
		bool is_busy, is_sent, may_write;
		enum sim_command_kind kind;
		unsigned unproven; /* a bit a lost controller: it may have a copy of the write */
	} blocks[SIM_BLOCKS];
	struct {
		bool is_sent;
		uint32_t covers[SIM_BLOCKS];
	} flush;
	bool is_finishing, is_draining;
} load;

static void begin_one(unsigned block);

static void try_to_send(unsigned block)
{
	struct block *b = &load.blocks[block];
	unsigned path = sim_host_choose_path();

	if (!b->is_busy || b->is_sent)
		return;
	if (path == SIM_PATHS || b->unproven) {
		sim_after(sim_between_us(500, AGAIN_US), try_to_send, block);
		return;
	}
	b->is_sent = true;
	if (b->kind == SIM_WRITE)
		sim_tell("block %u: write %u on path %u", block, b->issued, path);
	sim_host_send(path, b->kind, block, b->issued);
}

static void begin_one(unsigned block)
{
	struct block *b = &load.blocks[block];

	if (load.is_finishing)
		return;
	b->is_busy = true;
	b->kind = sim_chance(WRITES_PERCENT) ? SIM_WRITE : SIM_READ;
	if (b->kind == SIM_WRITE)
		b->issued++;
	try_to_send(block);
}

static void flush(unsigned what)
{
	unsigned path = sim_host_choose_path();

	if (load.is_finishing)
		return;
	sim_after(sim_between_us(1000, FLUSH_US), flush, 0);
	if (load.flush.is_sent || path == SIM_PATHS || sim_host_is_write_through())
		return;
	load.flush.is_sent = true;
	for (unsigned i = 0; i < SIM_BLOCKS; i++)
		load.flush.covers[i] = load.blocks[i].acknowledged;
	sim_host_send(path, SIM_FLUSH, 0, 0);
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
		if (load.blocks[i].is_busy)
			return false;
	return true;
}

/* ---- the checker ---------------------------------------------------------------------------- */

static void write_is_done(struct block *b, unsigned block, uint32_t version)
{
	if (version != b->issued)
		sim_wrong("block %u: write %u is acknowledged, not %u", block, version, b->issued);
	if (sim_disk_version(block) != version)
		sim_wrong("block %u: write %u is acknowledged, and the disk has %u", block, version,
			  sim_disk_version(block));
	sim_tell("block %u: write %u is acknowledged", block, version);
	b->acknowledged = version;
	if (sim_host_is_write_through())
		b->flushed = version;
}

static void flush_is_done(bool is_done)
{
	load.flush.is_sent = false;
	for (unsigned i = 0; is_done && i < SIM_BLOCKS; i++)
		if (load.flush.covers[i] > load.blocks[i].flushed)
			load.blocks[i].flushed = load.flush.covers[i];
}

void sim_load_answered(unsigned path, enum sim_command_kind kind, unsigned block, uint32_t version,
		       bool is_done)
{
	struct block *b = &load.blocks[block];

	if (kind == SIM_FLUSH) {
		flush_is_done(is_done);
		return;
	}
	b->is_sent = false;
	if (!is_done) {
		sim_after(sim_between_us(500, AGAIN_US), try_to_send, block);
		return;
	}
	if (kind == SIM_WRITE)
		write_is_done(b, block, version);
	else if (version != b->acknowledged)
		sim_wrong("block %u: a read finds %u, and %u was acknowledged", block, version,
			  b->acknowledged);
	b->is_busy = false;
	sim_after(sim_between_us(100, THINK_US), begin_one, block);
}

void sim_load_lost(unsigned old, enum sim_command_kind kind, unsigned block)
{
	struct block *b = &load.blocks[block];

	if (kind == SIM_FLUSH) {
		flush_is_done(false);
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
		load.blocks[i].unproven &= ~(1u << old);
}

uint32_t sim_load_acknowledged(unsigned block)
{
	return load.blocks[block].acknowledged;
}

/* What a flush has covered is there. The rest may be older now, and the programs know that. */
void sim_load_power_was_lost(void)
{
	load.flush.is_sent = false;
	for (unsigned i = 0; i < SIM_BLOCKS; i++) {
		struct block *b = &load.blocks[i];
		uint32_t is = sim_disk_version(i);

		if (is < b->flushed)
			sim_wrong("block %u: %u was flushed, and after a loss of power there is %u",
				  i, b->flushed, is);
		if (is < b->acknowledged)
			b->acknowledged = is;
		if (b->flushed > b->acknowledged)
			b->flushed = b->acknowledged;
	}
}
