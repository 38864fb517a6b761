/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pollers: threads that own queue pairs and move data. Each has one loop, one arena of
 * buffers that is registered with every device in use, one backend_thread, and for each
 * device one completion queue and one shared receive queue.
 */
#pragma once

#include <pthread.h>

#include "base/loop.h"
#include "target/engine/buffer.h"
#include "target/engine/target.h"
#include "transport/recv_ring.h"

struct queue;

/* A poller's share of one RDMA device. */
struct poller_device {
	/* Thread: control makes and frees; in between the poller */
	struct poller *poller;
	struct device *device;
	struct cq cq;
	struct recv_ring ring;		  /* shared by the I/O queues; n_max is 0 without SRQ */
	struct recv_part *first_receives; /* of it: posted when it starts */
	unsigned n_promised;		  /* control: commands that its queues may have in all */
	unsigned n_held; /* of the shared ring: receives kept for their in-capsule data */
	struct mr mr;	 /* of the poller's arenas; none on iWARP (sink.h) */
	bool is_started; /* poller */
	struct loop_msg start, stop;
	struct loop_timer start_again; /* poller: runs while it could not */
};

struct poller {
	/* Thread: poller, but for what says otherwise */
	struct target *target;
	unsigned index;
	pthread_t thread;
	bool has_thread;
	struct loop loop;
	struct backend_thread *backends;
	void *memory; /* owned mapping: both arenas */
	size_t memory_bytes;
	struct arena data;	    /* of I/O commands */
	struct arena admin;	    /* of Connect and admin commands: data can never starve them */
	struct list queues;	    /* of struct queue (poller_node) */
	struct list short_queues;   /* of struct queue (short_node): responses wait for slots */
	struct list throttled;	    /* of struct line (node) */
	struct loop_timer throttle; /* runs while somebody waits there */
	struct loop_timer stall;    /* runs while requests wait for buffers */
	struct loop_call resume;    /* requests that wait for a buffer */
	struct poller_device devices[DEVICE_MAX]; /* by device index */
	unsigned n_visits; /* of guards, that wait for commands of this poller */
	bool is_awaited;   /* a write waits for reads of memory, perhaps for one of this poller */
	struct loop_msg look;	     /* says so */
	_Atomic bool is_look_sent;   /* any thread */
	struct log_limit complaints; /* about what hosts ask for */
	struct log_limit slow;	     /* commands */
	struct loop_msg stop;
	struct log_limit auth_refusals;
	unsigned n_queues; /* control: connections placed here, to place the next */
};

/* Control. Makes target->n_pollers pollers and starts their threads. 0 or -errno (said).
 */
int pollers_start(struct target *target);
/* Control. No queue is left. Stops and frees; accepts what was never started. */
void pollers_stop(struct target *target);
/* Control. One of them without its thread: whoever calls turns its loop. 0 or -errno; deinit in any
 * case. */
int poller_init(struct poller *poller, struct target *target, unsigned index);
void poller_deinit(struct poller *poller);

/* Control. Makes every poller's share of the device, at first sight of it. 0 or -errno
 * (said). It ends by itself when the device is removed and has no queues any more. */
int pollers_add_device(struct target *target, struct device *device);
/* Control. A queue of the device was made; was freed. */
void pollers_take_queue(struct target *target, const struct device *device);
void pollers_give_queue(struct target *target, const struct device *device);
/* Control. A queue comes that may have n commands: the shared ring has a receive for each of them,
 * until tuning.shared_receives is reached. 0, and then give when it is gone; or -errno (said). */
int poller_device_take_receives(struct poller_device *pd, unsigned n);
void poller_device_give_receives(struct poller_device *pd, unsigned n);
/* Poller. Stops polling its share of a device; accepts one that was not started. */
void poller_device_stop(struct poller_device *pd);
/* Control, when it was stopped. Accepts a zeroed one. */
void poller_device_free(struct poller_device *pd);
/* Control. The one with the fewest connections. */
struct poller *pollers_choose(struct target *target);

/* Poller. Somebody waits for a buffer: hosts that do not take their data lose them in a while. */
void poller_watch_stall(struct poller *poller);
/* Poller. Wakes who waits, in the next turn. */
void buffer_give_taken(struct poller *poller, struct buffer *buffer);
/* The same; accepts an empty one. */
static inline void buffer_give(struct poller *poller, struct buffer *buffer)
{
	if (buffer->data)
		buffer_give_taken(poller, buffer);
}
