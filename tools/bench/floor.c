/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The floors: measurements that no program on this machine can beat. The traffic of an NVMe command
 * in bare verbs, without any work for it, and the copies beneath the software provider. Prints one
 * line of JSON.
 *
 *   floor read BYTES DEPTH SECONDS    SEND 64 -> WRITE BYTES + SEND 16     what a read causes
 *   floor write BYTES DEPTH SECONDS   SEND 64 -> READ BYTES -> SEND 16     what a write causes
 *   floor read|write BYTES DEPTH SECONDS FILE
 *                                     the same, at random places of a file (libaio, O_DIRECT)
 *   floor vmwrite BYTES SPREAD SECONDS
 *                                     process_vm_writev to another process: from random places in
 *                                     SPREAD bytes to 32 buffers; SPREAD 0: one place, one buffer
 *   floor memcpy BYTES SPREAD SECONDS
 *   floor poll 1 1 SECONDS            only polls, like a host that waits for its target
 *
 * Two processes, connected over the loopback address; both spin. The target takes the commands that
 * have arrived, executes them, and posts all of them in one chain, as rblkd does. Any failure ends
 * the program: it is a measurement.
 */
#include <err.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libaio.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/histogram.h"
#include "base/huge_page.h"
#include "base/output.h"
#include "transport/fabric.h"

enum {
	COMMAND_BYTES = 64,
	RESPONSE_BYTES = 16,
	DEPTH_MAX = 128,
	BATCH = 32,
	REAP = 8, /* of a file's completions at once, as rblkd: the rest of them go on meanwhile */
	SIGNAL_EVERY = 16,
};
#define TARGET_BYTES (256 * MIB) /* more than any cache */

struct command {
	uint64_t address;
	uint32_t rkey, length;
	uint64_t slot;
	uint8_t unused[COMMAND_BYTES - 24];
};

struct response {
	uint64_t slot;
	uint64_t unused;
};

/* One end of the connection. */
struct end {
	struct rdma_event_channel *events;
	struct rdma_cm_id *id;
	struct ibv_cq *cq;
	char *data, *messages; /* owned mappings; messages: 2 x depth received, depth sent */
	struct ibv_mr *data_mr, *messages_mr;
	unsigned depth;
	/* The chains of this turn. */
	struct ibv_send_wr sends[2 * BATCH];
	struct ibv_sge send_sges[2 * BATCH];
	struct ibv_recv_wr recvs[BATCH];
	struct ibv_sge recv_sges[BATCH];
	struct response responses[2 * BATCH];
	unsigned n_sends, n_recvs, n_unsignaled;
};

/* Populated at once: a page fault in the measurement would count as work of the fabric. Huge pages,
 * as a RAM namespace has them. */
