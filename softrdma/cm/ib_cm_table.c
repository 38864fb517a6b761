/* SPDX-License-Identifier: BSD-3-Clause */
/* The connections of a process: ib_cm_table.h. Three hash tables with the same entries. */
#include "softrdma/cm/ib_cm_table.h"

#include <stddef.h>
#include <string.h>

static unsigned bucket(uint32_t key)
{
	return (key * 2654435761u) >> 24; /* 256 buckets */
}

static void list(struct ib_cm_table *t, struct ib_cm_entry *e, unsigned index, uint32_t key)
{
	struct ib_cm_entry **head = &t->heads[index][bucket(key)];

	if (e->chains[index].link || !key)
		return;
	e->chains[index].key = key;
	e->chains[index].next = *head;
	e->chains[index].link = head;
	if (*head)
		(*head)->chains[index].link = &e->chains[index].next;
	*head = e;
}

static void unlist(struct ib_cm_entry *e, unsigned index)
{
	struct ib_cm_entry *next = e->chains[index].next;

	if (!e->chains[index].link)
		return;
	*e->chains[index].link = next;
	if (next)
		next->chains[index].link = e->chains[index].link;
	e->chains[index].link = NULL;
}

void ib_cm_table_add(struct ib_cm_table *t, struct ib_cm_entry *e)
{
	if (!e->chains[IB_CM_BY_LOCAL_ID].link)
		t->n++;
	list(t, e, IB_CM_BY_LOCAL_ID, e->cm.local_id);
	list(t, e, IB_CM_BY_REMOTE_ID, e->cm.remote_id);
	list(t, e, IB_CM_BY_REMOTE_QPN, e->cm.remote_qpn);
}

void ib_cm_table_remove(struct ib_cm_table *t, struct ib_cm_entry *e)
{
	if (!e->chains[IB_CM_BY_LOCAL_ID].link)
		return;
	for (unsigned i = 0; i < IB_CM_N_INDEXES; i++)
		unlist(e, i);
	t->n--;
}

/* The next entry of that key, from e on. */
static struct ib_cm_entry *match(struct ib_cm_entry *e, unsigned index, uint32_t key)
{
	while (e && e->chains[index].key != key)
		e = e->chains[index].next;
	return e;
}

static struct ib_cm_entry *first(const struct ib_cm_table *t, unsigned index, uint32_t key)
{
	return match(t->heads[index][bucket(key)], index, key);
}

static struct ib_cm_entry *next(const struct ib_cm_entry *e, unsigned index)
{
	return match(e->chains[index].next, index, e->chains[index].key);
}

struct ib_cm_entry *ib_cm_table_by_id(const struct ib_cm_table *t, uint32_t local_id)
{
	return first(t, IB_CM_BY_LOCAL_ID, local_id);
}

uint32_t ib_cm_table_id(const struct ib_cm_table *t, uint32_t random, uint8_t mask, uint8_t value)
{
	uint32_t id = (random & ~((uint32_t)mask << 24)) | (uint32_t)(value & mask) << 24;

	return first(t, IB_CM_BY_LOCAL_ID, id) ? 0 : id;
}

static bool is_between(const struct ib_cm_entry *e, const struct ib_cm_ends *ends)
{
	return !memcmp(&e->ends, ends, sizeof(*ends));
}

/* By the peer's id, which is unique together with the peer's GUID. */
static struct ib_cm_entry *find_by_peer(const struct ib_cm_table *t, const struct ib_cm_ends *ends,
					uint32_t id, const uint8_t guid[8])
{
	struct ib_cm_entry *e = first(t, IB_CM_BY_REMOTE_ID, id);

	while (e && (!is_between(e, ends) || memcmp(e->cm.remote_guid, guid, 8)))
		e = next(e, IB_CM_BY_REMOTE_ID);
	return e;
}

struct ib_cm_entry *ib_cm_table_find(const struct ib_cm_table *t, const struct ib_cm_ends *ends,
				     const struct mad *m)
{
	struct ib_cm_entry *e;

	if (m->type == MAD_REQ)
		return find_by_peer(t, ends, m->local_id, m->req.guid);
	/* A peer that got no answer knows no id of this side. */
	if (m->type == MAD_REJ && m->rej.reason == MAD_REASON_TIMEOUT && !m->remote_id)
		return find_by_peer(t, ends, m->local_id, m->rej.ari);
	e = first(t, IB_CM_BY_LOCAL_ID, m->remote_id);
	return e && is_between(e, ends) ? e : NULL;
}

static bool is_alive(const struct ib_cm *c)
{
	return c->state != IB_CM_TIMEWAIT && c->state != IB_CM_REJECTED && c->state != IB_CM_GONE;
}

struct ib_cm_entry *ib_cm_table_stale(const struct ib_cm_table *t, const struct ib_cm_ends *ends,
				      const struct mad *m, const struct ib_cm_entry *but)
{
	uint32_t qpn = m->type == MAD_REQ ? m->req.qpn : m->rep.qpn;
	const uint8_t *guid = m->type == MAD_REQ ? m->req.guid : m->rep.guid;
	struct ib_cm_entry *e = first(t, IB_CM_BY_REMOTE_QPN, qpn);

	while (e && (e == but || !is_alive(&e->cm) || !is_between(e, ends) ||
		     memcmp(e->cm.remote_guid, guid, 8)))
		e = next(e, IB_CM_BY_REMOTE_QPN);
	return e;
}
