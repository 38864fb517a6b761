/* SPDX-License-Identifier: BSD-3-Clause */
/* See sim_fabric.h: connections, and the ends of programs. */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/check.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_fabric_internal.h"
#include "transport/wire/rdma_cm.h"

enum {
	LINKS = 256,
	EVENTS = 512,
	LISTENERS = 4,
	NEWS = 512,
	REASON_NO_LISTENER = 8,
	REASON_CONSUMER = 28,
	FLUSHED = 5,
	UNREACHABLE_US = 900000,
};

enum event_kind {
	EVENT_RESOLVED,
	EVENT_REQUEST,
	EVENT_ESTABLISHED,
	EVENT_FAILED,
	EVENT_DISCONNECTED,
};

/* What a program hears of its connection manager, and what is on its way there. */
struct news {
	bool is_used;
	enum event_kind kind;
	struct side *side; /* of the program that hears it */
	unsigned life;	   /* of its connection */
	struct cm_error error;
	uint8_t bytes[CM_PRIVATE_MAX];
	size_t n;
};

struct cm {
	struct loop *control;
	struct loop_source source;
	enum fabric_program program;
	struct news events[EVENTS];
	unsigned first, n;
};

static struct {
	struct link {
		struct side sides[FABRIC_PROGRAMS];
		bool is_used;
	} links[LINKS];
	struct cm_listener *listeners[LISTENERS];
	struct news news[NEWS];
	struct cm *cms[FABRIC_PROGRAMS];
	uint64_t cut_until[SIM_PATHS];
	bool is_down[FABRIC_PROGRAMS];
} net;

/* ---- links ---------------------------------------------------------------------------------- */

static struct link *new_link(unsigned path)
{
	unsigned i = 0;
	struct link *link;

	while (net.links[i].is_used)
		check(++i < LINKS);
	link = &net.links[i];
	link->is_used = true;
	for (unsigned p = 0; p < FABRIC_PROGRAMS; p++) {
		struct side *side = &link->sides[p];

		*side = (struct side){.program = p,
				      .path = path,
				      .peer = &link->sides[!p],
				      .life = side->life + 1,
				      .conn_life = side->conn_life + 1};
	}
	return link;
}

static struct link *link_of(struct side *side)
{
	return container_of(side, struct link, sides[side->program]);
}

void side_put(struct side *side)
{
	const struct side *peer = side->peer;

	if (!side->qp && !side->conn && !peer->qp && !peer->conn)
		link_of(side)->is_used = false;
}

bool sides_are_gone(void)
{
	for (unsigned i = 0; i < LINKS; i++)
		if (net.links[i].is_used)
			return false;
	return true;
}

uint64_t fabric_cut_until(unsigned path)
{
	return net.cut_until[path];
}

static bool is_cut(unsigned path)
{
	return net.cut_until[path] > sim_now();
}

void fabric_cut(unsigned path, uint64_t ns)
{
	net.cut_until[path] = ns ? sim_now() + ns : 0;
}

/* ---- news ----------------------------------------------------------------------------------- */

static void on_news(unsigned what)
{
	struct news *news = &net.news[what];
	struct side *side = news->side;
	struct cm *cm = net.cms[side->program];

	news->is_used = false;
	if (side->conn_life != news->life || !cm || side->is_dead)
		return;
	check(cm->n < EVENTS);
	cm->events[(cm->first + cm->n++) % EVENTS] = *news;
}

/* Under way to that side. */
static struct news *tell(struct side *side, enum event_kind kind, uint64_t after_ns)
{
	unsigned i = 0;

	while (net.news[i].is_used)
		check(++i < NEWS);
	net.news[i] = (struct news){
		.is_used = true, .kind = kind, .side = side, .life = side->conn_life};
	sim_after(after_ns, on_news, i);
	return &net.news[i];
}

static void tell_failed(struct side *side, enum cm_failure failure, int reason, uint64_t after_ns)
{
	struct news *news = tell(side, EVENT_FAILED, after_ns);

	news->error = (struct cm_error){.failure = failure, .reason = reason};
}

static struct cm_conn *new_conn(struct cm *cm, struct side *side)
{
	struct cm_conn *conn = calloc(1, sizeof(*conn));

	check(conn);
	conn->cm = cm;
	conn->id = (struct rdma_cm_id *)(void *)side;
	conn->device = fabric_device();
	conn->local.sa.sa_family = conn->remote.sa.sa_family = AF_INET;
	side->conn = conn;
	side->cm = cm;
	return conn;
}

