/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See sim.h. A disk with a volatile cache. An I/O lands at a time that the dice choose, in any
 * order, whether the program that has submitted it runs or not; the program hears of it when it
 * runs. A block is a version number, repeated.
 */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "target/store/backend.h"
#include "tests/sim/sim.h"

enum {
	IN_FLIGHT_MAX = 256,
	FAST_US = 40,
	SLOW_US = 2500,
	VERY_SLOW_PERCENT = 3,
};

struct flight {
	struct backend_io *io; /* NULL: free */
	bool has_landed, is_void;
	int error;
	unsigned instance;
	uint32_t seen[SIM_BLOCKS]; /* a flush: what it covers */
};

static struct {
	struct backend backend;
	struct loop *loop;
	struct loop_call call;
	struct flight flights[IN_FLIGHT_MAX];
	uint32_t visible[SIM_BLOCKS], durable[SIM_BLOCKS];
	uint64_t hang_ns;
	bool must_refuse;
} disk;

static void land_write(struct flight *flight, unsigned block)
{
	const struct backend_io *io = flight->io;
	uint32_t version = 0;

	if (io->op == BACKEND_WRITE)
		memcpy(&version, io->buffer, sizeof(version));
	sim_check_landing(block, version);
	disk.visible[block] = version;
	if (io->is_fua)
		disk.durable[block] = version;
}

static void land_read(const struct backend_io *io, unsigned block)
{
	uint32_t *words = io->buffer;

	for (size_t i = 0; i < SIM_BLOCK_BYTES / sizeof(*words); i++)
		words[i] = disk.visible[block];
}

static void land_flush(const struct flight *flight)
{
	for (unsigned i = 0; i < SIM_BLOCKS; i++)
		if (flight->seen[i] > disk.durable[i])
			disk.durable[i] = flight->seen[i];
}

static void on_land(unsigned i)
{
	struct flight *flight = &disk.flights[i];
	const struct backend_io *io = flight->io;
	unsigned block = (unsigned)(io->offset / SIM_BLOCK_BYTES);

	check(io && !flight->has_landed);
	if (flight->is_void)
		flight->error = -EIO;
	else if (io->op == BACKEND_FLUSH)
		land_flush(flight);
	else if (io->op == BACKEND_READ)
		land_read(io, block);
	else
		land_write(flight, block);
	flight->has_landed = true;
	loop_defer(disk.loop, &disk.call);
}

/* On the poller's loop. */
static void report(struct loop_call *call)
{
	for (unsigned i = 0; i < IN_FLIGHT_MAX; i++) {
		struct flight flight = disk.flights[i];

		if (!flight.io || !flight.has_landed)
			continue;
		disk.flights[i].io = NULL;
		flight.io->is_out = false;
		flight.io->done(flight.io, flight.error);
	}
}

static uint64_t choose_time(void)
{
	uint64_t ns = disk.hang_ns;

	disk.hang_ns = 0;
	if (ns)
		return ns;
	return sim_chance(VERY_SLOW_PERCENT) ? sim_between_us(SLOW_US, 400000)
					     : sim_between_us(FAST_US, SLOW_US);
}

static void disk_submit(struct backend *backend, struct backend_thread *thread,
			struct backend_io *io)
{
	unsigned i = 0, conn = sim_target_conn_of(io);

	while (disk.flights[i].io)
		check(++i < IN_FLIGHT_MAX);
	check(io->op == BACKEND_FLUSH ||
	      (io->length == SIM_BLOCK_BYTES && io->offset / SIM_BLOCK_BYTES < SIM_BLOCKS));
	disk.flights[i] = (struct flight){
		.io = io,
		.is_void = disk.must_refuse,
		.instance = conn == SIM_NO_CONN ? 0 : sim_host_instance_of(conn)};
	memcpy(disk.flights[i].seen, disk.visible, sizeof(disk.visible));
	sim_after(choose_time(), on_land, i);
}

static void disk_close(struct backend *backend)
{
	check(sim_disk_is_quiet());
}

static const struct backend_ops disk_ops = {
	.name = "disk",
	.close = disk_close,
	.submit = disk_submit,
};

struct backend *sim_disk_open(struct loop *loop)
{
	disk.loop = loop;
	disk.call.run = report;
	disk.must_refuse = false;
	disk.backend = (struct backend){
		.ops = &disk_ops,
		.limits = {.size_bytes = 1 << 20, .min_block = 512, .has_volatile_cache = true},
	};
	return &disk.backend;
}

void sim_disk_begin(void)
{
	check(sim_disk_is_quiet());
	memset(disk.visible, 0, sizeof(disk.visible));
	memset(disk.durable, 0, sizeof(disk.durable));
	disk.hang_ns = 0;
}

void sim_disk_hang(uint64_t ns)
{
	disk.hang_ns = ns;
}

bool sim_disk_is_quiet(void)
{
	for (unsigned i = 0; i < IN_FLIGHT_MAX; i++)
		if (disk.flights[i].io)
			return false;
	return true;
}

bool sim_disk_has_io_of(unsigned instance)
{
	for (unsigned i = 0; i < IN_FLIGHT_MAX; i++)
		if (disk.flights[i].io && disk.flights[i].io->op == BACKEND_WRITE &&
		    disk.flights[i].instance == instance && !disk.flights[i].has_landed)
			return true;
	return false;
}

uint32_t sim_disk_version(unsigned block)
{
	return disk.visible[block];
}

void sim_disk_lose_power(void)
{
	for (unsigned i = 0; i < IN_FLIGHT_MAX; i++)
		disk.flights[i].is_void = true;
	for (unsigned i = 0; i < SIM_BLOCKS; i++)
		if (sim_chance(70))
			disk.visible[i] = disk.durable[i];
	memcpy(disk.durable, disk.visible, sizeof(disk.durable));
}

void sim_disk_refuse(bool must_refuse)
{
	disk.must_refuse = must_refuse;
}
