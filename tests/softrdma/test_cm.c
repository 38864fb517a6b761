/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The connection manager. Sources: the rdma_*(3) man pages; sizes of private data and
 * their padding: IBA 12.6 (REQ 92 - 36 bytes of rdma_cm's own, REP 196, REJ 148);
 * reject reasons: IBA table 99; both-side effects: kernel's cma.c and ib_cm.
 */
#include "rig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct conn {
	struct rdma_event_channel *ch_s, *ch_c; /* of the server and of the client */
	struct rdma_cm_id *listener, *server, *client;
	struct rdma_cm_event *req, *event;
};

static struct conn c;

static struct sockaddr_in v4(const char *ip, uint16_t port)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons(port)};

	inet_pton(AF_INET, ip, &sin.sin_addr);
	return sin;
}

static struct rdma_cm_event *next(struct rdma_event_channel *ch, enum rdma_cm_event_type type,
				  int status)
{
	struct pollfd p = {.fd = ch->fd, .events = POLLIN};
	struct rdma_cm_event *e = NULL;

	assert_int_equal(poll(&p, 1, RIG_PATIENCE_MS), 1);
	assert_int_equal(rdma_get_cm_event(ch, &e), 0);
	if (e->event != type)
		print_message("event %s\n", rdma_event_str(e->event));
	assert_int_equal(e->event, type);
	assert_int_equal(e->status, status);
	return e;
}

static void expect(struct rdma_event_channel *ch, enum rdma_cm_event_type type, int status)
{
	rdma_ack_cm_event(next(ch, type, status));
}

static void expect_none_now(struct rdma_event_channel *ch)
{
	struct pollfd p = {.fd = ch->fd, .events = POLLIN};

	assert_int_equal(poll(&p, 1, 0), 0);
}

