/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Event channels: queues of events. A channel's descriptor counts its queued events, so it is
 * readable exactly when rdma_get_cm_event would not block. All under sr_cm_lock.
 */
#include "softrdma/cm/cm_id.h"
#include "softrdma/cm/cm_message.h"
#include "softrdma/cm/cm_queue.h"
#include "softrdma/cm/sr_cm.h"
#include "softrdma/process/likeness.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

static struct sr_cm_channel *channels;

/* The link to a channel that is not destroyed, or to the end of the list. */
static struct sr_cm_channel **link_to(const struct rdma_event_channel *ib)
{
	struct sr_cm_channel **p = &channels;

	while (*p && &(*p)->ib != ib)
		p = &(*p)->next;
	return p;
}

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
	pthread_mutex_lock(&sr_cm_lock);
	ch->next = channels;
	channels = ch;
	pthread_mutex_unlock(&sr_cm_lock);
	return &ch->ib;
}

/* Under sr_cm_lock: a channel that is destroyed and that no thread fetches from is gone. */
static void free_if_unused(struct sr_cm_channel *ch)
{
	if (ch->n_fetching || *link_to(&ch->ib))
		return;
	close(ch->ib.fd);
	free(ch);
}

SR_API void rdma_destroy_event_channel(struct rdma_event_channel *ib)
{
	pthread_mutex_lock(&sr_cm_lock); /* the helper may still be behind its last event */
	*link_to(ib) = sr_to_channel(ib)->next;
	free_if_unused(sr_to_channel(ib));
	pthread_mutex_unlock(&sr_cm_lock);
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

/* A thread in rdma_get_cm_event may have read the token already: it then finds no event. */
static void drop_token(int fd)
{
	uint64_t n;
	struct iovec v = {.iov_base = &n, .iov_len = sizeof(n)};

	(void)!preadv2(fd, &v, 1, -1, RWF_NOWAIT);
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

/* Under sr_cm_lock. NULL if there is no event: it was dropped after its token had been read. */
static struct sr_cm_event *pop(struct sr_cm_channel *ch)
{
	struct sr_cm_event *e = ch->first;

	if (!e)
		return NULL;
	ch->first = e->next;
	if (!ch->first)
		ch->last = &ch->first;
	e->id->delivered++;
	if (e->ev.event == RDMA_CM_EVENT_CONNECT_REQUEST)
		e->id->backlog++;
	return e;
}

static void leave(struct sr_cm_channel *ch)
{
	ch->n_fetching--;
	free_if_unused(ch);
}

static void on_cancel(void *channel)
{
	pthread_mutex_lock(&sr_cm_lock);
	leave(channel);
	pthread_mutex_unlock(&sr_cm_lock);
}

/* Reads one token, outside sr_cm_lock, which the caller holds. 0 or an errno. */
static int wait_for_token(struct sr_cm_channel *ch)
{
	int fd = ch->ib.fd;
	volatile int err = 0; /* pthread_cleanup_push is a setjmp */
	uint64_t token;

	pthread_mutex_unlock(&sr_cm_lock);
	pthread_cleanup_push(on_cancel, ch);
	if (read(fd, &token, sizeof(token)) != sizeof(token))
		err = errno;
	pthread_cleanup_pop(false);
	pthread_mutex_lock(&sr_cm_lock);
	return *link_to(&ch->ib) ? err : EBADF;
}

/* Under sr_cm_lock. NULL with *ret_err. */
static struct sr_cm_event *next_event(struct sr_cm_channel *ch, int *ret_err)
{
	struct sr_cm_event *e = NULL;

	ch->n_fetching++;
	do {
		*ret_err = wait_for_token(ch);
		if (!*ret_err)
			e = pop(ch);
	} while (!e && !*ret_err);
	leave(ch);
	return e;
}

struct sr_cm_event *sr_cm_event_fetch(struct rdma_event_channel *ib)
{
	struct sr_cm_event *e = NULL;
	struct sr_cm_channel *ch;
	int err = EBADF;

	pthread_mutex_lock(&sr_cm_lock);
	ch = *link_to(ib);
	if (ch)
		e = next_event(ch, &err);
	pthread_mutex_unlock(&sr_cm_lock);
	if (!e)
		errno = err;
	return e;
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
