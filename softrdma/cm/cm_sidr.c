/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Service id resolution; see cm_sidr.h.
 *
 * The side that asks repeats its question until it has an answer, as with a ConnectRequest. The
 * side that answers keeps the answer as long as the question may be repeated. Both are objects
 * beside the id, which may be destroyed at any time. Everything is under sr_cm_lock.
 *
 * Any machine can forge questions: where no program listens, they are answered and forgotten. Few
 * questions may wait for a program, and few of its answers are kept: a question that is repeated
 * later than that asks the program again.
 */
#include "softrdma/cm/cm_sidr.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "softrdma/chaos/chaos.h"
#include "softrdma/cm/cm_conn.h"
#include "softrdma/cm/cm_id.h"
#include "softrdma/cm/cm_mad_conn.h"
#include "softrdma/cm/cm_mad_listen.h"
#include "softrdma/cm/cm_mad_message.h"
#include "softrdma/cm/cm_mad_resolve.h"
#include "softrdma/cm/cm_message.h"
#include "softrdma/cm/refusals.h"
#include "softrdma/cm/sr_cm.h"

enum {
	PATIENCE_MS = 61000, /* as for a ConnectRequest */
	FIRST_MS = 200,
	LONGEST_MS = 4300,
	MAX_OURS = 16384,
	MAX_ASKED = 1024, /* more questions than this are dropped: their senders repeat them */
	MAX_ANSWERED = 1024,
	N_BUCKETS = 256,
};

#define MS 1000000ULL

enum sidr_kind {
	SIDR_OURS,     /* this side's question */
	SIDR_ASKED,    /* the other side's, which a program has to answer */
	SIDR_ANSWERED, /* the same, and the answer is mad */
	SIDR_N_KINDS,
};

struct sr_sidr {
	struct sr_sidr *next; /* in its bucket */
	struct ib_cm_ends ends;
	enum sidr_kind kind;
	struct sr_sidr *newer;	/* SIDR_ANSWERED */
	uint8_t mad[MAD_BYTES]; /* the question, or the answer */
	uint32_t request_id;
	uint64_t tid, service_id;
	uint64_t serial; /* of the id; 0: it is gone */
	uint64_t number; /* for the timer; the low half is request_id */
	uint64_t give_up_ns, interval_ns;
	struct refusals refusals; /* of this side's question */
	struct sr_timer timer;
};

static struct sr_sidr *buckets[N_BUCKETS];
static unsigned n[SIDR_N_KINDS];
static struct sr_sidr *first_answered, *last_answered; /* the oldest, the newest */
static uint32_t last_number;

static void send_mad(const struct ib_cm_ends *ends, const uint8_t mad[MAD_BYTES])
{
	struct sr_gsi_path path;

	memcpy(path.local.raw, ends->local, 16);
	memcpy(path.remote.raw, ends->remote, 16);
	sr_gsi_send(&path, mad);
}

static struct sr_sidr **bucket(uint32_t request_id)
{
	return &buckets[request_id * 2654435761u >> 24];
}

static struct sr_sidr *find(const struct ib_cm_ends *ends, uint32_t request_id, bool is_ours)
{
	struct sr_sidr *s = *bucket(request_id);

	while (s && ((s->kind == SIDR_OURS) != is_ours || s->request_id != request_id ||
		     memcmp(&s->ends, ends, sizeof(*ends)) != 0))
		s = s->next;
	return s;
}

static struct sr_sidr *find_by_number(uint64_t number)
{
	struct sr_sidr *s = *bucket((uint32_t)number);

	while (s && s->number != number)
		s = s->next;
	return s;
}

static struct sr_cm_id *id_of(const struct sr_sidr *s)
{
	struct sr_cm_id *id = s->serial ? sr_cm_find(s->serial) : NULL;

	return id && id->sidr == s ? id : NULL;
}

static struct sr_sidr *sidr_new(const struct ib_cm_ends *ends, uint32_t request_id,
				enum sidr_kind kind)
{
	struct sr_sidr **head = bucket(request_id), *s = NULL;

	if (n[kind] < (kind == SIDR_OURS ? MAX_OURS : MAX_ASKED))
		s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->ends = *ends;
	s->request_id = request_id;
	s->kind = kind;
	s->number = (uint64_t)++last_number << 32 | request_id;
	s->give_up_ns = sr_now_ns() + PATIENCE_MS * MS;
	s->next = *head;
	*head = s;
	n[kind]++;
	return s;
}

static void unqueue(const struct sr_sidr *s)
{
	struct sr_sidr **p = &first_answered, *before = NULL;

	for (; *p != s; p = &before->newer)
		before = *p;
	*p = s->newer;
	if (last_answered == s)
		last_answered = before;
}

static void sidr_free(struct sr_sidr *s)
{
	struct sr_sidr **p = bucket(s->request_id);
	struct sr_cm_id *id = id_of(s);

	if (id)
		id->sidr = NULL;
	sr_timer_stop(&s->timer);
	while (*p != s)
		p = &(*p)->next;
	*p = s->next;
	if (s->kind == SIDR_ANSWERED)
		unqueue(s);
	n[s->kind]--;
	free(s);
}