static void *map(size_t n)
{
	void *p = huge_page_map(n, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	int r;

	if (p == MAP_FAILED)
		err(EXIT_FAILED, "mmap");
	r = huge_page_populate(p, n);
	if (r < 0)
		errx(EXIT_FAILED, "no pages for %zu bytes: %s", n, strerror(-r));
	return p;
}

/* xorshift64: a few cycles, so that it does not show in the result. */
static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* ---- connecting ---- */

/* Events come in a fixed order on a loopback connection; any other is a failure. */
static struct rdma_cm_id *expect_event(struct end *end, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	if (rdma_get_cm_event(end->events, &event))
		err(EXIT_FAILED, "rdma_get_cm_event");
	if (event->event != type)
		errx(EXIT_FAILED, "%s instead of %s", rdma_event_str(event->event),
		     rdma_event_str(type));
	id = event->id;
	rdma_ack_cm_event(event);
	return id;
}

/* Receives are chained and posted with the sends of a turn: one call for all of them. */
static void push_recv(struct end *end, uint64_t slot)
{
	unsigned i = end->n_recvs++;

	end->recv_sges[i] = (struct ibv_sge){.addr = (uintptr_t)end->messages +
						     slot * COMMAND_BYTES,
					     .length = COMMAND_BYTES,
					     .lkey = end->messages_mr->lkey};
	end->recvs[i] = (struct ibv_recv_wr){
		.wr_id = slot, .sg_list = &end->recv_sges[i], .num_sge = 1};
	if (i)
		end->recvs[i - 1].next = &end->recvs[i];
}

static void post_recvs(struct end *end)
{
	struct ibv_recv_wr *bad;

	if (end->n_recvs && ibv_post_recv(end->id->qp, end->recvs, &bad))
		err(EXIT_FAILED, "ibv_post_recv");
	end->n_recvs = 0;
}

/* Memory, queue pair and receives of an end that has its id. */
static void prepare(struct end *end, unsigned depth, size_t data_bytes)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC,
					.cap = {.max_send_wr = 4 * depth + 4 * SIGNAL_EVERY,
						.max_recv_wr = 2 * depth,
						.max_send_sge = 1,
						.max_recv_sge = 1,
						.max_inline_data = COMMAND_BYTES}};

	end->depth = depth;
	end->data = map(data_bytes);
	end->messages = map((size_t)depth * 3 * COMMAND_BYTES);
	end->cq = ibv_create_cq(end->id->verbs, (int)(8 * depth + 4 * SIGNAL_EVERY), NULL, NULL, 0);
	attr.send_cq = attr.recv_cq = end->cq;
	if (!end->cq || rdma_create_qp(end->id, NULL, &attr))
		err(EXIT_FAILED, "no queue pair");
	end->data_mr = ibv_reg_mr(end->id->qp->pd, end->data, data_bytes,
				  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					  IBV_ACCESS_REMOTE_READ);
	end->messages_mr = ibv_reg_mr(end->id->qp->pd, end->messages,
				      (size_t)depth * 3 * COMMAND_BYTES, IBV_ACCESS_LOCAL_WRITE);
	if (!end->data_mr || !end->messages_mr)
		err(EXIT_FAILED, "ibv_reg_mr");
	for (unsigned i = 0; i < 2 * depth; i++) {
		push_recv(end, i);
		if (end->n_recvs == BATCH)
			post_recvs(end);
	}
	post_recvs(end);
}

/* rnr_retry_count 7 is for ever: an end that is not ready yet is no failure. */
static struct rdma_conn_param parameters(void)
{
	return (struct rdma_conn_param){.responder_resources = 16,
					.initiator_depth = 16,
					.retry_count = 7,
					.rnr_retry_count = 7};
}

/* ---- posting ---- */

static struct ibv_send_wr *push_send(struct end *end, uint64_t wr_id, const void *data,
				     uint32_t length, uint32_t lkey)
{
	unsigned i = end->n_sends++;

	end->send_sges[i] = (struct ibv_sge){
		.addr = (uintptr_t)data, .length = length, .lkey = lkey};
	end->sends[i] = (struct ibv_send_wr){
		.wr_id = wr_id, .sg_list = &end->send_sges[i], .num_sge = 1};
	if (i)
		end->sends[i - 1].next = &end->sends[i];
	return &end->sends[i];
}

/* Inline, but copied only when it is posted: until then the message stays where it is. */
static void push_message(struct end *end, const void *message, uint32_t length)
{
	struct ibv_send_wr *wr = push_send(end, 0, message, length, 0);

	wr->opcode = IBV_WR_SEND;
	wr->send_flags = IBV_SEND_INLINE;
	if (++end->n_unsignaled == SIGNAL_EVERY) {
		wr->send_flags |= IBV_SEND_SIGNALED;
		end->n_unsignaled = 0;
	}
}

