/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdma_cm identifiers: creation, destruction, options, and the device behind them.
 *
 * Application threads call in, the helper runs the connections' sockets; one lock,
 * cm_lock, guards it all, for the control path only. It is never held while waiting
 * or while a QP is modified. An id is known to the helper by its serial number, so
 * that an event of the socket that arrives late finds nothing instead of a dangling
 * pointer.
 *
 * rdma_destroy_id waits until all events that the application got about the id are
 * acknowledged, as librdmacm does; events not fetched yet disappear.
 */
#include "cm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "removal.h"

#define N_BUCKETS 256

pthread_mutex_t cm_lock = PTHREAD_MUTEX_INITIALIZER;
static struct cm_id *buckets[N_BUCKETS];
static uint64_t last_serial;

int cm_fail(int err)
{
	errno = err;
	return -1;
}

/* ---- the device ------------------------------------------------------------ */

/*
 * As in librdmacm, ids share a context of the device, which stays open when the last id has gone. The
 * context of a device that was removed is closed when another device is met, or when its last id goes
 * after that: until then the program holds it.
 */
struct cm_device {
	struct cm_device *next;
	struct ibv_context *context; /* owned */
	struct ibv_pd *pd;	     /* owned, while refs */
	unsigned refs;
	bool is_dead; /* another one has been met since */
};

/* Guards the devices. Taken within cm_lock. */
static pthread_mutex_t devices_lock = PTHREAD_MUTEX_INITIALIZER;
static struct cm_device *devices;

/*
 * librdmacm has no thread: contexts are closed while the application calls, which may hold on to a
 * context's descriptors between its calls.
 */
static void close_unused_dead(void)
{
	struct cm_device **p = &devices, *d;

	if (node_is_helper())
		return;
	while ((d = *p)) {
		if (!d->is_dead || d->refs) {
			p = &d->next;
			continue;
		}
		*p = d->next;
		ibv_close_device(d->context);
		free(d);
	}
}

void cm_close_unused_devices(void)
{
	pthread_mutex_lock(&devices_lock);
	close_unused_dead();
	pthread_mutex_unlock(&devices_lock);
}

static struct cm_device *meet(struct ibv_device *device)
{
	struct cm_device *d = calloc(1, sizeof(*d));

	for (struct cm_device *old = devices; old; old = old->next)
		old->is_dead = true;
	close_unused_dead();
	if (d)
		d->context = ibv_open_device(device);
	if (!d || !d->context) {
		free(d);
		return NULL;
	}
	d->next = devices;
	devices = d;
	return d;
}

static int take(struct cm_device *d)
{
	if (!d->pd)
		d->pd = ibv_alloc_pd(d->context);
	if (!d->pd)
		return -ENOMEM;
	d->refs++;
	return 0;
}

static int get_device(struct cm_device **ret)
{
	struct ibv_device *device = removal_device();
	struct cm_device *d;
	int r;

	if (!device)
		return -ENODEV;
	pthread_mutex_lock(&devices_lock);
	for (d = devices; d && (d->is_dead || d->context->device != device); d = d->next)
		;
	if (!d)
		d = meet(device);
	r = d ? take(d) : -ENODEV;
	pthread_mutex_unlock(&devices_lock);
	*ret = d;
	return r;
}

static void put_device(struct cm_device *d)
{
	pthread_mutex_lock(&devices_lock);
	if (!--d->refs) {
		ibv_dealloc_pd(d->pd);
		d->pd = NULL;
		close_unused_dead();
	}
	pthread_mutex_unlock(&devices_lock);
}

int cm_set_device(struct cm_id *id)
{
	int r;

	if (id->device)
		return 0;
	r = get_device(&id->device);
	if (r) {
		id->device = NULL;
		return r;
	}
	removal_hold(HOLD_ID);
	id->ib.verbs = id->device->context;
	id->ib.port_num = 1;
	if (!id->ib.pd)
		id->ib.pd = id->device->pd;
	return 0;
}

static void leave_device(struct cm_id *id)
{
	if (!id->device)
		return;
	put_device(id->device);
	removal_unhold(HOLD_ID);
}

SR_API struct ibv_context **rdma_get_devices(int *num)
{
	struct ibv_context **list = calloc(2, sizeof(*list));
	struct cm_device *d;

	if (!list || node_start() || get_device(&d)) {
		free(list);
		return NULL;
	}
	list[0] = d->context;
	if (num)
		*num = 1;
	return list;
}

