/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The event loop of one thread: file descriptors, timers, deferred calls, messages from other
 * threads, and polled sources (completion queues, aio rings).
 *
 * A turn polls the sources, runs messages and deferred calls, fires timers, and checks the file
 * descriptors. A loop that found nothing polls again for as long as patience.h allows. Then it
 * arms each source and polls it once more, since a completion that arrived before the arming
 * raises no event. Then it blocks in epoll until the next timer. An idle loop uses no CPU.
 *
 * Threads: loop_send and loop_stop are for any thread, all else for the loop's own. Ownership: the
 * loop borrows each fd, timer, call and source, which are embedded in their owners, until it is
 * removed, stopped or run. Only loop_init, loop_fd_add and loop_fd_modify can fail (-errno).
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/crowd.h"
#include "base/list.h"
#include "base/patience.h"

/* The seam for simulation: which of n >= 2 ready items of a turn's step (sources, messages, calls,
 * timers, file descriptors) is next, below n. Correct code relies only on the order of timers and
 * of the messages of one sender. A test sets it while no loop runs. NULL: the first. */
extern unsigned (*loop_choose)(unsigned n);

/* A file descriptor. Embedded in its owner; borrowed by the loop between add and remove. */
struct loop_fd {
	int fd;
	uint32_t events; /* EPOLLIN, EPOLLOUT; level-triggered */
	/* Signals only what a polled source finds anyway, so a busy loop checks it less often. */
	bool is_doorbell;
	void (*on_event)(struct loop_fd *lfd, uint32_t events);
	struct loop *loop;
};

/* A one-shot timer. Zero it, set on_expiry, then loop_timer_start. */
struct loop_timer {
	void (*on_expiry)(struct loop_timer *timer);
	struct loop *loop;
	struct list node;
	uint64_t deadline_ns;
};

/* A call that runs in the next turn. Zero it, set run. Queued twice, it runs once. */
struct loop_call {
	void (*run)(struct loop_call *call);
	struct list node;
	bool is_queued;
};

/* A message to a loop from any thread. The loop owns it from loop_send until it calls run. */
struct loop_msg {
	void (*run)(struct loop_msg *msg);
	struct loop_msg *next;
};

/* A source of items that the loop polls in each turn, and arms before it sleeps. */
struct loop_source {
	/* Handles the items that are there, up to a batch; returns how many. */
	unsigned (*poll)(struct loop_source *source);
	/* Requests an event on a loop_fd for the next item; NULL when the fd is always armed. */
	void (*arm)(struct loop_source *source);
	/* Submits what the turn has batched, at its end. May be NULL. */
	void (*flush)(struct loop_source *source);
	struct loop *loop;
	struct list node;
};

/* Answers under way: patience.h. Zero it, set n; remove accepts one that was never added. */
struct loop_awaited {
	const unsigned *n; /* borrowed, written by the loop's thread */
	struct list node;
};

/* Called once a turn and around each sleep (RCU quiescent states). Each may be NULL. */
struct loop_hooks {
	void (*on_turn)(void);
	void (*before_sleep)(void);
	void (*after_sleep)(void);
};

struct loop {
	/* Thread: the one that calls loop_run. */
	int epoll_fd;
	int wake_fd;			  /* eventfd */
	_Atomic(struct loop_msg *) inbox; /* pushed by any thread, newest first */
	_Atomic bool is_sleeping;	  /* a sender must write wake_fd */
	_Atomic bool must_stop;
	struct loop_fd wake;
	struct list timers, calls, sources; /* timers: by deadline */
	struct list awaited;		    /* of struct loop_awaited */
	struct list *next_source;	    /* of an iteration; loop_source_remove advances it */
	const struct loop_hooks *hooks;	    /* borrowed */
	struct patience patience;	    /* how long to poll */
	struct crowd crowd;
	uint64_t now_ns;	     /* time of this turn, for cheap timestamps */
	bool has_worked, is_resting; /* the pass that began then found items; loop_rest */
	unsigned fd_turn;	     /* counts turns between two checks of epoll */
	unsigned n_inputs;	     /* fds that are no doorbells */
	uint64_t busy_ns; /* in passes that found items; read by any thread (counter.h) */
};

/* spin_ns: of spin.h; the first that is no time measures for milliseconds. Returns 0 or -errno. */
int loop_init(struct loop *loop, uint64_t spin_ns, const struct loop_hooks *hooks);
/* Accepts a zeroed loop. Every fd, timer and source must have been removed. */
void loop_deinit(struct loop *loop);

void loop_run(struct loop *loop); /* turns, until loop_stop; may be called again */
/* One turn; polls and sleeps at most timeout_ns (UINT64_MAX: until something happens). */
void loop_turn(struct loop *loop, uint64_t timeout_ns);
/* When the first timer is due; UINT64_MAX: there is none. */
uint64_t loop_deadline_ns(const struct loop *loop);
/* An owner that runs the loop from calls of its own: one pass, without waiting; returns how many
 * items it handled. Ends what loop_arm began. Threads may take turns. */
unsigned loop_poll(struct loop *loop);
/* Submits what was queued since the last pass. */
void loop_flush(struct loop *loop);
/* Prepares for a sleep on epoll_fd elsewhere, which loop_deadline_ns ends, as for poll(2). False:
 * something came meanwhile, so the owner polls instead. */
bool loop_arm(struct loop *loop);
/* A loop that is resting, as it has no peer to serve, sleeps at once, whatever spin_ns says. */
void loop_rest(struct loop *loop, bool is_resting);
void loop_stop(struct loop *loop); /* from any thread, and the self-pipes of signal handlers */

/* 0 or -errno of epoll_ctl. After a failed modify the fd keeps its old events. */
int loop_fd_add(struct loop *loop, struct loop_fd *lfd);
int loop_fd_modify(struct loop_fd *lfd, uint32_t events);
/* Accepts one that was never added. on_event is not called again, not even in this turn. */
void loop_fd_remove(struct loop_fd *lfd);

/* Starts or restarts the timer. */
void loop_timer_start(struct loop *loop, struct loop_timer *timer, uint64_t delay_ns);
void loop_timer_stop(struct loop_timer *timer);
bool loop_timer_is_running(const struct loop_timer *timer);

/* The call runs in the next turn; cancel accepts one that is not queued. */
void loop_defer(struct loop *loop, struct loop_call *call);
void loop_call_cancel(struct loop_call *call);

/* From the next turn on the source is polled. remove accepts one that was never added. */
void loop_source_add(struct loop *loop, struct loop_source *source);
void loop_source_remove(struct loop_source *source);
void loop_awaited_add(struct loop *loop, struct loop_awaited *awaited);
void loop_awaited_remove(struct loop_awaited *awaited);
/* From any thread. Messages of one sender arrive in order. */
void loop_send(struct loop *loop, struct loop_msg *msg);