/* A READ is signaled, because its data has to be there before the response; a WRITE is not. */
static void push_data(struct end *end, enum ibv_wr_opcode opcode, void *data,
		      const struct command *command)
{
	struct ibv_send_wr *wr = push_send(end, command->slot, data, command->length,
					   end->data_mr->lkey);

	wr->opcode = opcode;
	wr->wr.rdma.remote_addr = command->address;
	wr->wr.rdma.rkey = command->rkey;
	wr->send_flags = opcode == IBV_WR_RDMA_READ ? IBV_SEND_SIGNALED : 0;
}

static void post_sends(struct end *end)
{
	struct ibv_send_wr *bad;

	post_recvs(end);
	if (end->n_sends && ibv_post_send(end->id->qp, end->sends, &bad))
		err(EXIT_FAILED, "ibv_post_send");
	end->n_sends = 0;
}

static int poll(struct end *end, struct ibv_wc wcs[BATCH])
{
	int n = ibv_poll_cq(end->cq, BATCH, wcs);

	for (int i = 0; i < n; i++)
		if (wcs[i].status)
			errx(EXIT_FAILED, "%s", ibv_wc_status_str(wcs[i].status));
	return n;
}

/* ---- the target ---- */

/* Beyond the caches, as the blocks of a namespace are. */
static void *random_place(struct end *end, uint64_t *random, uint32_t length)
{
	return end->data + next_random(random) % (TARGET_BYTES / length) * length;
}

static void push_response(struct end *end, uint64_t slot)
{
	struct response *response = &end->responses[end->n_sends];

	response->slot = slot;
	push_message(end, response, sizeof(*response));
}

/* The file behind the target; one I/O a slot. */
struct file {
	int fd;
	uint64_t n_bytes;
	io_context_t context;
	struct command commands[DEPTH_MAX];
	struct iocb iocbs[DEPTH_MAX], *batch[DEPTH_MAX];
	unsigned n_batch;
};

/* O_DIRECT, as rblkd opens a file: the page cache would be measured otherwise. */
static void file_open(struct file *file, const char *path)
{
	file->fd = open(path, O_RDWR | O_DIRECT);
	file->n_bytes = file->fd < 0 ? 0 : (uint64_t)lseek(file->fd, 0, SEEK_END);
	if (file->fd < 0 || io_setup(DEPTH_MAX, &file->context))
		err(EXIT_FAILED, "%s", path);
}

static char *slot_buffer(struct end *end, const struct command *command)
{
	return end->data + command->slot * command->length;
}

static void push_io(struct file *file, struct end *end, uint64_t slot, bool is_write,
		    uint64_t *random)
{
	const struct command *command = &file->commands[slot];
	struct iocb *iocb = &file->iocbs[slot];
	uint64_t n_places = file->n_bytes / command->length;
	long long at = (long long)(next_random(random) % n_places * command->length);

	if (is_write)
		io_prep_pwrite(iocb, file->fd, slot_buffer(end, command), command->length, at);
	else
		io_prep_pread(iocb, file->fd, slot_buffer(end, command), command->length, at);
	iocb->data = &file->commands[slot];
	file->batch[file->n_batch++] = iocb;
}

/* All I/O of a turn in one call, as target/store/aio.c does. */
static void submit_ios(struct file *file)
{
	if (file->n_batch &&
	    io_submit(file->context, file->n_batch, file->batch) != (int)file->n_batch)
		errx(EXIT_FAILED, "io_submit");
	file->n_batch = 0;
}

static void reap_ios(struct file *file, struct end *end, bool is_write)
{
	struct timespec now = {0};
	struct io_event events[REAP];
	int n = io_getevents(file->context, 0, REAP, events, &now);

	for (int i = 0; i < n; i++) {
		const struct command *command = events[i].data;

		if (events[i].res != command->length)
			errx(EXIT_FAILED, "an I/O failed");
		if (!is_write)
			push_data(end, IBV_WR_RDMA_WRITE, slot_buffer(end, command), command);
		push_response(end, command->slot);
	}
	post_sends(end);
}

