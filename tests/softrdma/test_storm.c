/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers killed at random instants, and peers that kill themselves between two chosen
 * stores (SOFTRDMA_CHAOS=die=N): no other process is wedged and nothing is lost.
 *
 *   test_storm [KILLS [SEED]]       the server, which survives and checks
 *   test_storm client PORT SEED     what it spawns and kills
 *
 * Half of the connections have their own receive queue, the others share one. For
 * each killed client the server must get DISCONNECTED once, and after it has moved
 * the QP to ERR each of its own receives and sends completes exactly once. In the
 * end a well-behaved client uses every receive of the shared queue: none is lost,
 * and the server has no descriptor and no mapping more than before.
 */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	DEPTH = 16,
	SRQ_DEPTH = 64,
	MAX_CLIENTS = 3,
	MSG = 8192,
	BUF = 1 << 18,
	PATIENCE_MS = 60000
};
enum {
	DRAIN_SEED = 0x7fffffff
};

struct offer { /* private data of both sides */
	uint64_t addr;
	uint32_t rkey;
	uint32_t pid; /* of the client that asks */
};

struct client {
	pid_t pid;
	struct rdma_cm_id *id;
	bool shared, gone;
	uint64_t recv_busy; /* bits: receives that are posted */
	unsigned sends_busy;
	uint64_t kill_at, deadline;
	struct offer theirs;
};

static struct client clients[MAX_CLIENTS];
static struct ibv_cq *cq;
static struct ibv_srq *srq;
static struct ibv_mr *mr;
static uint8_t *buf;
static struct rdma_event_channel *channel;
static struct rdma_cm_id *listener;
static uint32_t seed = 1;
static unsigned n_completions, n_flushed, n_failed_sends;
static uint64_t srq_busy;
static bool draining;
static unsigned n_drained;

static void die(const char *what)
{
	printf("not ok 1 - %s (errno %d)\n", what, errno);
	fflush(stdout);
	for (int i = 0; i < MAX_CLIENTS; i++)
		if (clients[i].pid)
			kill(clients[i].pid, SIGKILL);
	abort();
}

#define must(cond)                                                                                 \
	do {                                                                                       \
		if (!(cond))                                                                       \
			die(#cond);                                                                \
	} while (0)

static uint32_t dice(uint32_t n)
{
	seed = seed * 1664525 + 1013904223;
	return (uint32_t)((uint64_t)(seed >> 8) * n >> 24);
}

static uint64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000;
}

static struct ibv_qp_init_attr qp_attr(struct ibv_cq *q, struct ibv_srq *s)
{
	return (struct ibv_qp_init_attr){.send_cq = q,
					 .recv_cq = q,
					 .srq = s,
					 .cap = {DEPTH, DEPTH, 1, 1, 0},
					 .qp_type = IBV_QPT_RC,
					 .sq_sig_all = 1};
}

static struct ibv_sge piece(struct ibv_mr *m, uint32_t len)
{
	return (struct ibv_sge){(uintptr_t)m->addr + dice(BUF - MSG), len, m->lkey};
}

static int post_random(struct ibv_qp *qp, struct ibv_mr *m, const struct offer *o, uint64_t id)
{
	static const enum ibv_wr_opcode ops[] = {IBV_WR_SEND, IBV_WR_SEND, IBV_WR_RDMA_WRITE,
						 IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE_WITH_IMM};
	static const uint32_t sizes[] = {16, 64, 128, 129, 4096, 8000};
	struct ibv_sge sge = piece(m, sizes[dice(6)]);
	struct ibv_send_wr wr = {.wr_id = id,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = ops[dice(5)],
				 .wr.rdma = {o->addr + dice(BUF - MSG), o->rkey}},
			   *bad;

	return ibv_post_send(qp, &wr, &bad);
}

static int post_recv(struct ibv_qp *qp, struct ibv_srq *s, struct ibv_mr *m, uint64_t id)
{
	struct ibv_sge sge = {(uintptr_t)m->addr, MSG, m->lkey};
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;

	return s ? ibv_post_srq_recv(s, &wr, &bad) : ibv_post_recv(qp, &wr, &bad);
}

/* ---- client ------------------------------------------------------------------ */