SR_API void rdma_free_devices(struct ibv_context **list)
{
	struct cm_device *d;

	pthread_mutex_lock(&devices_lock);
	for (d = devices; d && d->context != list[0]; d = d->next)
		;
	pthread_mutex_unlock(&devices_lock);
	if (d)
		put_device(d);
	free(list);
}

/* ---- ids ------------------------------------------------------------------- */

static enum ibv_qp_type qp_type_of(enum rdma_port_space ps)
{
	return ps == RDMA_PS_UDP || ps == RDMA_PS_IPOIB ? IBV_QPT_UD : IBV_QPT_RC;
}

struct cm_id *cm_new(struct rdma_event_channel *ch, void *context, enum rdma_port_space ps)
{
	struct cm_id *id = calloc(1, sizeof(*id));

	if (!id)
		return NULL;
	id->ib.channel = ch;
	id->ib.context = context;
	id->ib.ps = ps;
	id->ib.qp_type = qp_type_of(ps);
	id->sock = -1;
	id->ack_timeout = 14; /* 67 ms for each of the transport's retries */
	pthread_cond_init(&id->cond, NULL);
	pthread_mutex_lock(&cm_lock);
	id->serial = ++last_serial;
	id->next = buckets[id->serial % N_BUCKETS];
	buckets[id->serial % N_BUCKETS] = id;
	pthread_mutex_unlock(&cm_lock);
	return id;
}

void cm_forget(void)
{
	for (unsigned i = 0; i < N_BUCKETS; i++) {
		for (struct cm_id *id = buckets[i]; id; id = id->next)
			if (id->sock >= 0)
				close(id->sock);
		buckets[i] = NULL;
	}
	devices = NULL;
	pthread_mutex_init(&cm_lock, NULL);
	pthread_mutex_init(&devices_lock, NULL);
}

struct cm_id *cm_find(uint64_t serial)
{
	struct cm_id *id = buckets[serial % N_BUCKETS];

	while (id && id->serial != serial)
		id = id->next;
	return id;
}

void cm_close_socket(struct cm_id *id)
{
	if (id->sock < 0)
		return;
	node_unwatch(id->sock);
	close(id->sock);
	id->sock = -1;
}

static void unlist(struct cm_id *id)
{
	struct cm_id **p = &buckets[id->serial % N_BUCKETS];

	while (*p && *p != id)
		p = &(*p)->next;
	if (*p)
		*p = id->next;
}

/* With cm_lock held; the id has no events left. */
void cm_free(struct cm_id *id)
{
	unlist(id);
	timer_stop(&id->timer);
	cm_close_socket(id);
	peer_unref(id->peer);
	leave_device(id);
	pthread_cond_destroy(&id->cond);
	free(id->ib.route.path_rec);
	free(id->ep_attr);
	free(id->req);
	free(id);
}

SR_API int rdma_create_id(struct rdma_event_channel *ch, struct rdma_cm_id **ret, void *context,
			  enum rdma_port_space ps)
{
	struct rdma_event_channel *own = NULL;
	struct cm_id *id;
	int r = node_start();

	if (r)
		return cm_fail(-r);
	if (!ch) {
		own = rdma_create_event_channel();
		if (!own)
			return -1;
	}
	id = cm_new(ch ? ch : own, context, ps);
	if (!id) {
		if (own)
			rdma_destroy_event_channel(own);
		return cm_fail(ENOMEM);
	}
	id->sync = !ch;
	*ret = &id->ib;
	return 0;
}

SR_API int rdma_destroy_id(struct rdma_cm_id *ib)
{
	struct cm_id *id = to_cm(ib);
	struct rdma_event_channel *own = id->sync ? ib->channel : NULL;

	if (id->sync && ib->event) {
		rdma_ack_cm_event(ib->event);
		ib->event = NULL;
	}
	pthread_mutex_lock(&cm_lock);
	cm_say_goodbye(id);
	cm_close_socket(id);
	cm_events_drop(id);
	while (id->acked != id->delivered)
		pthread_cond_wait(&id->cond, &cm_lock);
	cm_free(id);
	pthread_mutex_unlock(&cm_lock);
	if (own)
		rdma_destroy_event_channel(own);
	return 0;
}