/* The oldest answers make room. */
static void set_answered(struct sr_sidr *s)
{
	n[s->kind]--;
	s->kind = SIDR_ANSWERED;
	n[s->kind]++;
	if (last_answered)
		last_answered->newer = s;
	else
		first_answered = s;
	last_answered = s;
	if (n[SIDR_ANSWERED] > MAX_ANSWERED)
		sidr_free(first_answered);
}

/* ---- time ------------------------------------------------------------------------------- */

static void on_timer(uint64_t number);

static void repeat(struct sr_sidr *s)
{
	send_mad(&s->ends, s->mad);
	sr_timer_start(&s->timer, s->interval_ns, on_timer, s->number);
	s->interval_ns = s->interval_ns * 2 < LONGEST_MS * MS ? s->interval_ns * 2
							      : LONGEST_MS * MS;
}

static void fail(struct sr_sidr *s, int status)
{
	struct sr_cm_id *id = id_of(s);

	sidr_free(s);
	if (id && id->state == CM_REQ_SENT)
		sr_cm_raise_failed(id, RDMA_CM_EVENT_UNREACHABLE, status, NULL);
}

static void on_timer(uint64_t number)
{
	struct sr_sidr *s;

	pthread_mutex_lock(&sr_cm_lock);
	s = find_by_number(number);
	if (s && s->kind != SIDR_OURS)
		sidr_free(s);
	else if (s && sr_now_ns() >= s->give_up_ns)
		fail(s, -ETIMEDOUT);
	else if (s && refusals_suffice(&s->refusals))
		fail(s, -ECONNREFUSED);
	else if (s)
		repeat(s);
	pthread_mutex_unlock(&sr_cm_lock);
}

/* ---- asking ----------------------------------------------------------------------------- */

