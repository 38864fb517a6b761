/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One thread's event loop: file descriptors, timers, deferred calls, messages from other
 * threads, and polled sources (completion queues, aio rings) with adaptive spinning.
 *
 * A turn: poll the sources; run messages and deferred calls; fire timers; look at file
 * descriptors. A loop that found nothing polls on while that is worth it (patience.h).
 * Before it sleeps it arms each source and polls it once more (a completion that arrived
 * before the arming raises no event), and then blocks in epoll until the next timer. An
 * idle loop uses no CPU at all.
 *
 * Everything here is called by the loop's own thread, but loop_send and loop_stop.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/crowd.h"
#include "base/list.h"
#include "base/patience.h"

struct loop;

/*
 * The seam for simulation: what runs next. A turn has steps (sources, messages, calls, timers, file
 * descriptors) and a step has items. Their order is fixed, and correct code does not depend on it;
 * only messages of one sender and timers keep theirs. A test that sets this function takes each of
 * those choices: it returns which of n (2 or more) ready things runs next, below n. NULL, as in
 * every program: the first. Set while no loop runs.
 */
extern unsigned (*loop_choose)(unsigned n);

/* A file descriptor. Embedded in its owner; borrowed by the loop between add and remove.
 */
struct loop_fd {
	int fd;
	uint32_t events; /* EPOLLIN, EPOLLOUT; level-triggered */
	/* Only wakes the loop for what a polled source finds anyway: a busy loop hardly looks at it. */
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

/* A call that runs in the next turn. Zero it, set run. Queueing it twice is one call. */
struct loop_call {
	void (*run)(struct loop_call *call);
	struct list node;
	bool is_queued;
};

/* A message to a loop from any thread. Owned by the receiver from send until run is
 * called. */
struct loop_msg {
	void (*run)(struct loop_msg *msg);
	struct loop_msg *next;
};

/* Something that is polled while the loop is busy and armed before it sleeps. */
struct loop_source {
	/* Handles what is there, up to a batch; returns how many events that was. */
	unsigned (*poll)(struct loop_source *source);
	/* Asks for a wake-up through some loop_fd; NULL when the fd is always armed. */
	void (*arm)(struct loop_source *source);
	/* Called at the end of each turn, after every source was polled: submit batches.
	 * May be NULL. */
	void (*flush)(struct loop_source *source);
	struct loop *loop;
	struct list node;
};

/* Called around sleeping and once a turn (RCU quiescent states); all may be NULL. */
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
	struct list timers; /* by deadline */
	struct list calls;
	struct list sources;
	struct list *next_source;	/* to be visited; who removes it moves on */
	const struct loop_hooks *hooks; /* borrowed */
	struct patience patience;	/* of polling */
	struct crowd crowd;
	uint64_t now_ns;   /* time of this turn, for cheap timestamps */
	unsigned fd_turn;  /* counts turns between looks at epoll when busy */
	unsigned n_inputs; /* fds that are no doorbells */
};

/* spin_ns: how long to poll before sleeping, see patience.h. Returns 0 or -errno. */
int loop_init(struct loop *loop, uint64_t spin_ns, const struct loop_hooks *hooks);
/* Accepts a zeroed loop. Every fd, timer and source must have been removed. */
void loop_deinit(struct loop *loop);

/* Runs turns until loop_stop. */
void loop_run(struct loop *loop);
/* One turn; sleeps at most timeout_ns (UINT64_MAX: until something happens). */
void loop_turn(struct loop *loop, uint64_t timeout_ns);
/* When its first timer is due; UINT64_MAX: it has none. */
uint64_t loop_deadline_ns(const struct loop *loop);
/* From any thread and from signal handlers' self-pipes. */
void loop_stop(struct loop *loop);

int loop_fd_add(struct loop *loop, struct loop_fd *lfd);
int loop_fd_modify(struct loop_fd *lfd, uint32_t events);
/* Accepts one that was never added. Its on_event is not called again, even in this turn.
 */
void loop_fd_remove(struct loop_fd *lfd);

/* Starts or restarts the timer. */
void loop_timer_start(struct loop *loop, struct loop_timer *timer, uint64_t delay_ns);
void loop_timer_stop(struct loop_timer *timer);
bool loop_timer_is_running(const struct loop_timer *timer);

void loop_defer(struct loop *loop, struct loop_call *call);
void loop_call_cancel(struct loop_call *call);

void loop_source_add(struct loop *loop, struct loop_source *source);
void loop_source_remove(struct loop_source *source);

/* From any thread. Messages of one sender arrive in order. */
void loop_send(struct loop *loop, struct loop_msg *msg);
