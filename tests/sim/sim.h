/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A target and a host in one thread, on a clock, a fabric and a disk that a seed decides on. The
 * target is rblkd's own code. The host is one of two, as the seed has it:
 *
 * - rblk's own code, from its NBD connections down, with clients of the test;
 * - a host of the test with two paths, which keeps the rules of a host that repeats a write.
 *
 * The seed cuts links, stops and kills programs, and lets the disk hang and lose its power. A
 * checker compares each read, each acknowledgement and each landing of a write with what the
 * clients know. README.md has more. One thread; no function fails.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"

enum {
	SIM_BLOCKS = 6,
	SIM_BLOCK_BYTES = 512,
	SIM_PATHS = 2,
	SIM_OLDS = 32, /* lost controllers without proof */
	SIM_KATO_MS = 1000,
	SIM_QUIESCE_MS = 2000,
	SIM_CONNS = 256, /* of one seed */
	SIM_NO_CONN = SIM_CONNS,
};

#define SIM_SUBNQN "nqn.2026-01.org.example:sim"

/* ---- sim_time.c: the clock, the dice, what happens next, the story -------------------------- */

void sim_time_begin(uint64_t seed, bool has_story);
uint64_t sim_now(void);
/* A number below n. */
unsigned sim_dice(unsigned n);
bool sim_chance(unsigned percent);
uint64_t sim_between_us(unsigned from, unsigned to); /* in ns */
/* Calls run(what) then; later calls for the same time come later. */
void sim_at(uint64_t time_ns, void (*run)(unsigned what), unsigned what);
void sim_after(uint64_t ns, void (*run)(unsigned what), unsigned what);
/* The time of the next event; UINT64_MAX: there is none. */
uint64_t sim_next(void);
/* Moves the clock, and runs the events that are due. */
void sim_move_to(uint64_t time_ns);
/* A line of the story. Its text is part of the digest whether it is printed or not. */
__attribute__((format(printf, 1, 2))) void sim_tell(const char *fmt, ...);
/* The seed has found a violation: the first is kept. */
__attribute__((format(printf, 1, 2))) void sim_wrong(const char *fmt, ...);
const char *sim_violation(void); /* NULL: none */
uint64_t sim_digest(void);

/* ---- sim_disk.c ----------------------------------------------------------------------------- */

struct backend;
struct loop;

struct backend *sim_disk_open(struct loop *loop);
/* Starts a seed: all blocks are of version 0. */
void sim_disk_begin(void);
/* The next I/O takes as long. */
void sim_disk_hang(uint64_t ns);
/* What is in flight has its usual time again. */
bool sim_disk_is_quiet(void);
/* Whether I/O of the connections of that instance of a controller is in flight. */
bool sim_disk_has_io_of(unsigned instance);
uint32_t sim_disk_version(unsigned block);
/* What no flush covers is lost, or not; what is in flight is lost. */
void sim_disk_lose_power(void);
/* The program that submitted is gone: further I/O of it has no effect. */
void sim_disk_refuse(bool must_refuse);

/* ---- sim_target.c --------------------------------------------------------------------------- */

struct nvme_sqe;
struct nvme_cqe;

void sim_target_begin(bool is_write_through);
/* Ends it in order; true once it is gone. */
bool sim_target_end(void);
bool sim_target_is_quiet(void);
/* Turns each loop once, in any order. */
void sim_target_turn(void);
/* When a timer of the target is due; UINT64_MAX: never. */
uint64_t sim_target_deadline(void);
void sim_target_stop(uint64_t ns); /* SIGSTOP, for as long */
void sim_target_kill(bool loses_power);
bool sim_target_is_up(void);
bool sim_target_is_write_through(void);
/* Arrives at the target, when it runs: a connect request of a path, a capsule of a connection, a
 * disconnect. Returns the connection; SIM_NO_CONN: refused. */
unsigned sim_target_connect(unsigned path, const void *private_data, size_t n);
void sim_target_deliver(unsigned conn, const struct nvme_sqe *sqe, const void *data, size_t n);
void sim_target_hang_up(unsigned conn);
bool sim_target_has(unsigned conn);
/* The connection whose command an I/O is of; SIM_NO_CONN: of none. */
struct backend_io;
unsigned sim_target_conn_of(struct backend_io *io);