static void resolve(struct rdma_cm_id *id, struct rdma_event_channel *ch, void *dst)
{
	assert_int_equal(rdma_resolve_addr(id, NULL, dst, 1000), 0);
	expect(ch, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	assert_int_equal(rdma_resolve_route(id, 1000), 0);
	expect(ch, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
}

static void make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init = {.cap = {8, 8, 1, 1, 0}, .qp_type = IBV_QPT_RC};

	assert_int_equal(rdma_create_qp(id, NULL, &init), 0);
}

static void server_up(const char *ip)
{
	struct sockaddr_in sin = v4(ip, 0);

	assert_int_equal(rdma_create_id(c.ch_s, &c.listener, &c, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(c.listener, (struct sockaddr *)&sin), 0);
	assert_int_not_equal(rdma_get_src_port(c.listener), 0);
	assert_int_equal(rdma_listen(c.listener, 4), 0);
}

static void client_up(void)
{
	struct sockaddr_in dst = v4("127.0.0.1", ntohs(rdma_get_src_port(c.listener)));

	assert_int_equal(rdma_create_id(c.ch_c, &c.client, NULL, RDMA_PS_TCP), 0);
	resolve(c.client, c.ch_c, &dst);
	make_qp(c.client);
}

static int cm_setup(void **state)
{
	memset(&c, 0, sizeof(c));
	c.ch_s = rdma_create_event_channel();
	c.ch_c = rdma_create_event_channel();
	server_up("127.0.0.1");
	client_up();
	return 0;
}

static void drop_id(struct rdma_cm_id **id)
{
	if (!*id)
		return;
	if ((*id)->qp)
		rdma_destroy_qp(*id);
	assert_int_equal(rdma_destroy_id(*id), 0);
	*id = NULL;
}

static int cm_teardown(void **state)
{
	if (c.req)
		rdma_ack_cm_event(c.req);
	drop_id(&c.server);
	drop_id(&c.client);
	drop_id(&c.listener);
	rdma_destroy_event_channel(c.ch_s);
	rdma_destroy_event_channel(c.ch_c);
	return 0;
}

/* That all messages and calls so far have no more events. The thread that raises them takes what it
 * is told in order: those of a connection that begins now would come behind them. */
static void expect_no_more(void)
{
	struct sockaddr_in dst = v4("127.0.0.1", ntohs(rdma_get_src_port(c.listener)));
	struct rdma_cm_id *later, *child;
	struct rdma_cm_event *e;

	assert_int_equal(rdma_create_id(c.ch_c, &later, NULL, RDMA_PS_TCP), 0);
	resolve(later, c.ch_c, &dst);
	assert_int_equal(rdma_connect(later, NULL), 0);
	e = next(c.ch_s, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	child = e->id;
	rdma_ack_cm_event(e);
	assert_int_equal(rdma_reject(child, NULL, 0), 0);
	e = next(c.ch_c, RDMA_CM_EVENT_REJECTED, 28);
	assert_ptr_equal(e->id, later);
	rdma_ack_cm_event(e);
	drop_id(&child);
	drop_id(&later);
	expect_none_now(c.ch_s);
	expect_none_now(c.ch_c);
}

static void request(struct rdma_conn_param *p)
{
	assert_int_equal(rdma_connect(c.client, p), 0);
	c.req = next(c.ch_s, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	c.server = c.req->id;
	assert_ptr_equal(c.req->listen_id, c.listener);
	assert_ptr_equal(c.server->context, &c);
	assert_ptr_equal(c.server->channel, c.ch_s);
	assert_non_null(c.server->verbs);
}

static void establish(void)
{
	request(NULL);
	make_qp(c.server);
	assert_int_equal(rdma_accept(c.server, NULL), 0);
	expect(c.ch_c, RDMA_CM_EVENT_ESTABLISHED, 0);
	expect(c.ch_s, RDMA_CM_EVENT_ESTABLISHED, 0);
}

/* rdma_disconnect(3); its own QP to ERR, then DREQ and DREP: the kernel's rdma_disconnect(). */
static void connects_and_disconnects(void **state)
{
	establish();
	assert_int_equal(state_of(c.client->qp), IBV_QPS_RTS);
	assert_int_equal(state_of(c.server->qp), IBV_QPS_RTS);
	assert_int_equal(rdma_disconnect(c.client), 0);
	assert_int_equal(state_of(c.client->qp), IBV_QPS_ERR); /* before anything else */
	expect(c.ch_s, RDMA_CM_EVENT_DISCONNECTED, 0);
	expect_no_more(); /* the server has not answered yet */
	assert_int_equal(rdma_disconnect(c.server), 0);
	expect(c.ch_c, RDMA_CM_EVENT_DISCONNECTED, 0);
	expect(c.ch_s, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	expect(c.ch_c, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	assert_int_equal(rdma_disconnect(c.client), 0);
	expect_no_more();
}

/* IBA 12.9.6: a DREQ that meets a DREQ ends the connection for both, once. */
static void both_disconnect_at_once(void **state)
{
	establish();
	assert_int_equal(rdma_disconnect(c.client), 0);
	assert_int_equal(rdma_disconnect(c.server), 0);
	expect(c.ch_s, RDMA_CM_EVENT_DISCONNECTED, 0);
	expect(c.ch_c, RDMA_CM_EVENT_DISCONNECTED, 0);
	expect(c.ch_s, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	expect(c.ch_c, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
}

/* IBA 12.9.6: without a DREP the DREQ's time-outs end it. */
static void silent_peer_is_given_up(void **state)
{
	establish();
	assert_int_equal(rdma_disconnect(c.client), 0);
	expect(c.ch_c, RDMA_CM_EVENT_DISCONNECTED, 0); /* after a while */
}

/* rdma_destroy_id(3): the kernel's ib_destroy_cm_id() sends the DREQ. */
static void destroying_disconnects_the_peer(void **state)
{
	establish();
	drop_id(&c.client);
	expect(c.ch_s, RDMA_CM_EVENT_DISCONNECTED, 0);
	expect_no_more();
	assert_int_equal(state_of(c.server->qp), IBV_QPS_RTS); /* the application's to end */
}

/* IBA 12.6.5 and .8: the fields have one size, and so has the event's private data. */
static void private_data_is_padded(void **state)
{
	static const uint8_t zeros[256];
	struct rdma_conn_param p = {.private_data = "hello", .private_data_len = 6};
	struct rdma_cm_event *e;

	request(&p);
	assert_int_equal(c.req->param.conn.private_data_len, 56);
	assert_string_equal(c.req->param.conn.private_data, "hello");
	assert_memory_equal((const uint8_t *)c.req->param.conn.private_data + 6, zeros, 50);
	make_qp(c.server);
	p.private_data = "welcome";
	p.private_data_len = 8;
	assert_int_equal(rdma_accept(c.server, &p), 0);
	e = next(c.ch_c, RDMA_CM_EVENT_ESTABLISHED, 0);
	assert_int_equal(e->param.conn.private_data_len, 196);
	assert_string_equal(e->param.conn.private_data, "welcome");
	rdma_ack_cm_event(e);
}

/* rdma_connect(3), rdma_accept(3), rdma_reject(3): how much there may be. */
static void private_data_limits(void **state)
{
	static const uint8_t much[200];
	struct rdma_conn_param p = {.private_data = much, .private_data_len = 57};

	assert_int_equal(rdma_connect(c.client, &p), -1);
	assert_int_equal(errno, EINVAL);
	p.private_data_len = 56;
	request(&p);
	make_qp(c.server);
	p.private_data_len = 197;
	assert_int_equal(rdma_accept(c.server, &p), -1);
	assert_int_equal(rdma_reject(c.server, much, 149), -1);
	assert_int_equal(rdma_reject(c.server, much, 148), 0);
	expect(c.ch_c, RDMA_CM_EVENT_REJECTED, 28);
}

/* IBA table 99: 28 = rejected by the consumer, with its private data. */
static void rejected_by_consumer(void **state)
{
	struct rdma_cm_event *e;

	request(NULL);
	assert_int_equal(rdma_reject(c.server, "no", 3), 0);
	e = next(c.ch_c, RDMA_CM_EVENT_REJECTED, 28);
	assert_int_equal(e->param.conn.private_data_len, 148);
	assert_string_equal(e->param.conn.private_data, "no");
	rdma_ack_cm_event(e);
	assert_int_equal(state_of(c.client->qp), IBV_QPS_ERR);
	assert_int_equal(rdma_accept(c.server, NULL), -1);
}

/* 8 = invalid service id: no listener. */
static void no_listener(void **state)
{
	drop_id(&c.listener);
	assert_int_equal(rdma_connect(c.client, NULL), 0);
	expect(c.ch_c, RDMA_CM_EVENT_REJECTED, 8);
	server_up("127.0.0.1");
}

/* The same for an id that is bound only: rdma_listen(3). */
static void bound_is_not_listening(void **state)
{
	struct rdma_cm_id *bound, *id;
	struct sockaddr_in sin = v4("127.0.0.1", 0);

	assert_int_equal(rdma_create_id(c.ch_s, &bound, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(bound, (struct sockaddr *)&sin), 0);
	sin.sin_port = rdma_get_src_port(bound);
	assert_int_equal(rdma_create_id(c.ch_c, &id, NULL, RDMA_PS_TCP), 0);
	resolve(id, c.ch_c, &sin);
	make_qp(id);
	assert_int_equal(rdma_connect(id, NULL), 0);
	expect(c.ch_c, RDMA_CM_EVENT_REJECTED, 8);
	drop_id(&id);
	drop_id(&bound);
}

/* The kernel's ib_destroy_cm_id() of a request: a REJ by the consumer. */
static void destroyed_request_is_rejected(void **state)
{
	request(NULL);
	rdma_ack_cm_event(c.req);
	c.req = NULL;
	drop_id(&c.server);
	expect(c.ch_c, RDMA_CM_EVENT_REJECTED, 28);
}

/* A request that was not fetched goes with its listener. */
static void unfetched_request_is_rejected(void **state)
{
	struct pollfd p = {.fd = c.ch_s->fd, .events = POLLIN};

	assert_int_equal(rdma_connect(c.client, NULL), 0);
	assert_int_equal(poll(&p, 1, RIG_PATIENCE_MS), 1);
	drop_id(&c.listener);
	expect(c.ch_c, RDMA_CM_EVENT_REJECTED, 28);
	expect_none_now(c.ch_s);
	server_up("127.0.0.1");
}

/* rdma_resolve_addr(3): RDMA_CM_EVENT_ADDR_ERROR, with the reason as status. */
static void remote_addresses_do_not_resolve(void **state)
{
	struct sockaddr_in far = v4("203.0.113.7", 4420);
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(c.ch_c, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&far, 1000), 0);
	expect(c.ch_c, RDMA_CM_EVENT_ADDR_ERROR, -EHOSTUNREACH);
	assert_int_equal(rdma_connect(id, NULL), -1);
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&far), -1);
	assert_int_equal(errno, EADDRNOTAVAIL);
	drop_id(&id);
}

/* rdma_accept(3): what one side offers as responder the other sees as what it may initiate. */
static void depths_are_swapped(void **state)
{
	struct rdma_conn_param p = {.responder_resources = 3, .initiator_depth = 5};
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	request(&p);
	assert_int_equal(c.req->param.conn.responder_resources, 5);
	assert_int_equal(c.req->param.conn.initiator_depth, 3);
	make_qp(c.server);
	p = (struct rdma_conn_param){.responder_resources = 2, .initiator_depth = 1};
	assert_int_equal(rdma_accept(c.server, &p), 0);
	ibv_query_qp(c.server->qp, &attr, 0, &init);
	assert_int_equal(attr.max_dest_rd_atomic, 2);
	assert_int_equal(attr.max_rd_atomic, 1);
	expect(c.ch_c, RDMA_CM_EVENT_ESTABLISHED, 0);
	ibv_query_qp(c.client->qp, &attr, 0, &init);
	assert_int_equal(attr.max_rd_atomic, 2);
	assert_int_equal(attr.max_dest_rd_atomic, 1);
}

/* rdma_connect(3): no more than the device has; 255 asks for the most. */
static void depths_are_checked(void **state)
{
	struct rdma_conn_param p = {.responder_resources = 17};

	assert_int_equal(rdma_connect(c.client, &p), -1);
	assert_int_equal(errno, EINVAL);
	p.responder_resources = RDMA_MAX_RESP_RES;
	p.initiator_depth = RDMA_MAX_INIT_DEPTH;
	request(&p);
	assert_int_equal(c.req->param.conn.responder_resources, 16);
	assert_int_equal(c.req->param.conn.initiator_depth, 16);
}

/* rdma_accept(3), rnr_retry_count: how often the sender retries is what this side granted. */
static void rnr_retries_come_from_the_peer(void **state)
{
	struct rdma_conn_param p = {.rnr_retry_count = 3, .retry_count = 5};
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	request(&p);
	make_qp(c.server);
	p.rnr_retry_count = 6;
	assert_int_equal(rdma_accept(c.server, &p), 0);
	expect(c.ch_c, RDMA_CM_EVENT_ESTABLISHED, 0);
	ibv_query_qp(c.server->qp, &attr, 0, &init);
	assert_int_equal(attr.rnr_retry, 3);
	assert_int_equal(attr.retry_cnt, 5);
	ibv_query_qp(c.client->qp, &attr, 0, &init);
	assert_int_equal(attr.rnr_retry, 6);
	assert_int_equal(attr.retry_cnt, 5);
}

/* rdma_listen(3): more unanswered requests than the backlog are rejected. */
static void backlog(void **state)
{
	struct rdma_cm_id *id[7];
	struct sockaddr_in dst = v4("127.0.0.1", ntohs(rdma_get_src_port(c.listener)));

	for (unsigned i = 0; i < n_of(id); i++) {
		assert_int_equal(rdma_create_id(c.ch_c, &id[i], NULL, RDMA_PS_TCP), 0);
		resolve(id[i], c.ch_c, &dst);
		make_qp(id[i]);
	}
	for (unsigned i = 0; i < n_of(id); i++)
		assert_int_equal(rdma_connect(id[i], NULL), 0);
	for (unsigned i = 4; i < n_of(id); i++) { /* in order: so these, and none before them */
		struct rdma_cm_event *e = next(c.ch_c, RDMA_CM_EVENT_REJECTED, 28);

		assert_ptr_equal(e->id, id[i]);
		rdma_ack_cm_event(e);
	}
	for (unsigned i = 0; i < n_of(id); i++)
		drop_id(&id[i]);
	for (int i = 0; i < 4; i++) {
		struct rdma_cm_event *e = next(c.ch_s, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
		struct rdma_cm_id *child = e->id;

		rdma_ack_cm_event(e);
		drop_id(&child);
	}
}

/* ---- addresses ------------------------------------------------------------------ */

/* rdma_bind_addr(3), as bind(2): one id for an address and port. */
static void ports_are_exclusive(void **state)
{
	struct sockaddr_in same = v4("127.0.0.1", ntohs(rdma_get_src_port(c.listener)));
	struct sockaddr_in any = v4("0.0.0.0", ntohs(rdma_get_src_port(c.listener)));
	struct sockaddr_in other = v4("127.0.0.2", ntohs(rdma_get_src_port(c.listener)));
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(c.ch_c, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&same), -1);
	assert_int_equal(errno, EADDRINUSE);
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&any), -1);
	assert_int_equal(errno, EADDRINUSE);
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&other), 0);
	drop_id(&id);
	drop_id(&c.listener); /* the port is free again at once */
	assert_int_equal(rdma_create_id(c.ch_s, &c.listener, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(c.listener, (struct sockaddr *)&any), 0);
}

static void connect_to(struct rdma_cm_id *listener, void *dst)
{
	struct rdma_cm_id *id, *child;
	struct rdma_cm_event *e;

	assert_int_equal(rdma_create_id(c.ch_c, &id, NULL, RDMA_PS_TCP), 0);
	resolve(id, c.ch_c, dst);
	make_qp(id);
	assert_int_equal(rdma_connect(id, NULL), 0);
	e = next(c.ch_s, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	assert_ptr_equal(e->listen_id, listener);
	assert_int_equal(rdma_get_local_addr(e->id)->sa_family,
			 ((struct sockaddr *)dst)->sa_family);
	assert_int_equal(rdma_get_src_port(e->id), rdma_get_src_port(listener));
	assert_int_equal(rdma_get_dst_port(e->id), rdma_get_src_port(id));
	child = e->id;
	rdma_ack_cm_event(e);
	drop_id(&child);
	expect(c.ch_c, RDMA_CM_EVENT_REJECTED, 28);
	drop_id(&id);
}

/* rdma_listen(3), and the kernel's cma_check_port(): families apart by AFONLY. */
static void wildcard_listeners(void **state)
{
	struct sockaddr_in6 any6 = {.sin6_family = AF_INET6};
	struct sockaddr_in6 lo6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	struct sockaddr_in any4 = v4("0.0.0.0", 0), dst;
	struct rdma_cm_id *l4, *l6;
	int yes = 1;

	assert_int_equal(rdma_create_id(c.ch_s, &l4, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(l4, (struct sockaddr *)&any4), 0);
	assert_null(l4->verbs); /* which device is not known yet */
	assert_int_equal(rdma_listen(l4, 4), 0);
	dst = v4("127.0.0.1", ntohs(rdma_get_src_port(l4)));
	connect_to(l4, &dst);
	dst = v4("127.9.9.9", ntohs(rdma_get_src_port(l4)));
	connect_to(l4, &dst);
	/* both families on the same port, if told apart; both by one, if not */
	assert_int_equal(rdma_create_id(c.ch_s, &l6, NULL, RDMA_PS_TCP), 0);
	any6.sin6_port = rdma_get_src_port(l4);
	assert_int_equal(rdma_bind_addr(l6, (struct sockaddr *)&any6), -1);
	assert_int_equal(errno, EADDRINUSE);
	assert_int_equal(
		rdma_set_option(l6, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &yes, sizeof(yes)), 0);
	assert_int_equal(rdma_bind_addr(l6, (struct sockaddr *)&any6), 0);
	assert_int_equal(rdma_listen(l6, 4), 0);
	lo6.sin6_port = rdma_get_src_port(l6);
	connect_to(l6, &lo6);
	connect_to(l4, &dst);
	drop_id(&l4);
	drop_id(&l6);
	assert_int_equal(rdma_create_id(c.ch_s, &l6, NULL, RDMA_PS_TCP), 0);
	any6.sin6_port = 0;
	assert_int_equal(rdma_bind_addr(l6, (struct sockaddr *)&any6), 0);
	assert_int_equal(rdma_listen(l6, 4), 0);
	lo6.sin6_port = dst.sin_port = rdma_get_src_port(l6);
	connect_to(l6, &lo6);
	connect_to(l6, &dst);
	drop_id(&l6);
}

/* rdma_set_option(3), and rdma_resolve_route(3) before there is an address. */
static void options_and_states(void **state)
{
	struct sockaddr_in same = v4("127.0.0.1", ntohs(rdma_get_src_port(c.listener)));
	struct sockaddr_in any = v4("0.0.0.0", ntohs(rdma_get_src_port(c.listener)));
	struct rdma_cm_id *id;
	uint8_t tos = 0x68;
	int yes = 1;

	assert_int_equal(rdma_create_id(c.ch_c, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_route(id, 1000), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof(tos)),
			 0);
	assert_int_equal(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &yes, sizeof(yes)),
			 -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_set_option(id, RDMA_OPTION_ID, 77, &yes, sizeof(yes)), -1);
	assert_int_equal(errno, ENOSYS);
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&any), -1);
	assert_int_equal(
		rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof(yes)),
		0);
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&same), -1);
	assert_int_equal(errno, EADDRINUSE); /* the very same stays taken */
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&any), 0);
	drop_id(&id);
}

