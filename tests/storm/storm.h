/* SPDX-License-Identifier: BSD-3-Clause */
/* What the roles of a storm share; test_storm.c says what they are. */
#pragma once

#include "tests/raw/daemon.h"
#include "tests/raw/host.h"
#include "tests/storm/dice.h"

enum {
	STORM_HOSTS = 3,
	STORM_QUEUES = 3, /* I/O queues of a host */
	STORM_NAMESPACES = 5,
	STAMPS_NSID = 2, /* of RAW_SUBNQN, in 4096-byte blocks; only the keeper writes there */
};

#define STORM_SUBNQN  "nqn.2026-01.org.example:storm"
#define STORM_HOSTNQN "nqn.2014-08.org.nvmexpress:uuid:%08u-7f0e-4c4e-9d0c-0a4d5e6f7a8b"

struct capsule_made {
	uint8_t bytes[RAW_CAPSULE_MAX];
	uint32_t n;
};

/* commands.c: one command of any kind, mostly legal; its data is in q->data, or in the capsule. */
void make_io_command(struct dice *dice, struct raw_queue *q, struct capsule_made *c);
void make_admin_command(struct dice *dice, struct raw_queue *q, struct capsule_made *c);
/* Half of a fused Compare and Write; both halves of the same blocks. */
void make_half(struct dice *dice, struct raw_queue *q, bool is_second, uint32_t nsid, uint64_t slba,
	       struct capsule_made *c);
void make_abort(struct raw_queue *q, unsigned qid, uint16_t cid, struct capsule_made *c);

/* Roles, each a process of its own until the end; return its exit status. */
int play_host(const uint16_t ports[2], unsigned number, uint64_t seed, uint64_t end_ns);
int play_keeper(const uint16_t ports[2], uint64_t seed, uint64_t end_ns);

/* weather.c: the administrator and the disk. Writes the first configuration; as it was. */
void write_fair_weather(const struct daemon *d);
/* Something changes. */
void change_weather(const struct daemon *d, struct dice *dice);
/* Everything is as it was at first; true: rblkd agreed. */
bool clear_up(const struct daemon *d);
