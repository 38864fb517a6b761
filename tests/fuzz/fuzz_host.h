/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The target in one thread, over fuzz_wire.h, and hosts that play a script: the fuzzer's input. A
 * script is a row of steps, the kind in the low bits of the first byte:
 *
 *   0 raw          connection, n (2 bytes), SQE (64 bytes), then, if the command sends data,
 *                  its n bytes: the SGL is the script's own
 *   1 keyed        the same; the SGL describes n bytes under a key
 *   2 in capsule   the same, and n bytes come with each command
 *   3 invalidate   as keyed, and the SGL requests invalidation of the key
 *   4 open         connection (bits 4 and 5: the portal), RDMA READs offered, 32 bytes of
 *                  private data
 *   5 close        connection: the host disconnects. Bit 7: instead, hosts are notified of a
 *                  change; bit 6: the host authenticates with the configured key; all bits:
 *                  rblkd is stopping; all but bit 0: an administrator drops the registrant of
 *                  namespace 2 with the identifier of host 2; all but bit 1: another rblkd is the
 *                  owner of the ANA groups; all but both: this one is
 *   6 disk         errno (0: none), count: results of the next operations on the disk of
 *                  namespace 2; bit 7 of the errno: it completes them at the next such step.
 *                  errno 127: another rblkd stores 4 bytes times count, which follow, as the
 *                  record of that namespace, and of each in an ANA group that it owns; bit 7:
 *                  just before the next change of this rblkd
 *   7 time         number of following steps without a turn between them; bit 7: the device
 *                  is idle meanwhile; all other bits: the timers of connections that have not
 *                  sent Connect, or have not authenticated, expire, and those of resets; all
 *                  but the lowest: each host was silent for longer than its KATO
 *
 * A Cross-Controller Reset that names the instance 0 names the one that lives.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nvme_sqe;
struct queue;

enum host_world {		  /* bits of the script's first byte */
	WORLD_DISCOVERY = 1 << 0, /* connection 0 is a discovery controller's */
	WORLD_STATE = 1 << 1,	  /* with a state directory */
	WORLD_ANA = 1 << 2,	  /* hosts use the subsystem with ANA groups */
	WORLD_NO_INLINE = 1 << 3,
	WORLD_STOPPING =
		1 << 4,		/* rblkd is stopping; and a state directory knows many bad blocks */
	WORLD_NO_FLOW = 1 << 5, /* submission queue flow control is off */
	WORLD_KEEPS_ALIVE = 1 << 6,
	/* the state directory cannot be written; or without one, namespace 2 has a record that
	 * several rblkd share */
	WORLD_BROKEN_STATE = 1 << 7,
};

/* Starts a new world; is_connected: two hosts have enabled their controllers and have an I/O
 * queue each, connections 0 and 1, 2 and 3. */
void host_begin(unsigned world, bool is_connected);
void host_play(const uint8_t *script, size_t n);
/* For unit tests, which inspect the target's inside: the queue of a connection, NULL when it is
 * gone; a command from it, with n bytes of its host's memory described; turns, until no work is
 * left. */
struct queue *host_queue(unsigned i);
void host_send(unsigned i, const struct nvme_sqe *sqe, size_t n);
void host_settle(void);
/* A host, 1 that of connections 0 and 1, 2 that of 2 and 3, sends the Connect of a new admin queue,
 * as connection i. Once that has its controller, host_enter goes on: it enables the controller, and
 * connection i + 1 is an I/O queue. host_return is both, for host 1. */
void host_ask(unsigned i, uint8_t host);
void host_enter(unsigned i, uint8_t host);
void host_return(unsigned i);
/* All hosts disconnect; checks that nothing of them is left. */
void host_end(void);
