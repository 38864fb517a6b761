/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Multicast on this host: a table in the process' segment says which of its queue pairs receive
 * what is sent to a group. A sender looks through the tables of all processes that it knows. A
 * process that joins introduces itself to all others, and one that makes an address handle for a
 * group does the same (ah.c): so each sender knows each member, whichever came first.
 */
#include <errno.h>
#include <string.h>

#include "softrdma/fabric/datagram.h"
#include "softrdma/fabric/seek.h"
#include "softrdma/verbs/multicast.h"

/* Guards changes of the table. Leaf. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The entry of that queue pair and group, or NULL. Under the lock. */
static struct seg_member *find(uint32_t slot, const union ibv_gid *gid)
{
	for (uint32_t i = 0; i < atomic_load(&seg_self->n_members); i++) {
		struct seg_member *m = &seg_self->member[i];

		if (atomic_load(&m->qp_slot) == slot + 1 && !memcmp(m->gid, gid->raw, 16))
			return m;
	}
	return NULL;
}

static int add(uint32_t slot, const union ibv_gid *gid)
{
	uint32_t i = 0;

	if (find(slot, gid))
		return 0;
	while (i < SEG_MAX_MEMBER && atomic_load(&seg_self->member[i].qp_slot))
		i++;
	if (i == SEG_MAX_MEMBER)
		return ENOMEM;
	memcpy(seg_self->member[i].gid, gid->raw, 16);
	atomic_store(&seg_self->member[i].qp_slot, slot + 1);
	if (i == atomic_load(&seg_self->n_members))
		atomic_store(&seg_self->n_members, i + 1);
	return 0;
}

SR_API int ibv_attach_mcast(struct ibv_qp *ib, const union ibv_gid *gid, uint16_t lid)
{
	int r;

	if (ib->qp_type != IBV_QPT_UD || !sr_gid_is_multicast(gid))
		return EINVAL;
	pthread_mutex_lock(&lock);
	r = add(sr_to_qp(ib)->slot, gid);
	pthread_mutex_unlock(&lock);
	if (!r)
		sr_peer_meet_all();
	return r;
}

SR_API int ibv_detach_mcast(struct ibv_qp *ib, const union ibv_gid *gid, uint16_t lid)
{
	struct seg_member *m;

	pthread_mutex_lock(&lock);
	m = find(sr_to_qp(ib)->slot, gid);
	if (m)
		atomic_store(&m->qp_slot, 0);
	pthread_mutex_unlock(&lock);
	return m ? 0 : EINVAL;
}

void sr_multicast_forget(uint32_t slot)
{
	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < atomic_load(&seg_self->n_members); i++)
		if (atomic_load(&seg_self->member[i].qp_slot) == slot + 1)
			atomic_store(&seg_self->member[i].qp_slot, 0);
	pthread_mutex_unlock(&lock);
}

static void forget(void)
{
	pthread_mutex_init(&lock, NULL);
}

static const struct sr_part part = {.forget = forget};
SR_PART(part);
