/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdma_cm identifiers: creation, destruction, options, and the removal of the device behind them.
 *
 * Application threads call in, and the helper runs the connections' sockets. One lock, sr_cm_lock,
 * guards all of it; the data path never takes it. No thread waits or modifies a queue pair while it
 * holds the lock. The helper finds an id by its serial number, so that a late event of the socket
 * finds nothing instead of a dangling pointer.
 *
 * rdma_destroy_id waits until the application has acknowledged all events that it fetched for the
 * id, as librdmacm does; events not fetched yet disappear.
 */
#include "softrdma/cm/cm_message.h"
#include "softrdma/cm/cm_queue.h"
#include "softrdma/cm/sr_cm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "softrdma/cm/cm_id.h"
#include "softrdma/cm/cm_mad_listen.h"
#include "softrdma/cm/cm_socket.h"
#include "softrdma/verbs/removal.h"

SR_API int rdma_create_id(struct rdma_event_channel *ch, struct rdma_cm_id **ret, void *context,
			  enum rdma_port_space ps)
{
	struct rdma_event_channel *own = NULL;
	struct sr_cm_id *id;
	int r;

	if (ps != RDMA_PS_TCP && ps != RDMA_PS_UDP && ps != RDMA_PS_IPOIB && ps != RDMA_PS_IB)
		return sr_cm_fail(EINVAL);
	r = sr_node_start();
	if (r)
		return sr_cm_fail(-r);
	if (!ch) {
		own = rdma_create_event_channel();
		if (!own)
			return -1;
	}
	id = sr_cm_new(ch ? ch : own, context, ps, &sr_cm_by_socket);
	if (!id) {
		if (own)
			rdma_destroy_event_channel(own);
		return sr_cm_fail(ENOMEM);
	}
	id->is_sync = !ch;
	*ret = &id->ib;
	return 0;
}

SR_API int rdma_destroy_id(struct rdma_cm_id *ib)
{
	struct sr_cm_id *id = sr_to_cm(ib);
	struct rdma_event_channel *own = id->is_sync ? ib->channel : NULL;

	if (id->is_sync && ib->event) {
		rdma_ack_cm_event(ib->event);
		ib->event = NULL;
	}
	pthread_mutex_lock(&sr_cm_lock);
	sr_cm_stop_listen(id);
	sr_cm_say_goodbye(id);
	sr_cm_close_socket(id);
	sr_cm_events_drop(id);
	while (id->acked != id->delivered)
		pthread_cond_wait(&id->cond, &sr_cm_lock);
	sr_cm_free(id);
	pthread_mutex_unlock(&sr_cm_lock);
	if (own)
		rdma_destroy_event_channel(own);
	return 0;
}

/*
 * The kernel gives up its part of the id at once: it notifies peers and stops listening. The
 * program's objects stay. A wildcard listener is not bound to a device, so it gets no event.
 */
static void end_by_removal(struct sr_cm_id *id)
{
	bool is_known = id->state != CM_REQ_RECEIVED; /* to the program; cf. ucma.c */

	sr_cm_stop_listen(id);
	sr_cm_say_goodbye(id);
	sr_timer_stop(&id->timer);
	sr_cm_close_socket(id);
	if (is_known)
		sr_cm_raise(id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
}

static void end_if_bound(struct sr_cm_id *id)
{
	if (id->ib.channel && id->device)
		end_by_removal(id);
}

static void on_removal(void)
{
	sr_cm_for_each(end_if_bound);
}

static const struct sr_part part = {.on_removal = on_removal};
SR_PART(part);

SR_API int rdma_migrate_id(struct rdma_cm_id *ib, struct rdma_event_channel *ch)
{
	struct sr_cm_id *id = sr_to_cm(ib);
	struct rdma_event_channel *old = ib->channel, *own = NULL;
	bool was_sync = id->is_sync;

	if (!ch) {
		ch = own = rdma_create_event_channel();
		if (!ch)
			return -1;
	}
	if (was_sync && ib->event) {
		rdma_ack_cm_event(ib->event);
		ib->event = NULL;
	}
	pthread_mutex_lock(&sr_cm_lock);
	ib->channel = ch;
	id->is_sync = own != NULL;
	sr_cm_events_move(id, old, ch);
	/* events already fetched from the old channel must be acknowledged first */
	while (id->acked != id->delivered)
		pthread_cond_wait(&id->cond, &sr_cm_lock);
	pthread_mutex_unlock(&sr_cm_lock);
	if (was_sync)
		rdma_destroy_event_channel(old);
	return 0;
}

/* ---- options --------------------------------------------------------------- */

static int int_option(const void *val, size_t len, bool *ret)
{
	int v;

	if (len != sizeof(v))
		return sr_cm_fail(EINVAL);
	memcpy(&v, val, sizeof(v));
	*ret = v;
	return 0;
}

SR_API int rdma_set_option(struct rdma_cm_id *ib, int level, int name, void *val, size_t len)
{
	struct sr_cm_id *id = sr_to_cm(ib);

	if (level == RDMA_OPTION_IB && name == RDMA_OPTION_IB_PATH)
		return 0; /* there is one path only */
	if (level != RDMA_OPTION_ID)
		return sr_cm_fail(ENOSYS);
	switch (name) {
	case RDMA_OPTION_ID_TOS:
		return len == sizeof(uint8_t) ? 0 : sr_cm_fail(EINVAL);
	case RDMA_OPTION_ID_REUSEADDR:
		return int_option(val, len, &id->may_share_port);
	case RDMA_OPTION_ID_AFONLY:
		id->has_v6only = true;
		return int_option(val, len, &id->is_v6only);
	case RDMA_OPTION_ID_ACK_TIMEOUT:
		if (len != sizeof(uint8_t))
			return sr_cm_fail(EINVAL);
		id->ack_timeout = *(const uint8_t *)val & 31;
		return 0;
	default:
		return sr_cm_fail(ENOSYS);
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