/* A random one whose answer the kernel gives to this process; 0: none. */
static uint32_t new_request_id(const struct ib_cm_ends *ends)
{
	union ibv_gid local;
	uint8_t mask, value, bytes[4];

	memcpy(local.raw, ends->local, 16);
	if (sr_gsi_comm_id_class(&local, &mask, &value) ||
	    getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		return 0;
	bytes[0] = (uint8_t)((bytes[0] & ~mask) | value);
	bytes[3] |= 1;
	return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 |
	       bytes[3];
}

static int start_request(struct sr_cm_id *id)
{
	struct ib_cm_ends ends;
	uint32_t request_id;
	struct mad m;

	sr_cm_ends(id, &ends);
	request_id = new_request_id(&ends);
	id->sidr = request_id ? sidr_new(&ends, request_id, SIDR_OURS) : NULL;
	if (!id->sidr)
		return -ENOMEM;
	id->sidr->serial = id->serial;
	id->sidr->interval_ns = FIRST_MS * MS;
	id->sidr->give_up_ns = sr_now_ns() + chaos_cm_timeout_ms(PATIENCE_MS) * MS;
	sr_cm_to_sidr_req(id, id->req, &m);
	m.tid = (uint64_t)request_id << 32 | request_id;
	m.sidr_req.request_id = request_id;
	mad_encode(&m, id->sidr->mad);
	id->state = CM_REQ_SENT;
	repeat(id->sidr);
	return 0;
}

static void request(struct sr_cm_id *id)
{
	int r = start_request(id);

	if (r)
		sr_cm_raise_failed(id, RDMA_CM_EVENT_UNREACHABLE, r, NULL);
}

static void on_answer(const struct ib_cm_ends *ends, const struct mad *m)
{
	struct sr_sidr *s = find(ends, m->sidr_rep.request_id, true);
	struct sr_cm_id *id = s ? id_of(s) : NULL;
	struct sr_cm_msg msg;

	if (!s)
		return;
	sidr_free(s);
	if (!id || id->state != CM_REQ_SENT)
		return;
	sr_cm_from_sidr_rep(m, &msg);
	if (m->sidr_rep.status)
		sr_cm_raise_failed(id, RDMA_CM_EVENT_UNREACHABLE, m->sidr_rep.status, &msg);
	else
		sr_cm_on_message(id, &msg);
}

/* ---- answering -------------------------------------------------------------------------- */

static void answer(struct sr_sidr *s, unsigned status, const struct sr_cm_msg *from)
{
	struct mad m;

	sr_cm_to_sidr_rep(from, &m);
	m.tid = s->tid;
	m.sidr_rep.request_id = s->request_id;
	m.sidr_rep.status = (uint8_t)status;
	m.sidr_rep.service_id = s->service_id;
	mad_encode(&m, s->mad);
	s->serial = 0;
	send_mad(&s->ends, s->mad);
	sr_timer_start(&s->timer, PATIENCE_MS * MS, on_timer, s->number);
	set_answered(s);
}

/* Nothing is kept: the answer to a copy is the same. */
static void refuse(const struct ib_cm_ends *ends, const struct mad *question)
{
	const struct sr_cm_msg none = {0};
	uint8_t bytes[MAD_BYTES];
	struct mad m;

	sr_cm_to_sidr_rep(&none, &m);
	m.tid = question->tid;
	m.sidr_rep.request_id = question->sidr_req.request_id;
	m.sidr_rep.status = CM_SIDR_NO_LISTENER;
	m.sidr_rep.service_id = question->sidr_req.service_id;
	mad_encode(&m, bytes);
	send_mad(ends, bytes);
}

static int send_message(struct sr_cm_id *id, struct sr_cm_msg *m)
{
	struct sr_sidr *s = id->sidr;

	if (!s || s->kind != SIDR_ASKED || (m->type != CM_MSG_REP && m->type != CM_MSG_REJ))
		return -EINVAL;
	id->sidr = NULL;
	answer(s, m->type == CM_MSG_REP ? 0 : CM_SIDR_REJECTED, m);
	return 0;
}

static void leave(struct sr_cm_id *id)
{
	struct sr_cm_msg none = {.type = CM_MSG_REJ};

	if (id->sidr && id->sidr->kind == SIDR_OURS)
		sidr_free(id->sidr);
	else if (id->sidr)
		send_message(id, &none);
}

static void established(struct sr_cm_id *id)
{
}

const struct sr_cm_way sr_cm_by_sidr = {
	.request = request,
	.send = send_message,
	.established = established,
	.leave = leave,
	.keeps_time = true,
	.ack_timeout = 17,
};

/* An id for the question, as a new request of its listener. 0, or the status that refuses it. */
static unsigned take_request(struct sr_sidr *s, uint64_t listener, const struct mad *m)
{
	uint64_t number = s->number;
	struct ib_cm_ends ends = s->ends;
	struct sr_cm_id *child;
	struct sr_cm_msg msg;

	if (sr_cm_from_sidr_req(m, &ends, &msg))
		return CM_SIDR_REJECTED;
	pthread_mutex_unlock(&sr_cm_lock);
	child = sr_cm_new(NULL, NULL, RDMA_PS_UDP, &sr_cm_by_sidr);
	pthread_mutex_lock(&sr_cm_lock);
	s = find(&ends, m->sidr_req.request_id, false);
	if (!child || !s || s->number != number || sr_cm_on_request(child, listener, &msg)) {
		if (child)
			sr_cm_free(child);
		return CM_SIDR_REJECTED;
	}
	child->sidr = s;
	s->serial = child->serial;
	return 0;
}

static bool others_listen(const struct ib_cm_ends *ends, const struct mad *m)
{
	union ibv_gid local;

	memcpy(local.raw, ends->local, 16);
	return sr_gsi_others_listen(&local, RDMA_PS_UDP, MAD_PORT(m->sidr_req.service_id));
}

static void on_question(const struct ib_cm_ends *ends, const struct mad *m)
{
	const struct sr_cm_msg none = {0};
	uint64_t service = m->sidr_req.service_id, listener = 0;
	struct sr_sidr *s = find(ends, m->sidr_req.request_id, false);
	unsigned status;

	if (s) { /* repeated */
		if (s->kind == SIDR_ANSWERED)
			send_mad(&s->ends, s->mad);
		return;
	}
	if (MAD_RDMA_PS(service) == RDMA_PS_UDP && !(service >> 32))
		listener = sr_cm_find_mad_listener(ends->local, RDMA_PS_UDP, MAD_PORT(service));
	if (!listener) {
		if (!others_listen(ends, m)) /* else the next copy goes there */
			refuse(ends, m);
		return;
	}
	s = sidr_new(ends, m->sidr_req.request_id, SIDR_ASKED);
	if (!s)
		return;
	s->tid = m->tid;
	s->service_id = service;
	sr_timer_start(&s->timer, PATIENCE_MS * MS, on_timer, s->number);
	status = take_request(s, listener, m);
	s = status ? find(ends, m->sidr_req.request_id, false) : NULL;
	if (s)
		answer(s, status, &none);
}

void sr_cm_on_sidr(const struct ib_cm_ends *ends, const struct mad *m)
{
	if (m->type == MAD_SIDR_REQ)
		on_question(ends, m);
	else
		on_answer(ends, m);
}

void sr_cm_sidr_unreachable(const struct ib_cm_ends *ends)
{
	for (unsigned i = 0; i < N_BUCKETS; i++)
		for (struct sr_sidr *s = buckets[i]; s; s = s->next)
			if (s->kind == SIDR_OURS && !memcmp(&s->ends, ends, sizeof(*ends)))
				refusals_add(&s->refusals);
}

/* A forked child has no questions: their ids and timers are the parent's. */
static void forget(void)
{
	memset(buckets, 0, sizeof(buckets));
	memset(n, 0, sizeof(n));
	first_answered = last_answered = NULL;
}

static const struct sr_part part = {.forget = forget};
SR_PART(part);