/* Turns all programs until no work is left at this time. */
void sim_settle(void);

/* ---- sim_check.c ---------------------------------------------------------------------------- */

/* is_aware: the host tells a target that lost its power from one that was restarted. */
void sim_check_begin(bool is_aware);
/* The number of the write that the program sends now. */
uint32_t sim_check_write(unsigned block);
void sim_check_written(unsigned block, uint32_t version, bool is_durable);
void sim_check_read(unsigned block, uint32_t version);
/* On the disk. */
void sim_check_landing(unsigned block, uint32_t version);
/* A flush is sent: it covers what is acknowledged now. */
void sim_check_flush(uint32_t covers[SIM_BLOCKS]);
void sim_check_flushed(const uint32_t covers[SIM_BLOCKS], bool is_done);
/* rblk was killed: what it had sent may land until a write of the next rblk is acknowledged. */
void sim_check_programs_died(void);
void sim_check_power_was_lost(void);
/* Adds to the story how much was checked. */
void sim_check_tell(void);

/* ---- sim_host.c: paths ---------------------------------------------------------------------- */

enum sim_command_kind {
	SIM_CONNECT,
	SIM_ENABLE,
	SIM_IDENTIFY,
	SIM_IO_CONNECT,
	SIM_KEEP_ALIVE,
	SIM_RESET,
	SIM_READ,
	SIM_WRITE,
	SIM_FLUSH,
};

void sim_host_begin(bool is_used);
void sim_host_end(void);
/* The path of a new command; SIM_PATHS: none is live. */
unsigned sim_host_choose_path(void);
/* Reads, writes or flushes; sim_load_answered follows, or sim_load_lost. */
void sim_host_send(unsigned path, enum sim_command_kind kind, unsigned block, uint32_t version,
		   bool is_durable);
void sim_host_cut(unsigned path, uint64_t ns);
void sim_host_give_up(unsigned path, const char *why);
void sim_host_target_died(bool loses_power);
unsigned sim_host_instance_of(unsigned conn);
bool sim_host_is_write_through(void); /* the host was told of no volatile cache */
/* From the fabric. */
void sim_host_on_response(unsigned conn, const struct nvme_cqe *cqe);
void sim_host_on_data(unsigned conn, unsigned key, const void *data, size_t n);

/* ---- sim_load.c: what programs on that host do ---------------------------------------------- */

void sim_load_begin(void);
/* No new commands; true once all are answered. */
bool sim_load_finish(void);
void sim_load_answered(enum sim_command_kind kind, unsigned block, uint32_t version, bool is_done);
/* The controller in this slot is lost with this command in flight. */
void sim_load_lost(unsigned old, enum sim_command_kind kind, unsigned block);
/* Nothing of it is left. */
void sim_load_proven(unsigned old);
void sim_load_power_was_lost(void);

/* ---- sim_rblk.c: rblk ----------------------------------------------------------------------- */

void sim_rblk_begin(void);
/* Ends it in order; true once it is gone. */
bool sim_rblk_end(void);
bool sim_rblk_is_quiet(void);
/* Turns each loop once, in any order. */
void sim_rblk_turn(void);
uint64_t sim_rblk_deadline(void);
void sim_rblk_kill(void);
void sim_rblk_stop(uint64_t ns); /* SIGSTOP, for as long */
/* A socket of a new connection; -1: rblk takes none now. */
int sim_rblk_connect(void);
/* A client has written or closed: its worker looks. */
void sim_rblk_kick(void);

/* ---- sim_nbd.c: its clients ----------------------------------------------------------------- */

void sim_nbd_begin(void);
/* No new commands; true once all are answered. */
bool sim_nbd_finish(void);
/* Takes what has arrived. */
void sim_nbd_look(void);
/* One of them goes, with what it has in flight. */
void sim_nbd_hang_up(void);
void sim_nbd_end(void);