static void client_turn(struct rdma_cm_id *id, struct ibv_cq *q, struct ibv_mr *m,
			const struct offer *o, unsigned *busy)
{
	struct ibv_wc wc[8];
	int n = ibv_poll_cq(q, 8, wc);

	for (int i = 0; i < n; i++) {
		if (wc[i].status)
			exit(0); /* the server ended the connection: fine */
		if (wc[i].wr_id >= 100)
			post_recv(id->qp, NULL, m, wc[i].wr_id);
		else
			--*busy;
	}
	while (*busy < DEPTH && !post_random(id->qp, m, o, 1))
		++*busy;
}

/* Sends as many messages as the server's shared queue has receives, and waits. */
static void drain_srq(struct rdma_cm_id *id, struct ibv_cq *q)
{
	struct ibv_wc wc;

	for (int i = 0; i < SRQ_DEPTH; i++) {
		struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_SEND}, *bad;

		must(!ibv_post_send(id->qp, &wr, &bad));
		while (!ibv_poll_cq(q, 1, &wc))
			;
		must(!wc.status);
	}
	pause();
}

static int client(uint16_t port, uint32_t my_seed)
{
	struct sockaddr_in sin = {.sin_family = AF_INET,
				  .sin_port = htons(port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct rdma_cm_id *id;
	struct ibv_qp_init_attr attr;
	struct ibv_cq *q;
	struct ibv_mr *m;
	struct offer mine, theirs;
	struct rdma_conn_param p = {.private_data = &mine,
				    .private_data_len = sizeof(mine),
				    .responder_resources = 4,
				    .initiator_depth = 4,
				    .retry_count = 7,
				    .rnr_retry_count = 7};
	unsigned busy = 0;

	seed = my_seed;
	must(!rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP));
	must(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&sin, 1000));
	must(!rdma_resolve_route(id, 1000));
	q = ibv_create_cq(id->verbs, 64, NULL, NULL, 0);
	attr = qp_attr(q, NULL);
	must(!rdma_create_qp(id, NULL, &attr));
	buf = aligned_alloc(4096, BUF);
	m = ibv_reg_mr(id->pd, buf, BUF,
		       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	must(m);
	for (uint64_t i = 0; i < DEPTH; i++)
		must(!post_recv(id->qp, NULL, m, 100 + i));
	mine = (struct offer){(uintptr_t)buf, m->rkey, (uint32_t)getpid()};
	if (rdma_connect(id, &p))
		return 0;
	memcpy(&theirs, id->event->param.conn.private_data, sizeof(theirs));
	if (my_seed == DRAIN_SEED)
		drain_srq(id, q);
	for (;;)
		client_turn(id, q, m, &theirs, &busy);
}

/* ---- server ------------------------------------------------------------------ */

static void spawn(struct client *c, uint32_t client_seed)
{
	char port[8], s[16], chaos[16];

	snprintf(port, sizeof(port), "%u", ntohs(rdma_get_src_port(listener)));
	snprintf(s, sizeof(s), "%u", client_seed);
	memset(c, 0, sizeof(*c));
	c->kill_at = client_seed == DRAIN_SEED ? UINT64_MAX : now_us() + 3000 + dice(30000);
	c->deadline = now_us() + PATIENCE_MS * 1000;
	c->pid = fork();
	if (!c->pid) {
		/* half of them by our hand, half by their own between two stores */
		snprintf(chaos, sizeof(chaos), "die=%u", 1 + dice(4000));
		if (client_seed != DRAIN_SEED && dice(2))
			setenv("SOFTRDMA_CHAOS", chaos, 1);
		execl("/proc/self/exe", "test_storm", "client", port, s, NULL);
		_exit(1);
	}
}

static void on_request(struct rdma_cm_event *e)
{
	struct offer mine = {(uintptr_t)buf, mr->rkey, 0}, theirs;
	struct rdma_conn_param p = {.private_data = &mine,
				    .private_data_len = sizeof(mine),
				    .responder_resources = 4,
				    .initiator_depth = 4,
				    .rnr_retry_count = 7};
	struct client *c = NULL;
	struct ibv_qp_init_attr attr;

	memcpy(&theirs, e->param.conn.private_data, sizeof(theirs));
	for (int i = 0; i < MAX_CLIENTS && !c; i++)
		if (clients[i].pid == (pid_t)theirs.pid)
			c = &clients[i];
	if (!c || c->gone) { /* killed before its request arrived */
		rdma_destroy_id(e->id);
		return;
	}
	c->shared = draining || dice(2);
	attr = qp_attr(cq, c->shared ? srq : NULL);
	must(!rdma_create_qp(e->id, NULL, &attr));
	c->theirs = theirs;
	for (uint64_t i = 0; i < DEPTH && !c->shared; i++) {
		must(!post_recv(e->id->qp, NULL, mr, (uint64_t)(c - clients) << 16 | 1 << 8 | i));
		c->recv_busy |= 1ull << i;
	}
	if (rdma_accept(e->id, &p)) { /* killed in between */
		rdma_destroy_qp(e->id);
		rdma_destroy_id(e->id);
		c->gone = true;
		c->recv_busy = 0;
		return;
	}
	e->id->context = c;
	c->id = e->id;
}

static void on_cm_event(void)
{
	struct rdma_cm_event *e;
	struct client *c;

	must(!rdma_get_cm_event(channel, &e));
	c = e->id->context;
	switch (e->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		on_request(e);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_REJECTED:
		must(!c->gone); /* once */
		c->gone = true;
		rdma_disconnect(e->id);
		break;
	default:
		break;
	}
	rdma_ack_cm_event(e);
}

static void on_recv(const struct ibv_wc *wc)
{
	uint64_t slot = wc->wr_id & 0xff;
	struct client *c = &clients[wc->wr_id >> 16 & 0xff];

	if (wc->wr_id >> 24) { /* of the shared queue */
		must(srq_busy & 1ull << slot);
		srq_busy &= ~(1ull << slot);
		if (draining) {
			n_drained++;
			return;
		}
		must(!post_recv(NULL, srq, mr, wc->wr_id));
		srq_busy |= 1ull << slot;
		return;
	}
	must(c->recv_busy & 1ull << slot);
	c->recv_busy &= ~(1ull << slot);
	if (c->gone || wc->status)
		return;
	must(!post_recv(c->id->qp, NULL, mr, wc->wr_id));
	c->recv_busy |= 1ull << slot;
}

static int poll_completions(void)
{
	struct ibv_wc wc[16];
	int n = ibv_poll_cq(cq, 16, wc);

	must(n >= 0);
	for (int i = 0; i < n; i++) {
		n_completions++;
		n_flushed += wc[i].status == IBV_WC_WR_FLUSH_ERR;
		if (wc[i].wr_id & 1 << 8) {
			on_recv(&wc[i]);
			continue;
		}
		n_failed_sends += wc[i].status && wc[i].status != IBV_WC_WR_FLUSH_ERR;
		must(clients[wc[i].wr_id >> 16].sends_busy);
		clients[wc[i].wr_id >> 16].sends_busy--;
	}
	return n;
}

static void send_some(struct client *c)
{
	if (c->gone || draining)
		return;
	while (c->sends_busy < DEPTH &&
	       !post_random(c->id->qp, mr, &c->theirs, (uint64_t)(c - clients) << 16))
		c->sends_busy++;
}

/* True when the client has finished and its slot is free. */
static bool tend(struct client *c)
{
	if (c->pid > 0 && now_us() > c->kill_at) {
		kill(c->pid, SIGKILL);
		waitpid(c->pid, NULL, 0);
		c->kill_at = UINT64_MAX;
		if (!c->id)
			c->gone = true; /* killed before its request arrived */
	}
	if (c->id && !c->gone && dice(8) == 0)
		send_some(c);
	if (now_us() > c->deadline)
		die("a connection is stuck");
	if (!c->gone || c->kill_at != UINT64_MAX || c->sends_busy || c->recv_busy)
		return false;
	while (poll_completions()) /* completions of shared receives go with their QP */
		;
	if (c->id) {
		rdma_destroy_qp(c->id);
		must(!rdma_destroy_id(c->id));
	}
	c->pid = 0;
	return true;
}

static void turn(void)
{
	struct pollfd p = {.fd = channel->fd, .events = POLLIN};

	while (poll(&p, 1, 0) == 1)
		on_cm_event();
	poll_completions();
}

static void server_up(void)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct ibv_srq_init_attr init = {.attr = {.max_wr = SRQ_DEPTH, .max_sge = 1}};

	channel = rdma_create_event_channel();
	must(!rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP));
	must(!rdma_bind_addr(listener, (struct sockaddr *)&sin));
	must(!rdma_listen(listener, 16));
	cq = ibv_create_cq(listener->verbs, 1024, NULL, NULL, 0);
	srq = ibv_create_srq(listener->pd, &init);
	buf = aligned_alloc(4096, BUF);
	mr = ibv_reg_mr(listener->pd, buf, BUF,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	must(cq && srq && mr);
	for (uint64_t i = 0; i < SRQ_DEPTH; i++) {
		must(!post_recv(NULL, srq, mr, 1 << 24 | 1 << 8 | i));
		srq_busy |= 1ull << i;
	}
}

