/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of a peer in all its forms: the events of the survivor, and that no resource of the peer
 * is left. Sources: the kernel's ucma (a process that ends has its ids destroyed, which sends DREQ
 * or REJ); IBA 9.7.6.1.3 (no answer: retries exceeded).
 */
#include "rig.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct rdma_event_channel *channel;
static struct rdma_cm_id *listener, *server;
static pid_t peer;
static int n_fds, n_maps;

static int count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static int count_maps(void)
{
	char line[512];
	FILE *f = fopen("/proc/self/maps", "re");
	int n = 0;

	while (fgets(line, sizeof(line), f))
		n += strstr(line, "memfd:softrdma") != NULL;
	fclose(f);
	return n;
}

/* Whether another process is connected: one that starts looks at each that it finds. */
static bool has_strangers(void)
{
	DIR *d = opendir("/proc/self/fd");
	bool found = false;
	struct dirent *e;

	while ((e = readdir(d))) {
		struct ucred peer_of;
		socklen_t n = sizeof(peer_of);

		if (!getsockopt(atoi(e->d_name), SOL_SOCKET, SO_PEERCRED, &peer_of, &n))
			found |= peer_of.pid > 0 && peer_of.pid != getpid();
	}
	closedir(d);
	return found;
}

/* Before and behind the count, so that it is of this process alone. */
static void count_own(void)
{
	bool is_alone = false;

	for (int i = 0; i < RIG_PATIENCE_MS / 10 && !is_alone; i++) {
		usleep(10000);
		is_alone = !has_strangers();
		n_fds = count_fds();
		n_maps = count_maps();
		is_alone = is_alone && !has_strangers();
	}
	assert_true(is_alone);
}

/* The caller acknowledges it. */
static struct rdma_cm_event *next_event(enum rdma_cm_event_type type)
{
	struct pollfd p = {.fd = channel->fd, .events = POLLIN};
	struct rdma_cm_event *e;

	assert_int_equal(poll(&p, 1, RIG_PATIENCE_MS), 1);
	assert_int_equal(rdma_get_cm_event(channel, &e), 0);
	if (e->event != type)
		print_message("event %s\n", rdma_event_str(e->event));
	assert_int_equal(e->event, type);
	return e;
}

static void expect_event(enum rdma_cm_event_type type)
{
	rdma_ack_cm_event(next_event(type));
}

/* All that happened before has had its events: the thread that raises them takes what it is told in
 * order, and those of a connection that begins now come behind them. */
