/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the roles of a storm. test_storm.c describes the roles. */
#pragma once

#include "tests/raw/daemon.h"
#include "tests/raw/host.h"
#include "tests/storm/dice.h"

enum {
	STORM_HOSTS = 3,
	STORM_QUEUES = 3, /* I/O queues of a host */
	STORM_NAMESPACES = 5,
	STORM_ROUNDS = 5,
	STAMPS_NSID = 2, /* of RAW_SUBNQN, in 4096-byte blocks; only the keeper writes there */
};

/* Streams of random numbers (dice_of): hosts have 1 and up. */
enum storm_stream {
	STREAM_KEEPER = 0,
	STREAM_SIZES = 62,
	STREAM_WEATHER = 63,
};

/* Tuning of rblkd: each seed has its own. One of STORM_ROUNDS successive seeds has the smallest
 * max_transfer that is legal. */
struct storm_sizes {
	unsigned max_transfer, inline_data, queue_depth,
		shared_receives; /* bytes, bytes, entries */
	unsigned workers;
};

/* weather.c */
struct storm_sizes storm_sizes_of(uint64_t seed);

#define STORM_SUBNQN  "nqn.2026-01.org.example:storm"
#define STORM_HOSTNQN "nqn.2014-08.org.nvmexpress:uuid:%08u-7f0e-4c4e-9d0c-0a4d5e6f7a8b"

struct capsule_made {
	uint8_t bytes[RAW_CAPSULE_MAX];
	uint32_t n;
};

/* commands.c: one command of any kind, mostly legal; its data is in q->data, or in the capsule
 * where at most in_capsule_max bytes fit. */
void set_in_capsule_max(unsigned n_bytes);
void make_io_command(struct dice *dice, struct raw_queue *q, struct capsule_made *c);
void make_admin_command(struct dice *dice, struct raw_queue *q, struct capsule_made *c);
/* Half of a fused Compare and Write; both halves have the same blocks. */
void make_half(struct dice *dice, struct raw_queue *q, bool is_second, uint32_t nsid, uint64_t slba,
	       struct capsule_made *c);

/* A duel: for some hundred commands all queues of a host send a few opcodes for one block. The
 * order of events inside rblkd gets narrower than commands at random ever make it. */
struct duel {
	uint32_t nsid;
	uint64_t slba;
	uint8_t opcodes[3];
	unsigned n_left; /* commands; 0: there is no duel */
};
void start_duel(struct dice *dice, struct duel *duel);
void make_duel_command(struct dice *dice, struct raw_queue *q, struct duel *duel,
		       struct capsule_made *c);
void make_abort(struct raw_queue *q, unsigned qid, uint16_t cid, struct capsule_made *c);

/* Roles. Each is a process of its own until the end; its exit status is returned. */
int play_host(const uint16_t ports[2], unsigned number, uint64_t seed, uint64_t end_ns);
int play_keeper(const uint16_t ports[2], uint64_t seed, uint64_t end_ns);

/* weather.c: the administrator and the disk. Comes before the functions that follow. */
void set_weather_sizes(const struct storm_sizes *sizes);
/* Writes the first configuration. */
void write_fair_weather(const struct daemon *d);
/* Changes one thing, and waits up to 2 s. */
void change_weather(const struct daemon *d, struct dice *dice);
/* Restores the first configuration; true: rblkd accepted it. */
bool clear_up(const struct daemon *d);
