/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The helper raises them (errors found by peers), and application threads (errors found while
 * posting). An object's queued events disappear with it, and destroying it waits for the
 * acknowledgement of those already delivered (ibv_get_async_event(3)).
 */
#include "softrdma/verbs/context.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "softrdma/verbs/async.h"
#include "softrdma/verbs/qp_impl.h"

/* Guards the list of contexts. Taken before a context's lock. */
static pthread_mutex_t contexts_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sr_ctx *contexts;

void sr_async_add_context(struct sr_ctx *c)
{
	pthread_mutex_lock(&contexts_lock);
	c->next = contexts;
	contexts = c;
	pthread_mutex_unlock(&contexts_lock);
}

void sr_async_drop_context(struct sr_ctx *c)
{
	struct sr_ctx **p;
	struct sr_async_event *e;

	pthread_mutex_lock(&contexts_lock);
	for (p = &contexts; *p && *p != c; p = &(*p)->next)
		;
	if (*p)
		*p = c->next;
	pthread_mutex_unlock(&contexts_lock);
	while ((e = c->first)) {
		c->first = e->next;
		free(e);
	}
}

static void set_element(struct ibv_async_event *ev, void *element)
{
	if (element)
		ev->element.qp = element; /* a union of pointers */
	else
		ev->element.port_num = 1;
}

void sr_async_raise(struct ibv_context *context, enum ibv_event_type type, void *element)
{
	struct sr_ctx *c = sr_to_ctx(context);
	struct sr_async_event *e = calloc(1, sizeof(*e));
	uint64_t one = 1;

	if (!e)
		return;
	e->ev.event_type = type;
	set_element(&e->ev, element);
	pthread_mutex_lock(&c->lock);
	*c->last = e;
	c->last = &e->next;
	(void)!write(context->async_fd, &one, sizeof(one));
	pthread_mutex_unlock(&c->lock);
}

void sr_async_raise_all(enum ibv_event_type type)
{
	pthread_mutex_lock(&contexts_lock);
	for (struct sr_ctx *c = contexts; c; c = c->next)
		sr_async_raise(&c->v.context, type, NULL);
	pthread_mutex_unlock(&contexts_lock);
}

enum about {
	ABOUT_PORT,
	ABOUT_QP,
	ABOUT_CQ,
	ABOUT_SRQ
};

static enum about about(enum ibv_event_type type)
{
	switch (type) {
	case IBV_EVENT_CQ_ERR:
		return ABOUT_CQ;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		return ABOUT_SRQ;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return ABOUT_QP;
	default:
		return ABOUT_PORT;
	}
}

static void count_delivery(const struct ibv_async_event *ev)
{
	switch (about(ev->event_type)) {
	case ABOUT_QP:
		sr_to_qp(ev->element.qp)->async_delivered++;
		break;
	case ABOUT_CQ:
		sr_to_cq(ev->element.cq)->async_delivered++;
		break;
	case ABOUT_SRQ:
		sr_to_srq(ev->element.srq)->async_delivered++;
		break;
	case ABOUT_PORT:
		break;
	}
}

SR_API int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	struct sr_ctx *c = sr_to_ctx(context);
	struct sr_async_event *e;
	uint64_t n;

	do {
		if (read(context->async_fd, &n, sizeof(n)) != sizeof(n))
			return -1;
		pthread_mutex_lock(&c->lock);
		e = c->first;
		if (e) {
			c->first = e->next;
			if (!c->first)
				c->last = &c->first;
			count_delivery(&e->ev);
		}
		pthread_mutex_unlock(&c->lock);
	} while (!e);
	*event = e->ev;
	free(e);
	return 0;
}

static void ack(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed)
{
	pthread_mutex_lock(mutex);
	++*completed;
	pthread_cond_signal(cond);
	pthread_mutex_unlock(mutex);
}

SR_API void ibv_ack_async_event(struct ibv_async_event *ev)
{
	struct ibv_qp *qp = ev->element.qp;
	struct ibv_cq *cq = ev->element.cq;
	struct ibv_srq *srq = ev->element.srq;

	switch (about(ev->event_type)) {
	case ABOUT_QP:
		ack(&qp->mutex, &qp->cond, &qp->events_completed);
		break;
	case ABOUT_CQ:
		ack(&cq->mutex, &cq->cond, &cq->async_events_completed);
		break;
	case ABOUT_SRQ:
		ack(&srq->mutex, &srq->cond, &srq->events_completed);
		break;
	case ABOUT_PORT:
		break;
	}
}

/* One token of the eventfd belongs to each queued event that is dropped here. */
static void drop_token(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	uint64_t n;

	if (poll(&p, 1, 0) == 1) /* the application may have left it in blocking mode */
		(void)!read(fd, &n, sizeof(n));
}

static void drop_queued(struct sr_ctx *c, enum about what, const void *element)
{
	struct sr_async_event **p = &c->first, *e;

	while ((e = *p)) {
		if (about(e->ev.event_type) != what || e->ev.element.qp != element) {
			p = &e->next;
			continue;
		}
		*p = e->next;
		free(e);
		drop_token(c->v.context.async_fd);
	}
	c->last = p;
}

static void forget(struct ibv_context *context, enum about what, const void *element,
		   unsigned *delivered, pthread_mutex_t *mutex, pthread_cond_t *cond,
		   const uint32_t *completed)
{
	struct sr_ctx *c = sr_to_ctx(context);
	unsigned n;

	pthread_mutex_lock(&c->lock);
	drop_queued(c, what, element);
	n = *delivered;
	pthread_mutex_unlock(&c->lock);
	pthread_mutex_lock(mutex);
	while (*completed != n)
		pthread_cond_wait(cond, mutex);
	pthread_mutex_unlock(mutex);
}

void sr_async_forget_qp(struct ibv_qp *qp, unsigned *delivered)
{
	forget(qp->context, ABOUT_QP, qp, delivered, &qp->mutex, &qp->cond, &qp->events_completed);
}

void sr_async_forget_cq(struct ibv_cq *cq, unsigned *delivered)
{
	forget(cq->context, ABOUT_CQ, cq, delivered, &cq->mutex, &cq->cond,
	       &cq->async_events_completed);
}

void sr_async_forget_srq(struct ibv_srq *srq, unsigned *delivered)
{
	forget(srq->context, ABOUT_SRQ, srq, delivered, &srq->mutex, &srq->cond,
	       &srq->events_completed);
}