/* For ever: the host kills it. */
static void serve_file(struct end *end, bool is_write, const char *path)
{
	static struct file file;
	uint64_t random = 88172645463325252u;
	struct ibv_wc wcs[BATCH];

	file_open(&file, path);
	for (;;) {
		int n = poll(end, wcs);

		for (int i = 0; i < n; i++) {
			struct command command;

			if (wcs[i].opcode == IBV_WC_RDMA_READ)
				push_io(&file, end, wcs[i].wr_id, true, &random);
			if (wcs[i].opcode != IBV_WC_RECV)
				continue;
			memcpy(&command, end->messages + wcs[i].wr_id * COMMAND_BYTES,
			       sizeof(command));
			push_recv(end, wcs[i].wr_id);
			file.commands[command.slot] = command;
			if (is_write)
				push_data(end, IBV_WR_RDMA_READ, slot_buffer(end, &command),
					  &command);
			else
				push_io(&file, end, command.slot, false, &random);
		}
		post_sends(end);
		submit_ios(&file);
		reap_ios(&file, end, is_write);
	}
}

/* For ever: the host kills it. */
static void serve(struct end *end, bool is_write)
{
	uint64_t random = 88172645463325252u;
	struct ibv_wc wcs[BATCH];

	for (;;) {
		int n = poll(end, wcs);

		for (int i = 0; i < n; i++) {
			struct command command;

			if (wcs[i].opcode == IBV_WC_RDMA_READ)
				push_response(end, wcs[i].wr_id);
			if (wcs[i].opcode != IBV_WC_RECV)
				continue;
			memcpy(&command, end->messages + wcs[i].wr_id * COMMAND_BYTES,
			       sizeof(command));
			push_recv(end, wcs[i].wr_id);
			push_data(end, is_write ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
				  random_place(end, &random, command.length), &command);
			if (!is_write)
				push_response(end, command.slot);
			if (end->n_sends > 2 * BATCH - 2)
				post_sends(end);
		}
		post_sends(end);
	}
}

/* PDEATHSIG: a host that fails must not leave a process that spins. */
static void run_target(int port_pipe, bool is_write, unsigned depth, const char *path)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct end end = {.events = rdma_create_event_channel()};
	struct rdma_conn_param parameter = parameters();
	struct rdma_cm_id *listener;
	uint16_t port;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!end.events || rdma_create_id(end.events, &listener, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(listener, (struct sockaddr *)&address) || rdma_listen(listener, 1))
		err(EXIT_FAILED, "cannot listen");
	port = rdma_get_src_port(listener);
	if (write(port_pipe, &port, sizeof(port)) != sizeof(port))
		err(EXIT_FAILED, "pipe");
	end.id = expect_event(&end, RDMA_CM_EVENT_CONNECT_REQUEST);
	prepare(&end, depth, TARGET_BYTES);
	if (rdma_accept(end.id, &parameter))
		err(EXIT_FAILED, "rdma_accept");
	if (path)
		serve_file(&end, is_write, path);
	serve(&end, is_write);
}

/* ---- the host ---- */

/* The steps of rdma_cm one by one, each waited for: only the load is measured. */
static void connect_to(struct end *end, uint16_t port, unsigned depth, uint32_t bytes)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_port = port, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct rdma_conn_param parameter = parameters();

	end->events = rdma_create_event_channel();
	if (!end->events || rdma_create_id(end->events, &end->id, NULL, RDMA_PS_TCP) ||
	    rdma_resolve_addr(end->id, NULL, (struct sockaddr *)&address, 5000))
		err(EXIT_FAILED, "rdma_resolve_addr");
	expect_event(end, RDMA_CM_EVENT_ADDR_RESOLVED);
	if (rdma_resolve_route(end->id, 5000))
		err(EXIT_FAILED, "rdma_resolve_route");
	expect_event(end, RDMA_CM_EVENT_ROUTE_RESOLVED);
	prepare(end, depth, (size_t)depth * bytes);
	if (rdma_connect(end->id, &parameter))
		err(EXIT_FAILED, "rdma_connect");
	expect_event(end, RDMA_CM_EVENT_ESTABLISHED);
}

