/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See sim.h: what is known of each block, and what must therefore hold. A write has the next number
 * of its block, and a block has one command at a time. Numbers up to `closed` are settled: of those
 * only `is` may be found, and none but `is` may land again. A number above may be one of a write
 * that was given up without an answer: the first read that follows shows whether it is there, and
 * settles it.
 */
#include <string.h>

#include "tests/sim/sim.h"

static struct {
	struct block {
		uint32_t is, closed, issued, flushed;
		uint32_t foreign; /* numbers up to here were acknowledged by an earlier rblk */
		bool is_unsettled; /* the program that sent the last writes was killed */
		bool is_lost;	   /* an acknowledged write went with the power */
	} blocks[SIM_BLOCKS];
	bool had_loss, is_aware;
	unsigned n_reads, n_writes, n_flushes;
} known;

void sim_check_begin(bool is_aware)
{
	memset(&known, 0, sizeof(known));
	known.is_aware = is_aware;
}

uint32_t sim_check_write(unsigned block)
{
	return ++known.blocks[block].issued;
}

void sim_check_written(unsigned block, uint32_t version, bool is_durable)
{
	struct block *b = &known.blocks[block];

	if (version != b->issued)
		sim_wrong("block %u: write %u is acknowledged, not %u", block, version, b->issued);
	if (sim_disk_version(block) != version)
		sim_wrong("block %u: write %u is acknowledged, and the disk has %u", block, version,
			  sim_disk_version(block));
	sim_tell("block %u: write %u is acknowledged", block, version);
	b->is = b->closed = version;
	b->is_unsettled = false;
	if (is_durable)
		b->flushed = version;
	known.n_writes++;
}

void sim_check_read(unsigned block, uint32_t version)
{
	struct block *b = &known.blocks[block];

	if (version != b->is && (version <= b->closed || version > b->issued))
		sim_wrong("block %u: a read finds %u, and there is %u%s", block, version, b->is,
			  b->issued > b->closed ? " or a later one" : "");
	if (version != b->is || b->issued > b->closed)
		sim_tell("block %u: a read finds %u", block, version);
	b->is = version;
	if (!b->is_unsettled)
		b->closed = b->issued;
	else if (version > b->closed)
		b->closed = version;
	known.n_reads++;
}

void sim_check_landing(unsigned block, uint32_t version)
{
	const struct block *b = &known.blocks[block];

	if (version > b->issued)
		sim_wrong("block %u: a write lands that was never sent", block);
	else if (version != b->is && version <= b->closed)
		sim_wrong("block %u: write %u lands after %u was %s", block, version, b->is,
			  version < b->is ? "acknowledged" : "found");
}

void sim_check_flush(uint32_t covers[SIM_BLOCKS])
{
	for (unsigned i = 0; i < SIM_BLOCKS; i++)
		covers[i] = known.blocks[i].is;
}

void sim_check_flushed(const uint32_t covers[SIM_BLOCKS], bool is_done)
{
	for (unsigned i = 0; i < SIM_BLOCKS; i++) {
		struct block *b = &known.blocks[i];

		if (is_done && known.is_aware && b->is_lost)
			sim_wrong("a flush succeeds, and block %u has lost a write", i);
		if (is_done && covers[i] > b->flushed && covers[i] <= b->is)
			b->flushed = covers[i];
		b->is_lost = false;
	}
	if (!is_done && !known.had_loss)
		sim_wrong("a flush fails, and no power was lost");
	known.n_flushes += is_done;
}

void sim_check_programs_died(void)
{
	for (unsigned i = 0; i < SIM_BLOCKS; i++) {
		struct block *b = &known.blocks[i];

		b->is_unsettled = true;
		b->is_lost = false;
		b->foreign = b->issued;
	}
}

/* What a flush has covered is there. The rest may be older now, and the programs know that. */
void sim_check_power_was_lost(void)
{
	known.had_loss = true;
	for (unsigned i = 0; i < SIM_BLOCKS; i++) {
		struct block *b = &known.blocks[i];
		uint32_t is = sim_disk_version(i);

		if (is < b->flushed)
			sim_wrong("block %u: %u was flushed, and after a loss of power there is %u",
				  i, b->flushed, is);
		if (is >= b->is)
			continue;
		b->is_lost |= b->is > b->foreign;
		b->is = is;
		b->flushed = b->flushed < is ? b->flushed : is;
	}
}

void sim_check_tell(void)
{
	sim_tell("done: %u writes, %u reads, %u flushes", known.n_writes, known.n_reads,
		 known.n_flushes);
}