/* ---- events and ids ---------------------------------------------------------------- */

/* rdma_get_cm_event(3): O_NONBLOCK of the channel. */
static void nonblocking_channel(void **state)
{
	struct rdma_cm_event *e;

	fcntl(c.ch_c->fd, F_SETFL, O_NONBLOCK);
	assert_int_equal(rdma_get_cm_event(c.ch_c, &e), -1);
	assert_int_equal(errno, EAGAIN);
}

static void destroy_client(void *client)
{
	struct rdma_cm_id *id = client;

	rdma_destroy_qp(id);
	rdma_destroy_id(id);
}

/* rdma_destroy_id(3): waits until the id's events are acknowledged. */
static void destroy_waits_for_acks(void **state)
{
	struct held_call call = {.make = destroy_client, .context = c.client};
	struct rdma_cm_event *e;

	request(NULL);
	assert_int_equal(rdma_reject(c.server, NULL, 0), 0);
	e = next(c.ch_c, RDMA_CM_EVENT_REJECTED, 28);
	c.client = NULL; /* cm_teardown has no part in it, however the call ends */
	held_call_begin(&call);
	rdma_ack_cm_event(e);
	held_call_end(&call);
}

/* rdma_migrate_id(3): the events that come after, and those not fetched yet. */
static void migrate_takes_events_along(void **state)
{
	struct rdma_event_channel *other = rdma_create_event_channel();

	request(NULL);
	assert_int_equal(rdma_migrate_id(c.server, other), 0);
	make_qp(c.server);
	assert_int_equal(rdma_accept(c.server, NULL), 0);
	expect(c.ch_c, RDMA_CM_EVENT_ESTABLISHED, 0);
	expect(other, RDMA_CM_EVENT_ESTABLISHED, 0);
	expect_none_now(c.ch_s);
	rdma_ack_cm_event(c.req);
	c.req = NULL;
	drop_id(&c.server);
	rdma_destroy_event_channel(other);
}