static void push_command(struct end *end, uint64_t slot, uint32_t bytes)
{
	struct command *command = (void *)(end->messages + (2 * end->depth + slot) * COMMAND_BYTES);

	*command = (struct command){
		.address = (uintptr_t)end->data + slot * bytes,
		.rkey = end->data_mr->rkey,
		.length = bytes,
		.slot = slot,
	};
	push_message(end, command, COMMAND_BYTES);
}

static void disconnect(struct end *end)
{
	rdma_destroy_qp(end->id);
	ibv_destroy_cq(end->cq);
	ibv_dereg_mr(end->data_mr);
	ibv_dereg_mr(end->messages_mr);
	rdma_destroy_id(end->id);
	rdma_destroy_event_channel(end->events);
}

static void print_rate(uint64_t n, uint64_t took_ns, uint64_t bytes,
		       const struct histogram *latency)
{
	double rate = (double)n * 1e9 / (double)took_ns;

	printf("{\"schema\":1,\"iops\":%.0f,\"mb_per_s\":%.1f,\"us\":%.3f", rate,
	       rate * (double)bytes / 1e6, 1e6 / rate);
	if (latency)
		printf(",\"p50_ns\":%" PRIu64 ",\"p99_ns\":%" PRIu64 ",\"p999_ns\":%" PRIu64,
		       histogram_quantile(latency, 0.5), histogram_quantile(latency, 0.99),
		       histogram_quantile(latency, 0.999));
	printf("}\n");
}

/* The clock is read once a batch: reading it for each I/O would be part of the measured work. */
static void load(struct end *end, uint32_t bytes, uint64_t duration_ns)
{
	struct histogram latency = {0};
	uint64_t started_ns[DEPTH_MAX], start = clock_ns(), now = start, n_done = 0;
	struct ibv_wc wcs[BATCH];

	for (unsigned i = 0; i < end->depth; i++) {
		started_ns[i] = start;
		push_command(end, i, bytes);
		post_sends(end);
	}
	while (now - start < duration_ns) {
		int n = poll(end, wcs);

		if (n)
			now = clock_ns();
		for (int i = 0; i < n; i++) {
			struct response response;

			if (wcs[i].opcode != IBV_WC_RECV)
				continue;
			memcpy(&response, end->messages + wcs[i].wr_id * COMMAND_BYTES,
			       sizeof(response));
			push_recv(end, wcs[i].wr_id);
			histogram_add(&latency, now - started_ns[response.slot]);
			n_done++;
			started_ns[response.slot] = now;
			push_command(end, response.slot, bytes);
		}
		post_sends(end);
	}
	print_rate(n_done, now - start, bytes, &latency);
}

/* A host that polls would spin for ever. In a signal handler only write and _exit are safe. */
static void on_target_died(int signal)
{
	static const char text[] = "floor: the target died\n";

	if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
		_exit(EXIT_FAILED);
	_exit(EXIT_FAILED);
}

/* path: of the file behind the target, or NULL. */
static void measure_fabric(bool is_write, uint32_t bytes, unsigned depth, uint64_t duration_ns,
			   const char *path)
{
	struct end end = {0};
	uint16_t port = 0;
	int pipes[2];
	pid_t target;

	if (depth > DEPTH_MAX || pipe(pipes) < 0)
		errx(EXIT_USAGE, "a depth of at most %d", DEPTH_MAX);
	signal(SIGCHLD, on_target_died);
	target = fork();
	if (target == 0)
		run_target(pipes[1], is_write, depth, path);
	close(pipes[1]);
	if (read(pipes[0], &port, sizeof(port)) != sizeof(port))
		errx(EXIT_FAILED, "the target did not start");
	connect_to(&end, port, depth, bytes);
	load(&end, bytes, duration_ns);
	signal(SIGCHLD, SIG_DFL);
	kill(target, SIGKILL);
	waitpid(target, NULL, 0);
	disconnect(&end);
}