static void expect_no_more(void)
{
	struct sockaddr_in sin = {.sin_family = AF_INET,
				  .sin_port = rdma_get_src_port(listener),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct rdma_cm_id *later, *child;
	struct rdma_cm_event *e;

	assert_int_equal(rdma_create_id(channel, &later, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(later, NULL, (struct sockaddr *)&sin, 1000), 0);
	expect_event(RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_resolve_route(later, 1000), 0);
	expect_event(RDMA_CM_EVENT_ROUTE_RESOLVED);
	assert_int_equal(rdma_connect(later, NULL), 0);
	e = next_event(RDMA_CM_EVENT_CONNECT_REQUEST);
	child = e->id;
	rdma_ack_cm_event(e);
	assert_int_equal(rdma_reject(child, NULL, 0), 0);
	assert_int_equal(rdma_destroy_id(child), 0);
	expect_event(RDMA_CM_EVENT_REJECTED);
	assert_int_equal(rdma_destroy_id(later), 0);
}

/* ---- the peer's program -------------------------------------------------------- */

/* tell: a descriptor that closes when the peer is quiet, or with the process. */
static int peer_main(uint16_t port, const char *how, int tell)
{
	struct sockaddr_in sin = {.sin_family = AF_INET,
				  .sin_port = htons(port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct ibv_qp_init_attr attr = {.cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC};
	struct ibv_recv_wr wr = {0}, *bad;
	struct rdma_conn_param p = {.rnr_retry_count = 7, .retry_count = 1};
	struct rdma_cm_id *id;
	sigset_t usr1;
	int sig;

	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	sigprocmask(SIG_BLOCK, &usr1, NULL);
	if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) ||
	    rdma_resolve_addr(id, NULL, (struct sockaddr *)&sin, 1000) ||
	    rdma_resolve_route(id, 1000) || rdma_create_qp(id, NULL, &attr) ||
	    ibv_post_recv(id->qp, &wr, &bad) || rdma_connect(id, &p))
		return 1;
	close(tell);
	sigwait(&usr1, &sig); /* resumes the test */
	if (!strcmp(how, "exit"))
		exit(0);
	if (!strcmp(how, "exec"))
		execlp("sleep", "sleep", "30", NULL);
	if (!strcmp(how, "fork") && fork()) /* the child lives on with all descriptors */
		_exit(0);
	if (!strcmp(how, "fork"))
		sleep(30);
	pause();
	return 1;
}

/* Returns the descriptor that closes when the peer is quiet. */
static int spawn_peer(const char *how)
{
	char port[8], tell[8];
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	snprintf(port, sizeof(port), "%u", ntohs(rdma_get_src_port(listener)));
	snprintf(tell, sizeof(tell), "%d", ends[1]);
	peer = fork();
	if (!peer) {
		setpgid(0, 0);
		close(ends[0]);
		execl("/proc/self/exe", "test_death", port, how, tell, NULL);
		_exit(1);
	}
	setpgid(peer, peer); /* in either process, the first counts */
	close(ends[1]);
	return ends[0];
}

static void start_peer(const char *how)
{
	struct ibv_qp_init_attr attr = {.cap = {8, 8, 1, 1, 0}, .qp_type = IBV_QPT_RC};
	struct rdma_conn_param p = {.rnr_retry_count = 7};
	struct rdma_cm_event *e;
	int quiet = spawn_peer(how);
	char byte;

	assert_int_equal(rdma_get_cm_event(channel, &e), 0);
	assert_int_equal(e->event, RDMA_CM_EVENT_CONNECT_REQUEST);
	server = e->id;
	rdma_ack_cm_event(e);
	assert_int_equal(rdma_create_qp(server, NULL, &attr), 0);
	assert_int_equal(rdma_accept(server, &p), 0);
	expect_event(RDMA_CM_EVENT_ESTABLISHED);
	assert_int_equal(read(quiet, &byte, 1), 0);
	close(quiet);
}

static int setup(void **state)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	channel = rdma_create_event_channel();
	assert_int_equal(rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(listener, (struct sockaddr *)&sin), 0);
	assert_int_equal(rdma_listen(listener, 4), 0);
	count_own();
	return 0;
}

static int teardown(void **state)
{
	if (server) {
		rdma_destroy_qp(server);
		assert_int_equal(rdma_destroy_id(server), 0);
		server = NULL;
	}
	kill(-peer, SIGKILL);
	waitpid(peer, NULL, 0);
	for (int i = 0;
	     i < RIG_PATIENCE_MS / 10 && (count_fds() != n_fds || count_maps() != n_maps); i++)
		usleep(10000);
	assert_int_equal(count_fds(), n_fds);
	assert_int_equal(count_maps(), n_maps);
	assert_int_equal(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(channel);
	return 0;
}

/* ---- the survivor ---------------------------------------------------------------- */

static void expect_disconnected(void)
{
	expect_event(RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(state_of(server->qp), IBV_QPS_RTS); /* as in the kernel: ours to end */
	assert_int_equal(rdma_disconnect(server), 0);
	expect_event(RDMA_CM_EVENT_TIMEWAIT_EXIT);
	expect_no_more();
}

static void killed(void **state)
{
	start_peer("stay");
	kill(peer, SIGKILL);
	expect_disconnected();
}

static void exits(void **state)
{
	start_peer("exit");
	kill(peer, SIGUSR1);
	expect_disconnected();
}

static void execs_another_program(void **state)
{
	start_peer("exec");
	kill(peer, SIGUSR1);
	expect_disconnected();
}

static void leaves_a_child(void **state)
{
	start_peer("fork");
	kill(peer, SIGUSR1);
	expect_disconnected();
}

/* Sends to a dead peer: no answer; requests posted before and after it are flushed. */
static void sends_to_the_dead(void **state)
{
	struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_SEND}, *bad;
	struct ibv_recv_wr rwr = {.wr_id = 5}, *rbad;

	start_peer("stay");
	assert_int_equal(ibv_post_recv(server->qp, &rwr, &rbad), 0);
	kill(peer, SIGKILL);
	waitpid(peer, NULL, 0);
	assert_int_equal(ibv_post_send(server->qp, &wr, &bad), 0);
	wr.wr_id = 2;
	assert_int_equal(ibv_post_send(server->qp, &wr, &bad), 0);
	expect_wc(server->send_cq, 1, IBV_WC_RETRY_EXC_ERR);
	expect_wc(server->send_cq, 2, IBV_WC_WR_FLUSH_ERR);
	expect_wc(server->recv_cq, 5, IBV_WC_WR_FLUSH_ERR);
	expect_event(RDMA_CM_EVENT_DISCONNECTED);
}

/* A send that waits for a receive gets no answer either. */
static void dies_while_we_wait_for_a_receive(void **state)
{
	struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_SEND}, *bad;

	start_peer("stay");
	assert_int_equal(ibv_post_send(server->qp, &wr, &bad), 0); /* takes its only receive */
	wr.wr_id = 2;
	assert_int_equal(ibv_post_send(server->qp, &wr, &bad), 0);
	kill(peer, SIGKILL);
	expect_wc(server->send_cq, 2, IBV_WC_RETRY_EXC_ERR);
	expect_event(RDMA_CM_EVENT_DISCONNECTED);
}

/* A stopped process is not dead: it resumes where it was. */
static void stopped_and_continued(void **state)
{
	struct ibv_send_wr wr = {.wr_id = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	int status;

	start_peer("stay");
	kill(peer, SIGSTOP);
	assert_int_equal(waitpid(peer, &status, WUNTRACED), peer);
	assert_true(WIFSTOPPED(status));
	assert_int_equal(ibv_post_send(server->qp, &wr, &bad), 0); /* needs no peer's thread */
	expect_wc(server->send_cq, 1, IBV_WC_SUCCESS);
	expect_no_more();
	kill(peer, SIGCONT);
	kill(peer, SIGKILL);
	expect_event(RDMA_CM_EVENT_DISCONNECTED);
}

/* Dies with its request not answered yet. */
static void dies_before_it_is_accepted(void **state)
{
	struct rdma_cm_event *e;
	struct rdma_cm_id *id;
	struct ibv_qp_init_attr attr = {.cap = {8, 8, 1, 1, 0}, .qp_type = IBV_QPT_RC};

	close(spawn_peer("stay"));
	assert_int_equal(rdma_get_cm_event(channel, &e), 0);
	id = e->id;
	rdma_ack_cm_event(e);
	kill(peer, SIGKILL);
	waitpid(peer, NULL, 0);
	expect_no_more(); /* the hang-up has none, and has been seen */
	assert_int_equal(rdma_create_qp(id, NULL, &attr), 0);
	assert_int_equal(rdma_accept(id, NULL), -1);
	rdma_destroy_qp(id);
	assert_int_equal(rdma_destroy_id(id), 0);
}

/* ---- fork ---------------------------------------------------------------------------- */

static unsigned mappings_of_queues(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	unsigned n = 0;
	char line[300];

	while (f && fgets(line, sizeof(line), f))
		n += !!strstr(line, "memfd:softrdma");
	if (f)
		fclose(f);
	return n;
}

/* ibv_fork_init(3): the child shares no memory that the device works on, so it cannot harm it. */
static void child_does_not_inherit_the_queues(void **state)
{
	int status;

	assert_int_not_equal(mappings_of_queues(), 0);
	peer = fork();
	if (!peer)
		_exit(mappings_of_queues() ? 1 : 0);
	waitpid(peer, &status, 0);
	assert_int_equal(status, 0);
	start_peer("stay");
	kill(peer, SIGKILL);
	expect_disconnected();
}

/* A forked child starts anew: its own device, its own numbers. */
static void child_of_ours_starts_anew(void **state)
{
	int status;

	peer = fork();
	if (!peer) {
		struct ibv_device **list = ibv_get_device_list(NULL);
		struct ibv_context *ctx = ibv_open_device(list[0]);
		struct ibv_pd *pd = ctx ? ibv_alloc_pd(ctx) : NULL;
		struct ibv_mr *mr = pd ? ibv_reg_mr(pd, &status, sizeof(status), 0) : NULL;

		_exit(mr && !ibv_dereg_mr(mr) ? 0 : 1);
	}
	waitpid(peer, &status, 0);
	assert_int_equal(status, 0);
	start_peer("stay"); /* and this process is unharmed */
	kill(peer, SIGKILL);
	expect_disconnected();
}

/* ---- a peer that is born later --------------------------------------------------- */

static int late_child(int go, int tell, uint32_t dest)
{
	struct rig r = {0};
	uint32_t qpn;
	char word;

	if (read(go, &word, 1) != 1)
		return 1;
	rig_up(&r);
	if (to_state(r.b.qp, IBV_QPS_RESET) || to_state(r.a.qp, IBV_QPS_RESET) || to_init(r.a.qp) ||
	    recv_at(&r.a, 1, 0, 64) || to_rtr(r.a.qp, dest))
		return 1;
	qpn = r.a.qp->qp_num;
	if (write(tell, &qpn, sizeof(qpn)) != sizeof(qpn))
		return 1;
	return next_wc(r.a.rcq).status;
}

/*
 * The number of the next queue pair of a child, which continues its parent's count: add_base() of
 * node.c, take_slot() of sr_qp.c.
 */
static uint32_t first_qpn(pid_t pid, uint32_t last_of_parent)
{
	return ((uint32_t)pid * 40503u % 65535u + 1) << 8 | ((last_of_parent + 1) & 0xff);
}

/* IBA 9.7.6.1.3: requests are retried; an answer before the last retry is in time. */
static void answers_a_retry(void **state)
{
	int go[2], tell[2], status;
	uint32_t qpn = 0, expected;
	struct rig r = {0};
	pid_t child;

	rig_opts.timeout = 22; /* 17 s, twice */
	rig_up(&r);
	assert_int_equal(pipe(go), 0);
	assert_int_equal(pipe(tell), 0);
	child = fork();
	if (!child)
		_exit(late_child(go[0], tell[1], r.a.qp->qp_num));
	expected = first_qpn(child, r.b.qp->qp_num);
	assert_int_equal(to_state(r.b.qp, IBV_QPS_RESET), 0);
	assert_int_equal(to_state(r.a.qp, IBV_QPS_RESET), 0);
	assert_int_equal(to_init(r.a.qp), 0);
	assert_int_equal(to_rtr(r.a.qp, expected), 0);
	assert_int_equal(to_rts(r.a.qp), 0);
	assert_int_equal(send_from(&r.a, 7, 0, 64, IBV_SEND_SIGNALED), 0);
	expect_empty(r.a.scq);
	assert_int_equal(write(go[1], "", 1), 1);
	assert_int_equal(read(tell[0], &qpn, sizeof(qpn)), sizeof(qpn));
	if (qpn == expected)
		expect_wc(r.a.scq, 7, IBV_WC_SUCCESS);
	else
		kill(child, SIGKILL); /* another process has its number */
	assert_int_equal(waitpid(child, &status, 0), child);
	print_message("# the number was %s\n", qpn == expected ? "free" : "taken");
	assert_int_equal(status, qpn == expected ? 0 : SIGKILL);
	for (int i = 0; i < 2; i++) {
		close(go[i]);
		close(tell[i]);
	}
	rig_down(&r);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		T(killed),
		T(exits),
		T(execs_another_program),
		T(leaves_a_child),
		T(sends_to_the_dead),
		T(dies_while_we_wait_for_a_receive),
		T(stopped_and_continued),
		T(dies_before_it_is_accepted),
		T(child_does_not_inherit_the_queues),
		T(child_of_ours_starts_anew),
		cmocka_unit_test(answers_a_retry),
	};

	if (argc == 4)
		return peer_main((uint16_t)atoi(argv[1]), argv[2], atoi(argv[3]));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
