/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Event channels: queues of events. A channel's descriptor counts its queued events, so it is
 * readable exactly when rdma_get_cm_event would not block. All under sr_cm_lock.
 */
#include "softrdma/cm/sr_cm.h"
#include "softrdma/process/likeness.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

SR_API struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct sr_cm_channel *ch = calloc(1, sizeof(*ch));

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
	struct sr_cm_channel *ch = sr_to_channel(ib);

	pthread_mutex_lock(&sr_cm_lock); /* the helper may still be behind its last event */
	close(ib->fd);
	pthread_mutex_unlock(&sr_cm_lock);
	free(ch);
}

struct sr_cm_event *sr_cm_event_new(struct sr_cm_id *about, enum rdma_cm_event_type type,
				    int status)
{
	struct sr_cm_event *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->id = about;
	e->ev.id = &about->ib;
	e->ev.event = type;
	e->ev.status = status;
	return e;
}

void sr_cm_event_queue(struct rdma_event_channel *ib, struct sr_cm_event *e)
{
	struct sr_cm_channel *ch = sr_to_channel(ib);
	uint64_t one = 1;

	*ch->last = e;
	ch->last = &e->next;
	(void)!write(ib->fd, &one, sizeof(one));
}

void sr_cm_raise(struct sr_cm_id *id, enum rdma_cm_event_type type, int status)
{
	struct sr_cm_event *e = sr_cm_event_new(id, type, status);

	if (e)
		sr_cm_event_queue(id->ib.channel, e);
}

void sr_cm_event_data(struct sr_cm_event *e, const struct sr_cm_msg *m, uint8_t padded_len)
{
	struct rdma_conn_param *p = &e->ev.param.conn;

	memcpy(e->data, m->data, m->data_len < padded_len ? m->data_len : padded_len);
	p->private_data = e->data;
	p->private_data_len = sr_is_siw() ? m->data_len : padded_len; /* MPA: its exact length */
	/* The sender's responder resources bound what this side initiates, and the reverse. */
	p->responder_resources = m->initiator_depth;
	p->initiator_depth = m->responder_resources;
	p->flow_control = m->flow_control;
	p->retry_count = m->retry_count;
	p->rnr_retry_count = m->rnr_retry_count;
	p->srq = m->srq;
	p->qp_num = m->qpn;
}

void sr_cm_event_datagram(struct sr_cm_event *e, const struct sr_cm_msg *m, uint8_t padded_len)
{
	struct rdma_ud_param *p = &e->ev.param.ud;

	memcpy(e->data, m->data, m->data_len < padded_len ? m->data_len : padded_len);
	p->private_data = e->data;
	p->private_data_len = padded_len;
	p->qp_num = m->qpn;
	p->qkey = m->qkey;
}

static void drop_token(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	uint64_t n;

	if (poll(&p, 1, 0) == 1)
		(void)!read(fd, &n, sizeof(n));
}

/* A connection request that was not fetched is destroyed with its listener. */
static void free_unfetched(struct sr_cm_event *e)
{
	if (e->ev.event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		struct sr_cm_id *child = sr_to_cm(e->ev.id);

		sr_cm_say_goodbye(child);
		sr_cm_free(child);
	}
	free(e);
}

/* Unlinks the first event on id's counters from a channel. */
static struct sr_cm_event *take_of(struct sr_cm_channel *ch, const struct sr_cm_id *id)
{
	struct sr_cm_event **p = &ch->first, *e;

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

void sr_cm_events_drop(struct sr_cm_id *id)
{
	struct sr_cm_event *e;

	while ((e = take_of(sr_to_channel(id->ib.channel), id)))
		free_unfetched(e);
}

void sr_cm_events_move(struct sr_cm_id *id, struct rdma_event_channel *from,
		       struct rdma_event_channel *to)
{
	struct sr_cm_event *e;

	while ((e = take_of(sr_to_channel(from), id)))
		sr_cm_event_queue(to, e);
}

SR_API int rdma_ack_cm_event(struct rdma_cm_event *ev)
{
	struct sr_cm_event *e;

	if (!ev)
		return sr_cm_fail(EINVAL);
	e = container_of(ev, struct sr_cm_event, ev);
	pthread_mutex_lock(&sr_cm_lock);
	e->id->acked++;
	pthread_cond_broadcast(&e->id->cond);
	pthread_mutex_unlock(&sr_cm_lock);
	free(e);
	return 0;
}