/* ---- copies ---- */

static void copy(pid_t other, char *to, char *from, size_t bytes)
{
	struct iovec local = {from, bytes}, remote = {to, bytes};

	if (!other)
		memcpy(to, from, bytes);
	else if (process_vm_writev(other, &local, 1, &remote, 1, 0) != (ssize_t)bytes)
		err(EXIT_FAILED, "process_vm_writev");
}

/* Another process that has the same memory at the same address, as a copy of its own. */
static pid_t fork_owner(char *memory, size_t n)
{
	int pipes[2];
	pid_t pid;
	char ready;

	if (pipe(pipes) < 0)
		err(EXIT_FAILED, "pipe");
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		memset(memory, 1, n);
		if (write(pipes[1], "r", 1) != 1)
			_exit(EXIT_FAILED);
		for (;;)
			pause();
	}
	if (read(pipes[0], &ready, 1) != 1)
		errx(EXIT_FAILED, "no second process");
	return pid;
}

/* The clock is read every BATCH copies, for the same reason as in load(). */
static void measure_copy(bool is_vm, size_t bytes, size_t spread, uint64_t duration_ns)
{
	uint64_t random = 88172645463325252u, start, now, n = 0;
	char *from = map(MAX(spread, bytes)), *to = map(BATCH * bytes);
	size_t n_places = MAX(spread / bytes, (size_t)1);
	pid_t other;

	memset(from, 2, MAX(spread, bytes));
	other = is_vm ? fork_owner(to, BATCH * bytes) : 0; /* then a write would copy pages */
	start = now = clock_ns();
	while (now - start < duration_ns) {
		for (unsigned i = 0; i < BATCH; i++, n++)
			copy(other, to + (spread ? i * bytes : 0),
			     from + next_random(&random) % n_places * bytes, bytes);
		now = clock_ns();
	}
	print_rate(n, now - start, bytes, NULL);
	if (other) {
		kill(other, SIGKILL);
		waitpid(other, NULL, 0);
	}
}

/* Polls and finds nothing, like a host that waits for its target. */
static void measure_poll(uint64_t duration_ns)
{
	uint64_t start = clock_ns(), now = start, n = 0;

	for (; now - start < duration_ns; now = clock_ns(), n++)
		__builtin_ia32_pause();
	print_rate(n, now - start, 0, NULL);
}

int main(int argc, char **argv)
{
	uint64_t bytes, n, duration_ns;
	int code = fabric_select("floor", NULL, argv);

	if (code)
		return code;
	if (argc != 5 && argc != 6)
		return fail_with(
			"floor", EXIT_USAGE, NULL,
			"floor read|write|vmwrite|memcpy|poll BYTES DEPTH|SPREAD SECONDS [FILE]");
	bytes = strtoull(argv[2], NULL, 0);
	n = strtoull(argv[3], NULL, 0);
	duration_ns = (uint64_t)(strtod(argv[4], NULL) * 1e9);
	if (!bytes || bytes > MIB || (!n && *argv[1] != 'v' && *argv[1] != 'm'))
		return fail_with("floor", EXIT_USAGE, NULL, "impossible numbers");
	if (!strcmp(argv[1], "vmwrite") || !strcmp(argv[1], "memcpy"))
		measure_copy(*argv[1] == 'v', bytes, n, duration_ns);
	else if (!strcmp(argv[1], "poll"))
		measure_poll(duration_ns);
	else
		measure_fabric(!strcmp(argv[1], "write"), (uint32_t)bytes, (unsigned)n, duration_ns,
			       argv[5]);
	return EXIT_OK;
}