/*
 * The kernel gives up its part of the id at once: peers are told, nobody listens any more. What the
 * program has of it stays. A wildcard listener is not concerned and not told.
 */
static void end_by_removal(struct cm_id *id)
{
	bool is_known = id->state != CM_REQ_RECEIVED; /* to the program; cf. ucma.c */

	cm_say_goodbye(id);
	timer_stop(&id->timer);
	cm_close_socket(id);
	if (is_known)
		cm_raise(id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
}

void cm_device_removed(void)
{
	pthread_mutex_lock(&cm_lock);
	for (unsigned i = 0; i < N_BUCKETS; i++)
		for (struct cm_id *id = buckets[i]; id; id = id->next)
			if (id->ib.channel && id->device)
				end_by_removal(id);
	pthread_mutex_unlock(&cm_lock);
}

/* Calls on a synchronous id end with the event that answers them. */
int cm_wait_sync(struct cm_id *id, int r)
{
	struct rdma_cm_event *e;

	if (r || !id->sync)
		return r;
	if (id->ib.event) {
		rdma_ack_cm_event(id->ib.event);
		id->ib.event = NULL;
	}
	r = rdma_get_cm_event(id->ib.channel, &id->ib.event);
	if (r)
		return r;
	e = id->ib.event;
	if (!e->status)
		return 0;
	if (e->event == RDMA_CM_EVENT_REJECTED)
		return cm_fail(ECONNREFUSED);
	return cm_fail(e->status < 0 ? -e->status : e->status);
}

SR_API int rdma_migrate_id(struct rdma_cm_id *ib, struct rdma_event_channel *ch)
{
	struct cm_id *id = to_cm(ib);
	struct rdma_event_channel *old = ib->channel, *own = NULL;
	bool was_sync = id->sync;

	if (!ch) {
		ch = own = rdma_create_event_channel();
		if (!ch)
			return -1;
	}
	if (was_sync && ib->event) {
		rdma_ack_cm_event(ib->event);
		ib->event = NULL;
	}
	pthread_mutex_lock(&cm_lock);
	ib->channel = ch;
	id->sync = own != NULL;
	cm_events_move(id, old, ch);
	/* events already fetched from the old channel must be acknowledged first */
	while (id->acked != id->delivered)
		pthread_cond_wait(&id->cond, &cm_lock);
	pthread_mutex_unlock(&cm_lock);
	if (was_sync)
		rdma_destroy_event_channel(old);
	return 0;
}

/* ---- options --------------------------------------------------------------- */

static int int_option(const void *val, size_t len, bool *ret)
{
	int v;

	if (len != sizeof(v))
		return cm_fail(EINVAL);
	memcpy(&v, val, sizeof(v));
	*ret = v;
	return 0;
}

SR_API int rdma_set_option(struct rdma_cm_id *ib, int level, int name, void *val, size_t len)
{
	struct cm_id *id = to_cm(ib);

	if (level == RDMA_OPTION_IB && name == RDMA_OPTION_IB_PATH)
		return 0; /* there is one path only */
	if (level != RDMA_OPTION_ID)
		return cm_fail(ENOSYS);
	switch (name) {
	case RDMA_OPTION_ID_TOS:
		return len == sizeof(uint8_t) ? 0 : cm_fail(EINVAL);
	case RDMA_OPTION_ID_REUSEADDR:
		return int_option(val, len, &id->reuse);
	case RDMA_OPTION_ID_AFONLY:
		id->afonly_set = true;
		return int_option(val, len, &id->afonly);
	case RDMA_OPTION_ID_ACK_TIMEOUT:
		if (len != sizeof(uint8_t))
			return cm_fail(EINVAL);
		id->ack_timeout = *(const uint8_t *)val & 31;
		return 0;
	default:
		return cm_fail(ENOSYS);
	}
}

static __be16 port_of(const struct sockaddr *sa)
{
	if (sa->sa_family == AF_INET)
		return ((const struct sockaddr_in *)(const void *)sa)->sin_port;
	if (sa->sa_family == AF_INET6)
		return ((const struct sockaddr_in6 *)(const void *)sa)->sin6_port;
	return 0;
}

SR_API __be16 rdma_get_src_port(struct rdma_cm_id *id)
{
	return port_of(rdma_get_local_addr(id));
}

SR_API __be16 rdma_get_dst_port(struct rdma_cm_id *id)
{
	return port_of(rdma_get_peer_addr(id));
}
