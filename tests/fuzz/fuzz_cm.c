/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of a hostile peer to softrdma's connection manager: a script of datagrams, of the calls
 * of a program and of passing time, over a table of connections. A step's first byte chooses; the
 * bytes that follow are a whole datagram, or its type with the few fields that matter, for ids that
 * exist. A forbidden move of the state machine ends the process.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "softrdma/cm/ib_cm_table.h"
#include "softrdma/cm/mad_ip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum {
	MAX_CONNS = 8,
	MAX_STEPS = 200,
};

struct fuzz {
	const uint8_t *data;
	size_t n;
	uint64_t now;
	uint32_t last_random;
	struct ib_cm_table table;
	struct ib_cm_entry conns[MAX_CONNS];
	bool is_used[MAX_CONNS];
};

static const struct ib_cm_ends ends = {.local = {[15] = 1}, .remote = {[15] = 2}};
static const uint8_t guid[8] = {1};

static uint8_t byte(struct fuzz *f)
{
	if (!f->n)
		return 0;
	f->n--;
	return *f->data++;
}

static struct ib_cm_entry *new_conn(struct fuzz *f)
{
	for (unsigned i = 0; i < MAX_CONNS; i++) {
		if (f->is_used[i])
			continue;
		f->is_used[i] = true;
		f->conns[i] = (struct ib_cm_entry){.ends = ends};
		return &f->conns[i];
	}
	return NULL;
}

static uint32_t new_id(struct fuzz *f)
{
	uint32_t id;

	do {
		id = ib_cm_table_id(&f->table, ++f->last_random, 0xf0, 0x30);
	} while (!id);
	return id;
}

/* ---- what must hold ---- */

static void decoded_is_sound(const struct mad *m)
{
	struct mad again;
	struct mad_ip ip, ip_again;
	uint8_t bytes[MAD_BYTES];

	check(m->type >= MAD_FIRST && m->type <= MAD_LAST);
	check(m->type != MAD_REJ || m->rej.ari_len <= MAD_MAX_ARI);
	check(m->type != MAD_SIDR_REP || m->sidr_rep.info_len <= MAD_MAX_ARI);
	mad_encode(m, bytes);
	check(mad_decode(bytes, &again) == 0);
	check(!memcmp(m, &again, sizeof(again)));
	if (m->type != MAD_REQ || mad_ip_decode(m->data, &ip))
		return;
	mad_ip_encode(&ip, bytes);
	check(mad_ip_decode(bytes, &ip_again) == 0);
	check(!memcmp(ip.destination, ip_again.destination, 16));
}

static void apply(struct fuzz *f, struct ib_cm_entry *e, const struct ib_cm_result *result)
{
	struct mad m;

	check(e->cm.state < IB_CM_N_STATES);
	check(!result->has_mad || mad_decode(result->mad, &m) == 0);
	check(result->notice == IB_CM_UNREACHABLE || result->notice == IB_CM_DOWN
		      ? result->status <= 0
		      : result->status >= 0);
	if (e->cm.state == IB_CM_GONE) {
		ib_cm_table_remove(&f->table, e);
		f->is_used[e - f->conns] = false;
	} else {
		ib_cm_table_add(&f->table, e);
	}
	check(f->table.n <= MAX_CONNS);
}

/* ---- datagrams ---- */

static void on_request(struct fuzz *f, const struct mad *m)
{
	struct ib_cm_entry *e, *old = ib_cm_table_stale(&f->table, &ends, m, NULL);
	struct ib_cm_result result = {0};

	if (old) {
		check(old->cm.remote_qpn == m->req.qpn);
		ib_cm_doubt(&old->cm, f->now, &result);
		apply(f, old, &result);
		return;
	}
	e = new_conn(f);
	if (!e) {
		ib_cm_refuse(m, MAD_REASON_NO_RESOURCES, result.mad);
		return;
	}
	ib_cm_init_passive(&e->cm, new_id(f), guid, m);
	apply(f, e, &result);
	check(ib_cm_table_find(&f->table, &ends, m) == e || !m->local_id);
}

static void on_mad(struct fuzz *f, const uint8_t bytes[MAD_BYTES])
{
	struct ib_cm_result result;
	struct ib_cm_entry *e;
	struct mad m;

	if (mad_decode(bytes, &m))
		return;
	decoded_is_sound(&m);
	check(strcmp(mad_name(m.type), "?") != 0);
	e = ib_cm_table_find(&f->table, &ends, &m);
	if (e && m.type == MAD_REP && ib_cm_table_stale(&f->table, &ends, &m, e))
		return;
	if (e) {
		ib_cm_on_mad(&e->cm, f->now, &m, &result);
		apply(f, e, &result);
	} else if (m.type == MAD_REQ) {
		on_request(f, &m);
	} else {
		ib_cm_answer_stray(&m, result.mad);
	}
}

