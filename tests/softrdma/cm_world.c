/* SPDX-License-Identifier: BSD-3-Clause */
/* Two hosts and a network: cm_world.h. */
#include "cm_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

static const uint64_t delays_us[FAULT_N_KINDS] = {
	[FAULT_TWICE] = WORLD_LATENCY_US,
	[FAULT_LATE] = 5 * WORLD_LATENCY_US,
	[FAULT_VERY_LATE] = 3000 * WORLD_LATENCY_US,
	[FAULT_TWICE_VERY_LATE] = 3000 * WORLD_LATENCY_US,
};

void world_init(struct world *w, enum world_owner first, enum world_owner second)
{
	*w = (struct world){.now = WORLD_MS, .lost_from = UINT32_MAX};
	for (unsigned i = 0; i < 2; i++) {
		struct world_host *h = &w->hosts[i];

		h->gid[10] = h->gid[11] = 0xff;
		h->gid[15] = h->guid[7] = (uint8_t)(i + 1);
		h->next_id = 0x1000 * (i + 1);
		h->next_qpn = 0x100 * (i + 1);
		h->owner = i ? second : first;
		h->think_ns = WORLD_MS;
	}
}

static struct world_conn *new_conn(struct world *w, unsigned host)
{
	struct world_host *h = &w->hosts[host];

	for (unsigned i = 0; i < WORLD_MAX_ENTRIES; i++) {
		struct world_conn *c = &h->conns[i];

		if (c->is_used)
			continue;
		*c = (struct world_conn){.is_used = true, .act_at = w->now + h->think_ns};
		memcpy(c->entry.ends.local, h->gid, 16);
		memcpy(c->entry.ends.remote, w->hosts[!host].gid, 16);
		return c;
	}
	fail_msg("too many connections");
	return NULL;
}

/* ---- the network -------------------------------------------------------------------- */

static void fly(struct world *w, const struct world_flight *f, uint64_t delay_us)
{
	struct world_flight *at = &w->flights[w->n_flights++];

	assert_true(w->n_flights <= WORLD_MAX_FLIGHTS);
	*at = *f;
	at->at = w->now + delay_us * 1000;
	at->order = w->n_sent;
}

static void send_flight(struct world *w, const struct world_flight *f)
{
	unsigned n = w->n_sent++;

	if (n >= w->lost_from || w->hosts[!f->to].is_dead)
		return;
	for (unsigned i = 0; i < w->n_faults; i++) {
		enum world_fault_kind kind = w->faults[i].kind;

		if (w->faults[i].at != n)
			continue;
		if (kind != FAULT_DROP)
			fly(w, f, delays_us[kind]);
		if (kind != FAULT_TWICE && kind != FAULT_TWICE_VERY_LATE)
			return;
	}
	fly(w, f, WORLD_LATENCY_US);
}

static void send_mad(struct world *w, unsigned from, const uint8_t mad[MAD_BYTES])
{
	struct world_flight f = {.to = !from};

	memcpy(f.mad, mad, MAD_BYTES);
	w->n_by_type[mad[17] - MAD_FIRST]++;
	send_flight(w, &f);
}

/* ---- hosts -------------------------------------------------------------------------- */

void world_apply(struct world *w, unsigned host, struct world_conn *c,
		 const struct ib_cm_result *result, const struct mad *m)
{
	struct world_host *h = &w->hosts[host];

	ib_cm_table_add(&h->table, &c->entry);
	if (result->has_mad)
		send_mad(w, host, result->mad);
	if (result->notice) {
		c->n_notices[result->notice]++;
		c->last_notice = result->notice;
		c->last_status = result->status ? result->status : c->last_status;
		c->act_at = w->now + h->think_ns;
	}
	if (c->entry.cm.state == IB_CM_GONE)
		ib_cm_table_remove(&h->table, &c->entry);
}

struct world_conn *world_connect(struct world *w)
{
	struct world_host *h = &w->hosts[0];
	struct world_conn *c = new_conn(w, 0);
	struct mad m = {.req = {.qpn = h->next_qpn++, .local_timeout = 20, .max_retries = 15}};
	struct ib_cm_result result;

