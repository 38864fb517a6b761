/* SPDX-License-Identifier: BSD-3-Clause */
#include "softrdma/cm/cm_device.h"
#include "softrdma/cm/cm_id.h"
#include "softrdma/cm/sr_cm.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define N_BUCKETS 256

pthread_mutex_t sr_cm_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sr_cm_id *buckets[N_BUCKETS];
static uint64_t last_serial;

int sr_cm_fail(int err)
{
	errno = err;
	return -1;
}

static enum ibv_qp_type qp_type_of(enum rdma_port_space ps)
{
	return ps == RDMA_PS_UDP || ps == RDMA_PS_IPOIB ? IBV_QPT_UD : IBV_QPT_RC;
}

struct sr_cm_id *sr_cm_new(struct rdma_event_channel *ch, void *context, enum rdma_port_space ps,
			   const struct sr_cm_way *way)
{
	struct sr_cm_id *id = calloc(1, sizeof(*id));

	if (!id)
		return NULL;
	id->ib.channel = ch;
	id->ib.context = context;
	id->ib.ps = ps;
	id->ib.qp_type = qp_type_of(ps);
	id->way = way;
	id->sock = -1;
	id->ack_timeout = CM_ACK_TIMEOUT_UNSET;
	id->path_mtu = IBV_MTU_4096;
	pthread_cond_init(&id->cond, NULL);
	pthread_mutex_lock(&sr_cm_lock);
	id->serial = ++last_serial;
	id->next = buckets[id->serial % N_BUCKETS];
	buckets[id->serial % N_BUCKETS] = id;
	pthread_mutex_unlock(&sr_cm_lock);
	return id;
}

static void forget(void)
{
	for (unsigned i = 0; i < N_BUCKETS; i++) {
		for (struct sr_cm_id *id = buckets[i]; id; id = id->next)
			if (id->sock >= 0)
				close(id->sock);
		buckets[i] = NULL;
	}
	pthread_mutex_init(&sr_cm_lock, NULL);
}

struct sr_cm_id *sr_cm_find(uint64_t serial)
{
	struct sr_cm_id *id = buckets[serial % N_BUCKETS];

	while (id && id->serial != serial)
		id = id->next;
	return id;
}

void sr_cm_close_socket(struct sr_cm_id *id)
{
	if (id->sock < 0)
		return;
	sr_helper_unwatch(id->sock);
	close(id->sock);
	id->sock = -1;
}

static void unlist(struct sr_cm_id *id)
{
	struct sr_cm_id **p = &buckets[id->serial % N_BUCKETS];

	while (*p && *p != id)
		p = &(*p)->next;
	if (*p)
		*p = id->next;
}

/* The queue pair stays attached, as its owner is the program. */
static void free_groups(struct sr_cm_id *id)
{
	struct sr_group *g;

	while ((g = id->groups)) {
		id->groups = g->next;
		free(g);
	}
}

/* With sr_cm_lock held; the id has no events left. */
void sr_cm_free(struct sr_cm_id *id)
{
	unlist(id);
	sr_timer_stop(&id->timer);
	sr_cm_close_socket(id);
	sr_engine()->release(id->peer);
	free_groups(id);
	sr_cm_leave_device(id);
	pthread_cond_destroy(&id->cond);
	free(id->ib.route.path_rec);
	free(id->ep_attr);
	free(id->req);
	free(id);
}

void sr_cm_for_each(void (*fn)(struct sr_cm_id *id))
{
	pthread_mutex_lock(&sr_cm_lock);
	for (unsigned i = 0; i < N_BUCKETS; i++)
		for (struct sr_cm_id *id = buckets[i]; id; id = id->next)
			fn(id);
	pthread_mutex_unlock(&sr_cm_lock);
}

static const struct sr_part part = {.forget = forget};
SR_PART(part);