static void storm(unsigned kills)
{
	unsigned started = 0, ended = 0;

	while (ended < kills) {
		for (int i = 0; i < MAX_CLIENTS; i++) {
			struct client *c = &clients[i];

			if (c->pid && tend(c))
				ended++;
			if (!c->pid && started < kills) {
				spawn(c, dice(1 << 20));
				started++;
			}
		}
		turn();
	}
}

/* ---- what is left ------------------------------------------------------------ */

struct belongings {
	unsigned n_fds, n_segments;
};

static unsigned count_lines(const char *path, const char *word)
{
	char line[512];
	FILE *f = fopen(path, "re");
	unsigned n = 0;

	must(f);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, word) != NULL;
	fclose(f);
	return n;
}

static struct belongings take_stock(void)
{
	struct belongings b = {.n_segments = count_lines("/proc/self/maps", "memfd:softrdma")};
	DIR *d = opendir("/proc/self/fd");

	must(d);
	while (readdir(d))
		b.n_fds++;
	closedir(d);
	return b;
}

/* The helper may still be releasing the last one. */
static void check_belongings(const struct belongings *before)
{
	uint64_t deadline = now_us() + PATIENCE_MS * 1000;
	struct belongings now = take_stock();

	while (now.n_fds > before->n_fds || now.n_segments > before->n_segments) {
		if (now_us() > deadline) {
			printf("# descriptors: %u, %u at first; segments: %u, %u at first\n",
			       now.n_fds, before->n_fds, now.n_segments, before->n_segments);
			die("something of the dead is left");
		}
		turn();
		now = take_stock();
	}
}