static void on_request(const struct news *news)
{
	struct side *side = news->side;
	struct cm_listener *listener = net.listeners[side->path];
	struct cm_request request = {.private_data = news->bytes,
				     .n_private = news->n,
				     .initiator_depth = 2,
				     .responder_resources = 2};

	if (!listener) {
		if (!side->peer->is_raw)
			tell_failed(side->peer, CM_REJECTED, REASON_NO_LISTENER,
				    sim_between_us(5, 200));
		return;
	}
	listener->on_request(listener, new_conn(listener->cm, side), &request);
}

static void take(const struct news *news)
{
	struct cm_conn *conn = news->side->conn;

	if (news->side->conn_life != news->life)
		return;
	if (news->kind == EVENT_REQUEST) {
		on_request(news);
		return;
	}
	if (!conn || conn->has_failed || conn->is_disconnected)
		return;
	switch (news->kind) {
	case EVENT_RESOLVED:
		conn->ops->on_resolved(conn);
		return;
	case EVENT_ESTABLISHED:
		conn->ops->on_established(conn, news->bytes, news->n);
		return;
	case EVENT_FAILED:
		conn->has_failed = true;
		conn->ops->on_failed(conn, &news->error);
		return;
	default:
		conn->is_disconnected = true;
		conn->ops->on_disconnected(conn);
	}
}

static unsigned poll_cm(struct loop_source *source)
{
	struct cm *cm = container_of(source, struct cm, source);
	unsigned n = cm->n;

	for (unsigned i = 0; i < n; i++) {
		struct news news = cm->events[cm->first];

		cm->first = (cm->first + 1) % EVENTS;
		cm->n--;
		take(&news);
	}
	return n;
}

bool fabric_has_work(enum fabric_program program)
{
	return (net.cms[program] && net.cms[program]->n) || fabric_has_entries(program);
}

/* ---- cm.h ----------------------------------------------------------------------------------- */

int cm_new(struct loop *control, struct cm **ret_cm)
{
	struct cm *cm = calloc(1, sizeof(*cm));

	check(cm);
	cm->control = control;
	cm->source.poll = poll_cm;
	loop_source_add(control, &cm->source);
	net.cms[FABRIC_HOST] = net.cms[FABRIC_HOST] ?: cm;
	*ret_cm = cm;
	return 0;
}

void cm_free(struct cm *cm)
{
	if (!cm)
		return;
	for (unsigned i = 0; i < FABRIC_PROGRAMS; i++)
		if (net.cms[i] == cm)
			net.cms[i] = NULL;
	loop_source_remove(&cm->source);
	free(cm);
}

struct loop *cm_control_loop(const struct rdma_cm_id *id)
{
	return ((const struct side *)(const void *)id)->cm->control;
}

static unsigned path_of(const union addr *address)
{
	return (ntohl(address->in.sin_addr.s_addr) - 1) % SIM_PATHS;
}

/* The program that listens is the target. */
int cm_listen(struct cm *cm, const union addr *address, int backlog, struct cm_listener *listener)
{
	if (net.cms[FABRIC_HOST] == cm)
		net.cms[FABRIC_HOST] = NULL;
	net.cms[FABRIC_TARGET] = cm;
	listener->cm = cm;
	listener->device = fabric_device();
	listener->address = *address;
	net.listeners[path_of(address)] = listener;
	return 0;
}

void cm_listener_close(struct cm_listener *listener)
{
	for (unsigned i = 0; i < LISTENERS; i++)
		if (net.listeners[i] == listener)
			net.listeners[i] = NULL;
}

int cm_resolve(struct cm *cm, const union addr *destination, const union addr *source,
	       unsigned timeout_ms, const struct cm_conn_ops *ops, void *context,
	       struct cm_conn **ret_conn)
{
	struct side *side = &new_link(path_of(destination))->sides[FABRIC_HOST];
	struct cm_conn *conn = new_conn(cm, side);

	conn->ops = ops;
	conn->context = context;
	tell(side, EVENT_RESOLVED, sim_between_us(2, 50));
	*ret_conn = conn;
	return 0;
}

int cm_connect(struct cm_conn *conn, const void *private_data, size_t n,
	       unsigned responder_resources)
{
	struct side *side = (struct side *)(void *)conn->id;
	struct news *news;

	check(n <= CM_PRIVATE_MAX);
	if (is_cut(side->path) || (net.is_down[FABRIC_TARGET] && sim_chance(50))) {
		tell_failed(side, CM_UNREACHABLE, 0, sim_between_us(100000, UNREACHABLE_US));
		return 0;
	}
	if (net.is_down[FABRIC_TARGET] || !net.listeners[side->path]) {
		tell_failed(side, CM_REJECTED, REASON_NO_LISTENER, sim_between_us(10, 400));
		return 0;
	}
	news = tell(side->peer, EVENT_REQUEST, sim_between_us(5, 300));
	memcpy(news->bytes, private_data, n);
	news->n = n;
	return 0;
}

