/* SPDX-License-Identifier: BSD-3-Clause */
#include "softrdma/cm/sr_cm.h"

#include <stdlib.h>

#include "softrdma/cm/cm_device.h"
#include "softrdma/fabric/node.h"
#include "softrdma/verbs/removal.h"
#include "softrdma/process/part.h"

/*
 * As in librdmacm, ids share a context of the device, which stays open after the last id. The
 * context of a removed device is closed when an id binds to another device, or when its last id
 * goes after that. Until then the program holds the removed device.
 */
struct sr_cm_device {
	struct sr_cm_device *next;
	struct ibv_context *context; /* owned */
	struct ibv_pd *pd;	     /* owned, while refs */
	unsigned refs;
	bool is_dead; /* another device was bound since */
};

/* Guards the devices. Taken within sr_cm_lock. */
static pthread_mutex_t devices_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sr_cm_device *devices;

/*
 * librdmacm has no thread, so contexts are closed inside calls of the application: between its
 * calls it may use a context's descriptors.
 */
static void close_unused_dead(void)
{
	struct sr_cm_device **p = &devices, *d;

	if (sr_helper_is_self())
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

void sr_cm_close_unused_devices(void)
{
	pthread_mutex_lock(&devices_lock);
	close_unused_dead();
	pthread_mutex_unlock(&devices_lock);
}

static struct sr_cm_device *meet(struct ibv_device *device)
{
	struct sr_cm_device *d = calloc(1, sizeof(*d));

	for (struct sr_cm_device *old = devices; old; old = old->next)
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

static int take(struct sr_cm_device *d)
{
	if (!d->pd)
		d->pd = ibv_alloc_pd(d->context);
	if (!d->pd)
		return -ENOMEM;
	d->refs++;
	return 0;
}

static int get_device(struct sr_cm_device **ret)
{
	struct ibv_device *device = sr_removal_device();
	struct sr_cm_device *d;
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

static void put_device(struct sr_cm_device *d)
{
	pthread_mutex_lock(&devices_lock);
	if (!--d->refs) {
		ibv_dealloc_pd(d->pd);
		d->pd = NULL;
		close_unused_dead();
	}
	pthread_mutex_unlock(&devices_lock);
}

int sr_cm_set_device(struct sr_cm_id *id)
{
	int r;

	if (id->device)
		return 0;
	r = get_device(&id->device);
	if (r) {
		id->device = NULL;
		return r;
	}
	sr_removal_hold(HOLD_ID);
	id->ib.verbs = id->device->context;
	id->ib.port_num = 1;
	if (!id->ib.pd)
		id->ib.pd = id->device->pd;
	return 0;
}

void sr_cm_leave_device(struct sr_cm_id *id)
{
	if (!id->device)
		return;
	put_device(id->device);
	sr_removal_unhold(HOLD_ID);
}

SR_API struct ibv_context **rdma_get_devices(int *num)
{
	struct ibv_context **list = calloc(2, sizeof(*list));
	struct sr_cm_device *d;

	if (!list || sr_node_start() || get_device(&d)) {
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
	struct sr_cm_device *d;

	pthread_mutex_lock(&devices_lock);
	for (d = devices; d && d->context != list[0]; d = d->next)
		;
	pthread_mutex_unlock(&devices_lock);
	if (d)
		put_device(d);
	free(list);
}

/* A forked child has a device of its own. Its parent's stay known, to be closed. */
static void forget(void)
{
	for (struct sr_cm_device *d = devices; d; d = d->next)
		d->is_dead = true;
	pthread_mutex_init(&devices_lock, NULL);
}

static const struct sr_part part = {.forget = forget};
SR_PART(part);