static void check_srq(void)
{
	struct client *c = &clients[0];

	draining = true;
	spawn(c, DRAIN_SEED);
	while (n_drained < SRQ_DEPTH) {
		if (now_us() > c->deadline)
			die("receives of the shared queue are lost");
		turn();
	}
	must(!srq_busy);
	kill(c->pid, SIGKILL);
	waitpid(c->pid, NULL, 0);
	while (!c->gone)
		turn();
	rdma_destroy_qp(c->id);
	must(!rdma_destroy_id(c->id));
}

int main(int argc, char **argv)
{
	unsigned kills = argc > 1 ? (unsigned)atoi(argv[1]) : 100;
	struct belongings before;

	if (argc == 4 && !strcmp(argv[1], "client"))
		return client((uint16_t)atoi(argv[2]), (uint32_t)strtoul(argv[3], NULL, 10));
	seed = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : (uint32_t)getpid();
	printf("1..1\n# %u kills, seed %u\n", kills, seed);
	fflush(stdout);
	server_up();
	before = take_stock();
	storm(kills);
	check_srq();
	check_belongings(&before);
	must(!ibv_destroy_srq(srq));
	must(!ibv_dereg_mr(mr));
	must(!rdma_destroy_id(listener));
	must(!ibv_destroy_cq(cq));
	rdma_destroy_event_channel(channel);
	free(buf);
	printf("# %u completions, %u flushed, %u sends failed\n", n_completions, n_flushed,
	       n_failed_sends);
	printf("ok 1 - %u kills\n", kills);
	return 0;
}
