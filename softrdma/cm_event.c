/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Event channels and events of the connection manager.
 *
 * A channel's descriptor counts its queued events, so it is readable exactly when
 * rdma_get_cm_event would not block. Some of a connection's steps belong to the
 * application's thread and happen in rdma_get_cm_event, as in librdmacm: the active
 * side's QP comes to RTS there, and a rejected one goes to ERR.
 */
#include "cm.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static struct cm_channel *to_channel(struct rdma_event_channel *ch)
{
	return container_of(ch, struct cm_channel, ib);
}

SR_API struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct cm_channel *ch = calloc(1, sizeof(*ch));

	if (!ch)
		return NULL;
	ch->ib.fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	if (ch->ib.fd < 0) {
		free(ch);
		return NULL;
	}
	ch->last = &ch->first;
	return &ch->ib;
}

SR_API void rdma_destroy_event_channel(struct rdma_event_channel *ib)
{
	struct cm_channel *ch = to_channel(ib);

	pthread_mutex_lock(&cm_lock); /* the helper may be just behind its last event */
	close(ib->fd);
	pthread_mutex_unlock(&cm_lock);
	free(ch);
}

struct cm_event *cm_event_new(struct cm_id *about, enum rdma_cm_event_type type, int status)
{
	struct cm_event *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->id = about;
	e->ev.id = &about->ib;
	e->ev.event = type;
	e->ev.status = status;
	return e;
}

void cm_event_queue(struct rdma_event_channel *ib, struct cm_event *e)
{
	struct cm_channel *ch = to_channel(ib);
	uint64_t one = 1;

	*ch->last = e;
	ch->last = &e->next;
	(void)!write(ib->fd, &one, sizeof(one));
}

void cm_raise(struct cm_id *id, enum rdma_cm_event_type type, int status)
{
	struct cm_event *e = cm_event_new(id, type, status);

	if (e)
		cm_event_queue(id->ib.channel, e);
}

void cm_event_data(struct cm_event *e, const struct cm_msg *m, uint8_t padded_len)
{
	struct rdma_conn_param *p = &e->ev.param.conn;

	memcpy(e->data, m->data, m->data_len < padded_len ? m->data_len : padded_len);
	p->private_data = e->data;
	p->private_data_len = dev_is_siw() ? m->data_len : padded_len; /* MPA: exact */
	/* what the sender offers as responder is what we may initiate, and the reverse */
	p->responder_resources = m->initiator_depth;
	p->initiator_depth = m->responder_resources;
	p->flow_control = m->flow_control;
	p->retry_count = m->retry_count;
	p->rnr_retry_count = m->rnr_retry_count;
	p->srq = m->srq;
	p->qp_num = m->qpn;
}

static void drop_token(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	uint64_t n;

	if (poll(&p, 1, 0) == 1)
		(void)!read(fd, &n, sizeof(n));
}

/* A connection request that nobody fetched dies with its listener. */
static void free_unfetched(struct cm_event *e)
{
	if (e->ev.event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		struct cm_id *child = to_cm(e->ev.id);

		cm_say_goodbye(child);
		cm_free(child);
	}
	free(e);
}

/* Unlinks the first event on id's counters from a channel. */
static struct cm_event *take_of(struct cm_channel *ch, const struct cm_id *id)
{
	struct cm_event **p = &ch->first, *e;

	while (*p && (*p)->id != id)
		p = &(*p)->next;
	e = *p;
	if (!e)
		return NULL;
	*p = e->next;
	if (!*p)
		ch->last = p;
	e->next = NULL;
	drop_token(ch->ib.fd);
	return e;
}

void cm_events_drop(struct cm_id *id)
{
	struct cm_event *e;

	while ((e = take_of(to_channel(id->ib.channel), id)))
		free_unfetched(e);
}

void cm_events_move(struct cm_id *id, struct rdma_event_channel *from,
		    struct rdma_event_channel *to)
{
	struct cm_event *e;

	while ((e = take_of(to_channel(from), id)))
		cm_event_queue(to, e);
}

/* ---- delivery -------------------------------------------------------------- */

static struct cm_event *pop(struct cm_channel *ch)
{
	struct cm_event *e;

	pthread_mutex_lock(&cm_lock);
	e = ch->first;
	if (e) {
		ch->first = e->next;
		if (!ch->first)
			ch->last = &ch->first;
		e->id->delivered++;
		if (e->ev.event == RDMA_CM_EVENT_CONNECT_REQUEST)
			e->id->backlog++;
	}
	pthread_mutex_unlock(&cm_lock);
	return e;
}

/* What librdmacm does on the way out of rdma_get_cm_event. 0, or -1 with errno. */
static int finish(struct cm_event *e)
{
	switch (e->ev.event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		cm_close_unused_devices();
		/* a request that came in on a synchronous listener is synchronous too */
		return e->id->sync ? rdma_migrate_id(e->ev.id, NULL) : 0;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		cm_finish_connect(e->id, e);
		return 0;
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_CONNECT_ERROR:
		cm_on_failed(e->id);
		return 0;
	default:
		return 0;
	}
}

SR_API int rdma_get_cm_event(struct rdma_event_channel *ib, struct rdma_cm_event **ret)
{
	struct cm_event *e;
	uint64_t token;

	if (!ret)
		return cm_fail(EINVAL);
	do {
		if (read(ib->fd, &token, sizeof(token)) != sizeof(token))
			return -1;
		e = pop(to_channel(ib));
	} while (!e);
	if (finish(e)) {
		rdma_ack_cm_event(&e->ev);
		return -1;
	}
	*ret = &e->ev;
	return 0;
}

SR_API int rdma_ack_cm_event(struct rdma_cm_event *ev)
{
	struct cm_event *e;

	if (!ev)
		return cm_fail(EINVAL);
	e = container_of(ev, struct cm_event, ev);
	pthread_mutex_lock(&cm_lock);
	e->id->acked++;
	pthread_cond_broadcast(&e->id->cond);
	pthread_mutex_unlock(&cm_lock);
	free(e);
	return 0;
}
