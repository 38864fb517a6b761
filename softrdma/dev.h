/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "seg.h"

/* The device, its contexts, and the asynchronous events of a context. */

#define SR_API __attribute__((visibility("default")))

#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/* What the device says it can do: about what a common adapter does. */
enum {
	DEV_MAX_SGE = 30,
	DEV_MAX_WR = 16384,
	DEV_MAX_CQE = 65536,
	DEV_MAX_INLINE = 220,
	DEV_MAX_RD_ATOMIC = 16,
	DEV_MAX_SRQ_SGE = 31,
	DEV_MAX_MSG = 1 << 30,
	DEV_N_VECTORS = 4,
	DEV_PKEY = 0xffff,
};

struct async_event {
	struct async_event *next;
	struct ibv_async_event ev;
};

struct ctx {
	struct verbs_context v; /* must be first: its last member is the ibv_context */
	pthread_mutex_t lock;	/* guards the queue and all async_counts. Leaf. */
	struct async_event *first, **last;
	struct ctx *next;
};

struct pd {
	struct ibv_pd ib;
	uint32_t number;
	_Atomic uint32_t users;
};

static inline struct ctx *to_ctx(struct ibv_context *c)
{
	return container_of(c, struct ctx, v.context);
}

static inline struct pd *to_pd(struct ibv_pd *p)
{
	return container_of(p, struct pd, ib);
}

/* Raise an asynchronous event: port_num 1 for device and port events. */
void async_raise(struct ibv_context *c, enum ibv_event_type type, void *element);
/* The same event on every open context (device and port events). */
void async_raise_all(enum ibv_event_type type);
/* Before an object goes: forget its queued events, wait for acks of delivered ones. */
void async_forget_qp(struct ibv_qp *qp, unsigned *delivered);
void async_forget_cq(struct ibv_cq *cq, unsigned *delivered);
void async_forget_srq(struct ibv_srq *srq, unsigned *delivered);

/* The address table behind the port's GIDs. */
int gid_at(int index, union ibv_gid *ret, uint32_t *ret_ifindex);
int gid_count(void);
/* Index of an address, or 0. */
int gid_index(const struct sockaddr *sa);
void gid_from_sockaddr(const struct sockaddr *sa, union ibv_gid *ret);

/* Does it behave like siw, Linux' software iWARP? SOFTRDMA_LIKE. */
bool dev_is_siw(void);
/* The device after so many returns. */
struct ibv_device *dev_incarnation(unsigned n);
/* Helper: nobody has the other end of a context's descriptor any more. */
void dev_on_context_closed(int fd);

/* The list of open contexts, for events about the device as a whole. */
void async_add_context(struct ctx *c);
void async_drop_context(struct ctx *c);