	ib_cm_init(&c->entry.cm, ib_cm_table_id(&h->table, h->next_id++, 0, 0), h->guid);
	assert_int_equal(ib_cm_connect(&c->entry.cm, w->now, 61000 * WORLD_MS, &m, &result), 0);
	world_apply(w, 0, c, &result, NULL);
	c->act_at = h->owner == OWNER_LEAVES ? w->now + h->think_ns : WORLD_NO_ACTION;
	return c;
}

static void on_stale(struct world *w, unsigned host, struct ib_cm_entry *old, const struct mad *m)
{
	struct ib_cm_result result;
	uint8_t rej[MAD_BYTES];

	ib_cm_refuse(m, MAD_REASON_STALE, rej);
	send_mad(w, host, rej);
	ib_cm_doubt(&old->cm, w->now, &result);
	world_apply(w, host, (struct world_conn *)(void *)old, &result, m);
}

static void on_request(struct world *w, unsigned host, const struct ib_cm_ends *ends,
		       const struct mad *m)
{
	struct world_host *h = &w->hosts[host];
	struct ib_cm_entry *old = ib_cm_table_stale(&h->table, ends, m, NULL);
	struct ib_cm_result none = {0};
	struct world_conn *c;

	if (old) {
		on_stale(w, host, old, m);
	} else if (h->is_deaf) {
		ib_cm_refuse(m, MAD_REASON_NO_SERVICE, none.mad);
		send_mad(w, host, none.mad);
	} else {
		c = new_conn(w, host);
		ib_cm_init_passive(&c->entry.cm, ib_cm_table_id(&h->table, h->next_id++, 0, 0),
				   h->guid, m);
		world_apply(w, host, c, &none, m);
	}
}

static void on_mad(struct world *w, unsigned host, const uint8_t bytes[MAD_BYTES])
{
	struct world_host *h = &w->hosts[host];
	struct ib_cm_ends ends;
	struct ib_cm_result result;
	struct ib_cm_entry *e;
	struct mad m;

	memcpy(ends.local, h->gid, 16);
	memcpy(ends.remote, w->hosts[!host].gid, 16);
	assert_int_equal(mad_decode(bytes, &m), 0);
	e = ib_cm_table_find(&h->table, &ends, &m);
	if (e) {
		ib_cm_on_mad(&e->cm, w->now, &m, &result);
		world_apply(w, host, (struct world_conn *)(void *)e, &result, &m);
	} else if (m.type == MAD_REQ) {
		on_request(w, host, &ends, &m);
	} else if (ib_cm_answer_stray(&m, result.mad)) {
		send_mad(w, host, result.mad);
	}
}

static void on_data(struct world *w, unsigned host, uint32_t local_id)
{
	for (unsigned i = 0; i < WORLD_MAX_ENTRIES; i++) {
		struct world_conn *c = &w->hosts[host].conns[i];
		struct ib_cm_result result;

		if (!c->is_used || c->entry.cm.local_id != local_id)
			continue;
		ib_cm_on_data(&c->entry.cm, &result);
		world_apply(w, host, c, &result, NULL);
	}
}

/* ---- owners ------------------------------------------------------------------------- */

static void established(struct world *w, unsigned host, struct world_conn *c)
{
	struct world_flight data = {.to = !host, .is_data = true, .data_id = c->entry.cm.remote_id};

	c->act_at = w->now + w->hosts[host].think_ns;
	if (w->has_data)
		send_flight(w, &data);
}

static void act_if_up(struct world *w, unsigned host, struct world_conn *c)
{
	struct ib_cm_result result = {0};

	if (w->hosts[host].owner == OWNER_ABANDONS)
		ib_cm_abandon(&c->entry.cm, w->now, &result);
	else if (w->hosts[host].owner == OWNER_DISCONNECTS)
		ib_cm_disconnect(&c->entry.cm, w->now, &result);
	world_apply(w, host, c, &result, NULL);
}