/* rdma_establish(3): for an own QP, CONNECT_RESPONSE comes, and the call when it is ready. */
static void own_queue_pair(void **state)
{
	struct rdma_conn_param p = {0};
	struct rdma_cm_event *e;
	struct ibv_qp *qp = c.client->qp;
	struct ibv_qp_attr attr = {0};
	int mask;

	c.client->qp = NULL;
	p.qp_num = qp->qp_num;
	request(&p);
	assert_int_equal(c.req->param.conn.qp_num, qp->qp_num);
	make_qp(c.server);
	assert_int_equal(rdma_accept(c.server, NULL), 0);
	e = next(c.ch_c, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	assert_int_equal(e->param.conn.qp_num, c.server->qp->qp_num);
	rdma_ack_cm_event(e);
	expect_no_more();
	for (enum ibv_qp_state s = IBV_QPS_RTR; s <= IBV_QPS_RTS; s++) {
		attr.qp_state = s;
		assert_int_equal(rdma_init_qp_attr(c.client, &attr, &mask), 0);
		assert_int_equal(ibv_modify_qp(qp, &attr, mask), 0);
	}
	assert_int_equal(rdma_establish(c.client), 0);
	expect(c.ch_s, RDMA_CM_EVENT_ESTABLISHED, 0);
	c.client->qp = qp;
}

static int send_one(struct rdma_cm_id *id)
{
	struct ibv_send_wr wr = {.wr_id = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	return ibv_post_send(id->qp, &wr, &bad);
}

/* Data may come before the passive side's ESTABLISHED; rdma_notify(3). */
static void notify_establishes(void **state)
{
	struct ibv_qp *qp;

	request(NULL);
	make_qp(c.server);
	assert_int_equal(rdma_accept(c.server, NULL), 0);
	assert_int_equal(rdma_notify(c.server, IBV_EVENT_COMM_EST), 0);
	expect(c.ch_s, RDMA_CM_EVENT_ESTABLISHED, 0);
	expect(c.ch_c, RDMA_CM_EVENT_ESTABLISHED, 0);
	expect_no_more(); /* once only */
	qp = c.client->qp;
	assert_int_equal(state_of(qp), IBV_QPS_RTS);
	assert_int_equal(send_one(c.client), 0);
}

/* A server that sends before the client fetched its event: the send waits. */
static void server_may_send_first(void **state)
{
	struct ibv_recv_wr rwr = {.wr_id = 2}, *rbad;

	assert_int_equal(ibv_post_recv(c.client->qp, &rwr, &rbad), 0);
	request(NULL);
	make_qp(c.server);
	assert_int_equal(rdma_accept(c.server, NULL), 0);
	assert_int_equal(send_one(c.server), 0);
	expect(c.ch_c, RDMA_CM_EVENT_ESTABLISHED, 0);
	expect_wc(c.server->send_cq, 1, IBV_WC_SUCCESS);
	expect_wc(c.client->recv_cq, 2, IBV_WC_SUCCESS);
}

/* ---- synchronous ids ---------------------------------------------------------------- */

static void *serve_one(void *arg)
{
	struct rdma_cm_id *listener = arg, *id;

	if (rdma_get_request(listener, &id) || rdma_accept(id, NULL))
		return (void *)1;
	rdma_disconnect(id);
	rdma_destroy_ep(id);
	return NULL;
}

/* rdma_create_ep(3), rdma_get_request(3): each call returns with its event in id->event. */
static void end_points(void **state)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP, .ai_flags = RAI_PASSIVE};
	struct ibv_qp_init_attr init = {.cap = {4, 4, 1, 1, 0}};
	struct rdma_addrinfo *res;
	struct rdma_cm_id *listener, *id;
	char port[8];
	pthread_t t;
	void *failed;

	assert_int_equal(rdma_getaddrinfo("127.0.0.1", "0", &hints, &res), 0);
	assert_int_equal(rdma_create_ep(&listener, res, NULL, &init), 0);
	rdma_freeaddrinfo(res);
	assert_int_equal(init.qp_type, IBV_QPT_RC);
	assert_int_equal(rdma_listen(listener, 1), 0);
	snprintf(port, sizeof(port), "%u", ntohs(rdma_get_src_port(listener)));
	pthread_create(&t, NULL, serve_one, listener);
	hints.ai_flags = 0;
	assert_int_equal(rdma_getaddrinfo("127.0.0.1", port, &hints, &res), 0);
	assert_int_equal(rdma_create_ep(&id, res, NULL, &init), 0);
	rdma_freeaddrinfo(res);
	assert_int_equal(rdma_connect(id, NULL), 0);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_ESTABLISHED);
	assert_int_equal(rdma_disconnect(id), 0);
	pthread_join(t, &failed);
	assert_null(failed);
	rdma_destroy_ep(id);
	rdma_destroy_ep(listener);
}

#define T(f) cmocka_unit_test_setup_teardown(f, cm_setup, cm_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(connects_and_disconnects),
		T(both_disconnect_at_once),
		T(silent_peer_is_given_up),
		T(destroying_disconnects_the_peer),
		T(private_data_is_padded),
		T(private_data_limits),
		T(rejected_by_consumer),
		T(no_listener),
		T(bound_is_not_listening),
		T(destroyed_request_is_rejected),
		T(unfetched_request_is_rejected),
		T(remote_addresses_do_not_resolve),
		T(depths_are_swapped),
		T(depths_are_checked),
		T(rnr_retries_come_from_the_peer),
		T(backlog),
		T(ports_are_exclusive),
		T(wildcard_listeners),
		T(options_and_states),
		T(nonblocking_channel),
		T(destroy_waits_for_acks),
		T(migrate_takes_events_along),
		T(own_queue_pair),
		T(notify_establishes),
		T(server_may_send_first),
		T(end_points),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
