/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pollers: threads that own queue pairs and move data. Each has one loop, one arena of buffers that
 * is registered with every device in use, one backend_thread, and for each device one completion
 * queue and one shared receive queue.
 *
 * The control thread creates, starts and stops the pollers (pollers.h); target->pollers owns them.
 */
#pragma once

#include <pthread.h>

#include "base/arena_memory.h"
#include "base/capture.h"
#include "base/loop.h"
#include "target/engine/poller/buffer.h"
#include "target/engine/record/target.h"
#include "transport/cq.h"
#include "transport/device.h"
#include "transport/recv_ring.h"

struct completion;
struct qp;

/* A poller's share of one RDMA device. */
struct poller_device {
	/* Thread: control creates and frees; the poller in between */
	struct poller *poller;
	struct device *device;
	struct cq cq;
	struct recv_ring ring;		  /* shared by the I/O queues; n_max is 0 without SRQ */
	struct recv_part *first_receives; /* of that ring: posted when the share starts */
	unsigned n_promised;		  /* control: the most commands that its queues may have */
	unsigned n_held; /* request/: receives of the ring retained for their in-capsule data */
	struct mr mr;	 /* of the poller's arenas; none on iWARP (sink.h) */
	bool is_started; /* poller */
	struct loop_msg start, stop;
	struct loop_timer start_again; /* poller: retries a start that failed */
};

struct poller {
	/* Thread: poller, except where noted. poller/ alone writes these, and the pools' users take
	 * and give: */
	struct target *target;
	unsigned index;
	pthread_t thread;
	bool has_thread;
	struct loop loop;
	struct backend_thread *backends;
	struct arena_memory memory; /* both arenas */
	size_t data_bytes;
	struct arena data;  /* of I/O commands */
	struct arena admin; /* of Connect and admin commands: data can never starve them */
	struct poller_device devices[DEVICE_MAX]; /* by device index */
	struct loop_msg stop;
	/* queue/ alone writes these: */
	struct list queues;   /* of struct queue (poller_node) */
	unsigned n_io_queues; /* of these; without any the loop rests */
	/* request/ alone touches these (request_poller.h); poller/ only stops the timers: */
	struct list short_queues;   /* of struct queue (short_node): responses wait for slots */
	struct list throttled;	    /* of struct line (node) */
	struct loop_timer throttle; /* runs while requests wait there */
	struct loop_timer stall;    /* runs while requests wait for buffers */
	struct loop_timer aging;    /* runs while writes are in a store: aging.c */
	struct list fenced;	    /* of struct pass (wait): writes that wait for older ones */
	uint64_t looked_ns;	    /* when aging.c last looked at the queues */
	bool is_aging;		    /* a write went to a store since then */
	struct loop_call resume;    /* resumes requests that wait for a buffer: buffer_give */
	unsigned n_visits;	    /* pending visits of guards, for commands of this poller */
	bool is_awaited; /* a write waits for a read of memory that this poller may have sent */
	struct loop_msg look;	   /* sets is_awaited on this poller */
	_Atomic bool is_look_sent; /* any thread sets it */
	/* Set before the first device: on_recv of the shared rings */
	void (*on_recv)(struct recv *recv, struct qp *qp, const struct completion *c);
	/* Any floor, on the poller: */
	struct log_limit complaints; /* about what hosts ask for */
	struct log_limit slow;	     /* about slow commands */
	struct log_limit auth_refusals;
	/* The association floor, on control: connections here, to place the next one */
	unsigned n_queues;
	struct capture capture; /* of the commands that it answers; control starts and ends it */
};

/* Poller. Returns a buffer, and resumes waiting requests on the next loop turn. Accepts an empty
 * buffer. */
static inline void buffer_give(struct poller *poller, struct buffer *buffer)
{
	if (buffer->data && buffer_put(buffer))
		loop_defer(&poller->loop, &poller->resume);
}