static void act(struct world *w, unsigned host, struct world_conn *c)
{
	struct world_host *h = &w->hosts[host];
	struct mad m = {.rep = {.qpn = h->next_qpn}};
	struct ib_cm_result result = {0};

	c->act_at = WORLD_NO_ACTION;
	if (h->owner == OWNER_LEAVES) {
		ib_cm_abandon(&c->entry.cm, w->now, &result);
	} else if (c->entry.cm.state == IB_CM_REQ_RCVD && h->owner == OWNER_REJECTS) {
		ib_cm_reject(&c->entry.cm, w->now, MAD_REASON_CONSUMER, "no", 2, &result);
	} else if (c->entry.cm.state == IB_CM_REQ_RCVD) {
		h->next_qpn++;
		ib_cm_accept(&c->entry.cm, w->now, &m, &result);
	} else if (c->entry.cm.state == IB_CM_REP_RCVD) {
		ib_cm_establish(&c->entry.cm, &result);
		world_apply(w, host, c, &result, NULL);
		established(w, host, c);
		return;
	} else if (c->entry.cm.state == IB_CM_ESTABLISHED) {
		act_if_up(w, host, c);
		return;
	} else if (c->entry.cm.state == IB_CM_DREQ_RCVD) {
		ib_cm_disconnect(&c->entry.cm, w->now, &result);
	}
	world_apply(w, host, c, &result, NULL);
}

/* ---- time --------------------------------------------------------------------------- */

static int earliest_flight(const struct world *w)
{
	int best = -1;

	for (unsigned i = 0; i < w->n_flights; i++) {
		const struct world_flight *f = &w->flights[i];

		if (best < 0 || f->at < w->flights[best].at ||
		    (f->at == w->flights[best].at && f->order < w->flights[best].order))
			best = (int)i;
	}
	return best;
}

static void land(struct world *w, unsigned i)
{
	struct world_flight f = w->flights[i];

	w->flights[i] = w->flights[--w->n_flights];
	if (w->hosts[f.to].is_dead)
		return;
	if (f.is_data)
		on_data(w, f.to, f.data_id);
	else
		on_mad(w, f.to, f.mad);
}

static uint64_t due_of(const struct world_conn *c)
{
	uint64_t due = c->entry.cm.due_ns ? c->entry.cm.due_ns : WORLD_NO_ACTION;

	return c->act_at < due ? c->act_at : due;
}

static struct world_conn *earliest_conn(struct world *w, unsigned *ret_host)
{
	struct world_conn *best = NULL;

	for (unsigned host = 0; host < 2; host++)
		for (unsigned i = 0; i < WORLD_MAX_ENTRIES; i++) {
			struct world_conn *c = &w->hosts[host].conns[i];

			if (!c->is_used || w->hosts[host].is_dead || due_of(c) == WORLD_NO_ACTION)
				continue;
			if (best && due_of(best) <= due_of(c))
				continue;
			best = c;
			*ret_host = host;
		}
	return best;
}

static void wake(struct world *w, unsigned host, struct world_conn *c)
{
	struct ib_cm_result result;

	if (c->act_at <= w->now) {
		act(w, host, c);
		return;
	}
	ib_cm_timer(&c->entry.cm, w->now, &result);
	world_apply(w, host, c, &result, NULL);
}

void world_run(struct world *w, uint64_t until_ns)
{
	for (unsigned steps = 0;; steps++) {
		unsigned host = 0;
		int flight = earliest_flight(w);
		struct world_conn *c = earliest_conn(w, &host);
		uint64_t next = flight < 0 ? WORLD_NO_ACTION : w->flights[flight].at;

		assert_true(steps < 10000);
		if (c && due_of(c) < next)
			next = due_of(c);
		else
			c = NULL;
		if (next == WORLD_NO_ACTION || next > until_ns)
			return;
		assert_true(next >= w->now || !c || c->act_at <= w->now);
		w->now = next > w->now ? next : w->now;
		if (c)
			wake(w, host, c);
		else
			land(w, (unsigned)flight);
	}
}