static void raw(struct fuzz *f)
{
	uint8_t bytes[MAD_BYTES] = {0};
	size_t n = f->n < MAD_BYTES ? f->n : MAD_BYTES;

	memcpy(bytes, f->data, n);
	f->data += n;
	f->n -= n;
	on_mad(f, bytes);
}

static void shaped(struct fuzz *f)
{
	const struct ib_cm *c = &f->conns[byte(f) % MAX_CONNS].cm;
	struct mad m = {.type = (enum mad_type)(MAD_FIRST + byte(f) % 10)};
	uint8_t bytes[MAD_BYTES], how = byte(f);

	m.local_id = how & 1 ? byte(f) : c->remote_id;
	m.remote_id = how & 2 ? 0 : c->local_id;
	if (m.type == MAD_REQ) {
		m.req.qpn = byte(f);
		m.req.local_timeout = byte(f);
	} else if (m.type == MAD_REP) {
		m.rep.qpn = byte(f);
	} else if (m.type == MAD_DREQ) {
		m.dreq.remote_qpn = how & 4 ? byte(f) : c->local_qpn;
	} else if (m.type == MAD_REJ) {
		m.rej.reason = byte(f);
		m.rej.ari_len = byte(f);
	} else if (m.type == MAD_MRA) {
		m.mra.answered = byte(f);
		m.mra.service_timeout = byte(f);
	} else if (m.type == MAD_SIDR_REP) {
		m.sidr_rep.info_len = byte(f);
	}
	mad_encode(&m, bytes);
	on_mad(f, bytes);
}

/* ---- the program and the clock ---- */

static void start(struct fuzz *f)
{
	struct mad m = {.req = {.qpn = 0x100u + byte(f)}};
	struct ib_cm_entry *e = new_conn(f);
	struct ib_cm_result result;

	if (!e)
		return;
	ib_cm_init(&e->cm, new_id(f), guid);
	check(ib_cm_connect(&e->cm, f->now, 61000000000ULL, &m, &result) == 0);
	apply(f, e, &result);
}

static void call(struct fuzz *f)
{
	unsigned i = byte(f) % MAX_CONNS;
	struct ib_cm *c = &f->conns[i].cm;
	struct mad m = {.rep = {.qpn = 0x200 + i}};
	struct ib_cm_result result = {0};
	uint8_t choice = byte(f), which = choice % 8;
	bool is_other = choice & 0x80;

	if (!f->is_used[i])
		return;
	if (which == 0)
		ib_cm_accept(c, f->now, &m, &result);
	else if (which == 1)
		ib_cm_establish(c, &result);
	else if (which == 2)
		ib_cm_reject(c, f->now, MAD_REASON_CONSUMER, m.data, byte(f), &result);
	else if (which == 3)
		ib_cm_disconnect(c, f->now, &result);
	else if (which == 4 && is_other)
		ib_cm_drop(c, f->now, &result);
	else if (which == 4)
		ib_cm_abandon(c, f->now, &result);
	else if (which == 5)
		ib_cm_on_data(c, &result);
	else if (which == 6 && is_other)
		ib_cm_limit_repeats(c, 1);
	else if (which == 6)
		ib_cm_on_unreachable(c);
	else
		ib_cm_connect(c, f->now, 1000, &m, &result);
	check(*ib_cm_state_name(c->state) != '?');
	apply(f, &f->conns[i], &result);
}

static void pass_time(struct fuzz *f)
{
	f->now += (uint64_t)byte(f) << (byte(f) % 36);
	for (unsigned i = 0; i < MAX_CONNS; i++) {
		struct ib_cm_result result;

		if (!f->is_used[i])
			continue;
		ib_cm_timer(&f->conns[i].cm, f->now, &result);
		apply(f, &f->conns[i], &result);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static void (*const steps[])(struct fuzz *) = {raw, shaped, start, call, pass_time};
	struct fuzz *f = calloc(1, sizeof(*f));

	check(f);
	f->data = data;
	f->n = n;
	f->now = 1;
	for (unsigned i = 0; f->n && i < MAX_STEPS; i++)
		steps[byte(f) % 5](f);
	free(f);
	return 0;
}
