/* SPDX-License-Identifier: BSD-3-Clause */
/* The paths of a volume, as front ends see and change them; see volume_paths.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/error.h"

struct volume;
struct path;
struct volume_queue;

enum volume_path_state {
	VOLUME_PATH_IDLE, /* the volume has failed, or not come to it so far */
	VOLUME_PATH_CONNECTING,
	VOLUME_PATH_LIVE,
	VOLUME_PATH_LOST,   /* it is tried again */
	VOLUME_PATH_DENIED, /* as VOLUME_DENIED and VOLUME_GONE; tried again, too */
	VOLUME_PATH_GONE,
	VOLUME_PATH_OTHER, /* it leads to another namespace */
	VOLUME_PATH_UNFIT, /* it has too few queues, or too little of something else: last_error */
	VOLUME_PATH_LEAVING, /* it is being removed */
};

struct volume_path_status {
	union addr address;
	bool is_found; /* by discovery, which removes it, too; else a user names it */
	enum volume_path_state state;
	uint64_t state_since_ns; /* clock_ns() */
	bool wants_queues;	 /* its coming or going waits for the loops of queues */
	bool is_used;		 /* new I/O may take it: live, and of the best ANA state */
	const char *ana_state;	 /* "optimized"; NULL: not known, no ANA */
	uint16_t cntlid;
	char device[64]; /* RDMA device in use */
	unsigned n_queues_live;
	uint64_t n_in_flight;
	uint64_t n_commands; /* that it answered */
	uint64_t latency_ns; /* of small commands, as the policies see it; 0: not measured */
	uint64_t n_losses;
	bool has_unflushed; /* it has acknowledged writes that no Flush covers yet */
	struct error last_error;
};

enum {
	VOLUME_SERVICES_MAX = 8, /* discovery controllers of a volume */
};

/* A discovery controller of a volume, as front ends see it. */
struct volume_service_status {
	union addr address;
	const char *state;	 /* "connecting", "live", "lost" or "refused" */
	uint64_t state_since_ns; /* clock_ns() */
	bool is_referral;	 /* another one refers to it */
	bool has_log;		 /* it was read, of this address; the rest is of the last one */
	uint64_t generation;	 /* GENCTR */
	uint64_t changed_ns;	 /* clock_ns(): when the last change was read */
	unsigned n_portals;	 /* of the volume's subsystem */
	struct error last_error;
};

/* Control thread. One more path, which connects as the others do. 0, or -errno with *error: it is
 * one already, there are VOLUME_PATHS_MAX, or the volume was never live. */
int volume_path_add(struct volume *volume, const union addr *address, struct error *error);
/* Control thread. New I/O takes other paths from now on, and volume_path_go follows. is_dead: an
 * administrator vouches that its target is dead for sure, so writes that wait for the proof that it
 * is done with an earlier copy go on. (If it is not, such a copy may land over newer data.) 0, or
 * -errno with *error: no such path, no other one is live, or it is not dead, but live. */
int volume_path_leave(struct volume *volume, const union addr *address, bool is_dead,
		      struct error *error);

enum volume_departure {
	DEPARTURE_DONE,	      /* there is no such path (any more), or it stays */
	DEPARTURE_UNDER_WAY,  /* it is not used any more, and is being taken down */
	DEPARTURE_WAITS,      /* it has I/O in flight, or a queue has no other: ask again soon */
	DEPARTURE_WANTS_FLUSH /* it has acknowledged writes: ask again after a Flush on any queue */
};
/* Control thread. A path that leaves, because a user or discovery removes it, and for which
 * volume_path_go is to be called. False: there is none. */
bool volume_path_leaving(const struct volume *volume, union addr *ret_address);
/* Control thread. A path that leaves goes, if nothing is to be waited for. */
enum volume_departure volume_path_go(struct volume *volume, const union addr *address);

/* NULL: there is none. */
struct path *volume_path_find(const struct volume *volume, const union addr *address);
/* As volume_path_add, for a path that this discovery controller lists. */
int volume_path_add_found(struct volume *volume, const union addr *address,
			  const union addr *found_at, struct error *error);
/* No log has the path any more, so it leaves; front ends are notified. 0, or -EBUSY: it must not go
 * now, since no other one is live, or writes would never be proven or flushed. */
int volume_path_leave_found(struct path *path);

/* Those of the configuration. 0 or -ENOMEM. */
int volume_make_paths(struct volume *volume);
/* The path has acknowledged writes that no Flush covers. */
bool volume_path_has_unflushed(const struct path *path);
void volume_free_paths(struct volume *volume);
/* The lane of the path in this queue. 0 or -ENOMEM. */
int volume_make_lane(struct volume_queue *queue, struct path *path);
/* Its link is idle. Accepts that there is none. */
void volume_free_lane(struct volume_queue *queue, struct path *path);