int cm_accept(struct cm_conn *conn, const void *private_data, size_t n, unsigned initiator_depth)
{
	struct side *side = (struct side *)(void *)conn->id;
	struct news *news;

	if (side->peer->is_raw)
		return 0;
	if (!side->peer->conn || is_cut(side->path)) {
		tell(side, EVENT_DISCONNECTED, sim_between_us(10, 300000));
		return 0;
	}
	news = tell(side->peer, EVENT_ESTABLISHED, sim_between_us(5, 300));
	memcpy(news->bytes, private_data, n);
	news->n = n;
	return 0;
}

void cm_reject(struct cm_conn *conn, const void *private_data, size_t n)
{
	struct side *side = (struct side *)(void *)conn->id;
	struct nvmf_cm_rej rej;
	struct news *news;

	if (!side->peer->is_raw) {
		news = tell(side->peer, EVENT_FAILED, sim_between_us(5, 300));
		news->error = (struct cm_error){.failure = CM_REJECTED,
						.reason = REASON_CONSUMER};
		if (n >= sizeof(rej)) {
			memcpy(&rej, private_data, sizeof(rej));
			news->error.nvmf_status = get_le16(rej.sts);
		}
	}
	cm_conn_destroy(conn);
}

const char *cm_removed_device(const struct cm_conn *conn)
{
	return NULL;
}

/* The peer hears of it soon, late, or never. */
static void tell_peer(struct side *side)
{
	struct side *peer = side->peer;

	if (peer->is_raw || side->is_dead || is_cut(side->path) || sim_chance(20))
		return;
	tell(peer, EVENT_DISCONNECTED,
	     sim_chance(10) ? sim_between_us(1000, 500000) : sim_between_us(5, 500));
}

void cm_disconnect(struct cm_conn *conn)
{
	struct side *side = (struct side *)(void *)conn->id;

	if (conn->is_disconnected)
		return;
	conn->is_disconnected = true;
	side_break(side, FLUSHED);
	tell_peer(side);
}

void cm_conn_destroy(struct cm_conn *conn)
{
	struct side *side;

	if (!conn)
		return;
	side = (struct side *)(void *)conn->id;
	if (!conn->is_disconnected && !conn->has_failed)
		tell_peer(side);
	side->conn = NULL;
	side->conn_life++;
	side_put(side);
	free(conn);
}

void cm_notify_established(struct cm_conn *conn)
{
}

/* ---- programs ------------------------------------------------------------------------------- */

/* It has to give back what it has. */
static void tell_now(struct side *side)
{
	struct cm *cm = net.cms[side->program];

	check(cm->n < EVENTS);
	cm->events[(cm->first + cm->n++) % EVENTS] = (struct news){
		.kind = EVENT_DISCONNECTED, .side = side, .life = side->conn_life};
}

static void kill_side(struct side *side, bool is_machine_down)
{
	if (is_machine_down)
		side->is_dead = true; /* before the flush: nothing travels on */
	if (side->qp && side->qp->state == QP_LIVE)
		side_flush(side);
	side_break(side, FLUSHED);
	if (!is_machine_down && side->conn && !side->conn->is_disconnected)
		tell_peer(side);
	if (side->conn && side->conn->ops)
		tell_now(side);
	side->is_dead = true;
}

void fabric_kill(enum fabric_program program, bool is_machine_down)
{
	net.is_down[program] = true;
	for (unsigned i = 0; i < LINKS; i++)
		if (net.links[i].is_used)
			kill_side(&net.links[i].sides[program], is_machine_down);
}

void fabric_revive(enum fabric_program program)
{
	net.is_down[program] = false;
}

bool fabric_break_one(enum fabric_program program)
{
	unsigned first = sim_dice(LINKS);

	for (unsigned i = 0; i < LINKS; i++) {
		struct link *link = &net.links[(first + i) % LINKS];
		struct side *side = &link->sides[program];

		if (!link->is_used || !side->qp || side->qp->state != QP_LIVE || side->is_dead)
			continue;
		side_break(side, 12);
		return true;
	}
	return false;
}

void fabric_begin(void)
{
	memset(net.cut_until, 0, sizeof(net.cut_until));
	memset(net.is_down, 0, sizeof(net.is_down));
	memset(net.news, 0, sizeof(net.news));
	fabric_forget();
}

void fabric_raw_connect(unsigned path, const void *private_data, size_t n)
{
	struct link *link = new_link(path);
	struct news news = {.side = &link->sides[FABRIC_TARGET],
			    .life = link->sides[FABRIC_TARGET].conn_life,
			    .n = n};

	link->sides[FABRIC_HOST].is_raw = true;
	memcpy(news.bytes, private_data, n);
	on_request(&news);
}
