/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The volume process. Its control thread runs this file: it opens the volume, then publishes the
 * front ends, puts each connection they bring on a worker, and at the end takes everything down in
 * the reverse order (bridge_stop.c). Data never pass here.
 *
 *   OPENING -> SERVING -> STOPPING -> FLUSHING -> REMOVING -> CLOSING
 *        \________ the first connect failed ______________/
 *
 * Connections share the workers of a pool, and move between them (pool.c).
 *
 * The loss of the target is handled by the volume (initiator/control): it holds the I/O and
 * reconnects, clients see a pause. When it gives up, they see EIO, and the process stays for status
 * and detach.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/rpc_server.h"
#include "base/units.h"
#include "initiator/control/volume.h"
#include "nbd_bridge/control/bridge.h"
#include "nbd_bridge/control/bridge_internal.h"
#include "nbd_bridge/control/bridge_path.h"
#include "nbd_bridge/control/bridge_rpc.h"
#include "nbd_bridge/control/bridge_state.h"
#include "nbd_bridge/control/bridge_stop.h"
#include "nbd_bridge/control/frontend_kernel.h"
#include "nbd_bridge/control/frontend_socket.h"
#include "nbd_bridge/control/metrics.h"

enum {
	HALF_OPEN_MAX = 16, /* clients in their handshake, or not yet cleaned up */
};

/* ---- connections --------------------------------------------------------------------------- */

static void on_conn_closed(struct worker *worker, struct nbd_conn *conn)
{
	struct bridge *bridge = worker->owner;
	bool must_exit = conn == bridge->exit_with;

	list_remove(&conn->owned);
	bridge->n_conns--;
	bridge->n_of[conn->client]--;
	if (conn->client == CLIENT_KERNEL)
		bridge->kernel->ops->conn_gone(bridge->kernel, conn->n_requests > 0,
					       bridge->n_of[CLIENT_KERNEL]);
	else if (bridge->state == BRIDGE_SERVING)
		bridge->sockets->ops->has_room(bridge->sockets);
	nbd_conn_free(conn);
	if (must_exit)
		bridge_stop(bridge, false);
	bridge_stop_goes_on(bridge);
}

/* "pid 123 (fio)", "10.0.0.1:50000". */
static void describe_peer(struct nbd_conn *conn)
{
	struct ucred cred;
	socklen_t n_cred = sizeof(cred);
	union addr addr;
	socklen_t n_addr = sizeof(addr);
	char path[32], comm[32] = "?";

	if (conn->client == CLIENT_KERNEL) {
		snprintf(conn->peer, sizeof(conn->peer), "kernel");
	} else if (getpeername(conn->fd, &addr.sa, &n_addr) == 0 && addr.sa.sa_family != AF_UNIX) {
		addr_format(conn->peer, &addr); /* --stdio behind a super-server */
	} else if (getsockopt(conn->fd, SOL_SOCKET, SO_PEERCRED, &cred, &n_cred) == 0) {
		_autofclose_ FILE *f = NULL;

		snprintf(path, sizeof(path), "/proc/%d/comm", (int)cred.pid);
		f = fopen(path, "re");
		if (f && fgets(comm, sizeof(comm), f))
			comm[strcspn(comm, "\n")] = '\0';
		snprintf(conn->peer, sizeof(conn->peer), "pid %d (%s)", (int)cred.pid, comm);
	}
}

/* HALF_OPEN_MAX connections beyond max_connections may exist: dead clients that are still being
 * cleaned up, and clients in their handshake, which refuses those beyond max_connections. At that
 * limit further clients wait in the backlog: for moments, or until the handshake's deadline. */
static bool has_room(struct frontend_host *host)
{
	struct bridge *bridge = container_of(host, struct bridge, host);
	unsigned n = bridge->n_of[CLIENT_SOCKET];

	if (n < bridge->config->max_connections + HALF_OPEN_MAX)
		return true;
	if (log_limit_pass(&bridge->log_limit, 5))
		log_warn("volume %s: there are %u clients, the next has to wait",
			 bridge->config->name, n);
	return false;
}

static int add_conn(struct frontend_host *host, int fd, bool is_kernel, bool must_exit)
{
	struct bridge *bridge = container_of(host, struct bridge, host);
	struct nbd_conn *conn;

	if (bridge->state != BRIDGE_SERVING) {
		close(fd);
		return -EBUSY;
	}
	conn = nbd_conn_new(&bridge->export, ++bridge->next_conn_id, fd,
			    is_kernel ? CLIENT_KERNEL : CLIENT_SOCKET);
	if (!conn)
		return -ENOMEM;
	if (must_exit)
		bridge->exit_with = conn;
	describe_peer(conn);
	list_add_tail(&bridge->conns, &conn->owned);
	bridge->n_conns++;
	bridge->n_of[conn->client]++;
	pool_add(&bridge->pool, conn, bridge->n_conns == 1);
	return 0;
}

/* ---- the volume's events -------------------------------------------------------------------- */

static enum exit_code fail_to_serve(const struct bridge *bridge, int r, struct error *error)
{
	bool lacks_fds = r == -EMFILE || r == -ENFILE;

	error->code = lacks_fds ? EXIT_PRIVILEGE : EXIT_FAILED;
	snprintf(error->message, sizeof(error->message),
		 "cannot serve the namespace, with blocks of %u and I/O of at most %u bytes: %s",
		 bridge->info.block_size, bridge->info.max_io_bytes, strerror(-r));
	snprintf(
		error->hint, sizeof(error->hint), "%s",
		lacks_fds
			? "raise the limit of open files: LimitNOFILE=65536 in the unit, or ulimit -n 65536"
			: "");
	return error->code;
}

/* 0 or -errno. */
static int make_export(struct bridge *bridge)
{
	const struct bridge_config *config = bridge->config;
	char description[sizeof(bridge->export.description)];
	int r;

	snprintf(description, sizeof(description), "NVMe namespace %u of %s", config->volume.nsid,
		 config->volume.subnqn);
	r = nbd_export_init(&bridge->export, config->name, description, &bridge->info,
			    bridge->info.slab_bytes);
	if (r < 0)
		return r;
	nbd_export_update(&bridge->export, &bridge->info, config->is_read_only);
	bridge->export.max_established = config->max_connections;
	return 0;
}

/* EXIT_OK, or a code with *error filled. */
static enum exit_code start_frontend(struct frontend *frontend, struct error *error)
{
	return frontend ? (enum exit_code)frontend->ops->start(frontend, error) : EXIT_OK;
}

static int start_pool(struct bridge *bridge)
{
	const struct bridge_config *config = bridge->config;

	return pool_start(&bridge->pool,
			  &(struct pool_config){.loop = &bridge->loop,
						.volume = bridge->volume,
						.conns = &bridge->conns,
						.spin = config->volume.spin,
						.n_max = MIN(bridge->info.n_queues_granted,
							     config->volume.n_queues),
						.is_fixed = config->has_fixed_queues,
						.owner = bridge,
						.on_conn_closed = on_conn_closed});
}

static enum exit_code serve(struct bridge *bridge, struct error *error)
{
	int r = make_export(bridge);

	if (r == 0)
		r = start_pool(bridge);
	if (r < 0)
		return fail_to_serve(bridge, r, error);
	return start_frontend(bridge->sockets, error) ?: start_frontend(bridge->kernel, error);
}

static void report_ready(const struct bridge *bridge)
{
	char uri[BRIDGE_URI_MAX];
	const struct bridge_ready ready = {.device = bridge_device(bridge),
					   .uri = bridge_uri(bridge, uri),
					   .note = bridge->note,
					   .info = &bridge->info};

	if (bridge->config->on_ready)
		bridge->config->on_ready(bridge->config->context, &ready);
}

/* Appends to the note; it has room for this and the kernel's. */
static void note_buffers(struct bridge *bridge)
{
	const struct bridge_config *config = bridge->config;
	char is[UNITS_MAX], asked[UNITS_MAX];
	size_t n = strlen(bridge->note);

	if (bridge->info.slab_bytes >= config->volume.slab_bytes)
		return;
	snprintf(
		bridge->note + n, sizeof(bridge->note) - n,
		"%sthe limit of locked memory leaves %s of buffers a queue, not %s; raise it (ulimit -l, LimitMEMLOCK=infinity) for speed",
		n ? "; " : "", units_format_size(is, bridge->info.slab_bytes),
		units_format_size(asked, config->volume.slab_bytes));
}

static void on_frontend_started(struct frontend_host *host, const struct error *error)
{
	struct bridge *bridge = container_of(host, struct bridge, host);

	if (error)
		bridge_fail(bridge, error);
	else if (bridge->state == BRIDGE_SERVING)
		report_ready(bridge);
}

static void on_frontend_lost(struct frontend_host *host)
{
	bridge_stop(container_of(host, struct bridge, host), false);
}

static void on_frontend_left(struct frontend_host *host, const struct error *why)
{
	struct bridge *bridge = container_of(host, struct bridge, host);

	*bridge->error = *why;
	bridge->exit_code = (int)why->code;
	list_for_each (node, &bridge->pool.workers)
		worker_drain_kernel(list_entry(node, struct worker, node));
}

static void on_opened(void *context, const struct error *error)
{
	struct bridge *bridge = context;
	struct error own = {0};

	if (error) {
		bridge_fail(bridge, error);
		return;
	}
	if (bridge->state != BRIDGE_OPENING)
		return; /* bridge_stop came first */
	volume_get_info(bridge->volume, &bridge->info);
	note_buffers(bridge);
	bridge_move(bridge, BRIDGE_SERVING);
	if (serve(bridge, &own) != EXIT_OK)
		bridge_fail(bridge, &own);
	else if (!bridge->kernel || !bridge->kernel->is_starting)
		report_ready(bridge);
}

static void on_state(void *context, enum volume_state state)
{
	struct bridge *bridge = context;

	log_debug("volume %s: %s", bridge->config->name, volume_state_name(state));
}

static void on_path(void *context)
{
	bridge_path_look(context);
}

static void on_changed(void *context)
{
	struct bridge *bridge = context;
	uint64_t old_size = bridge->info.size_bytes;

	if (bridge->state != BRIDGE_SERVING)
		return;
	volume_get_info(bridge->volume, &bridge->info);
	nbd_export_update(&bridge->export, &bridge->info, bridge->config->is_read_only);
	if (bridge->info.size_bytes == old_size)
		return;
	log_info("volume %s: size changed from %llu to %llu bytes", bridge->config->name,
		 (unsigned long long)old_size, (unsigned long long)bridge->info.size_bytes);
	if (bridge->kernel)
		bridge->kernel->ops->resize(bridge->kernel);
}

static void on_closed(void *context)
{
	struct bridge *bridge = context;

	bridge->volume = NULL;
	loop_stop(&bridge->loop);
}

static const struct volume_callbacks callbacks = {
	.on_opened = on_opened,
	.on_state = on_state,
	.on_changed = on_changed,
	.on_closed = on_closed,
	.on_path = on_path,
};

/* ---- start and end of the process ----------------------------------------------------------- */

static void on_signal(struct loop_fd *lfd, uint32_t events)
{
	struct bridge *bridge = container_of(lfd, struct bridge, signals);
	struct signalfd_siginfo info;

	if (read(lfd->fd, &info, sizeof(info)) != sizeof(info))
		return;
	if (bridge->state > BRIDGE_SERVING) {
		log_warn("volume %s: second signal to stop, leaving at once", bridge->config->name);
		_exit(EXIT_FAILED);
	}
	bridge_stop(bridge, true);
}

/* Blocked before any thread is made, so that all of them leave the signals to us. */
static int watch_signals(struct bridge *bridge)
{
	sigset_t set;
	int fd;

	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return -errno;
	bridge->signals = (struct loop_fd){.fd = fd, .events = EPOLLIN, .on_event = on_signal};
	return loop_fd_add(&bridge->loop, &bridge->signals);
}

/* A socket that is bound but does not listen yet looks like that of a dead process, so the removal
 * of leftovers (run_dir.c) takes the same lock. Closing the file unlocks it; -1: no lock. */
static int lock_control(const struct bridge *bridge)
{
	const char *path = bridge->config->lock_path;
	int fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;

	if (fd >= 0 && flock(fd, LOCK_EX) < 0)
		log_warn("cannot lock %s: %s", path, strerror(errno));
	return fd;
}

static int listen_for_control(struct bridge *bridge)
{
	struct error *error = bridge->error;
	_autoclose_ int lock = -1;
	int r;

	if (!bridge->config->control_path)
		return 0;
	lock = lock_control(bridge);
	r = rpc_server_new(&bridge->loop, bridge->config->control_path, bridge_rpc_methods, bridge,
			   &bridge->rpc);
	if (r == 0)
		return 0;
	error->code = r == -EADDRINUSE ? EXIT_BUSY : r == -EACCES ? EXIT_PRIVILEGE : EXIT_FAILED;
	if (r == -EADDRINUSE) {
		snprintf(error->message, sizeof(error->message), "a volume '%s' exists already",
			 bridge->config->name);
		snprintf(error->hint, sizeof(error->hint), "choose another --name");
	} else {
		snprintf(error->message, sizeof(error->message), "cannot create %.180s: %s",
			 bridge->config->control_path, strerror(-r));
	}
	return r;
}

static int make_frontends(struct bridge *bridge)
{
	const struct bridge_config *config = bridge->config;
	struct error why = {0};
	bool wants_kernel = config->frontend != BRIDGE_FRONTEND_SOCKET;

	bridge->host = (struct frontend_host){.loop = &bridge->loop,
					      .export = &bridge->export,
					      .info = &bridge->info,
					      .has_room = has_room,
					      .add_conn = add_conn,
					      .on_started = on_frontend_started,
					      .on_left = on_frontend_left,
					      .on_lost = on_frontend_lost};
	if (wants_kernel && frontend_kernel_check(&why) != 0) {
		wants_kernel = false;
		if (config->frontend == BRIDGE_FRONTEND_NBD) {
			*bridge->error = why;
			return -EOPNOTSUPP;
		}
		snprintf(bridge->note, sizeof(bridge->note), "%s%s%s", why.message,
			 *why.hint ? "; " : "", why.hint);
	}
	bridge->sockets = frontend_socket_new(&bridge->host, &config->sockets);
	if (wants_kernel)
		bridge->kernel = frontend_kernel_new(&bridge->host, &config->kernel);
	return bridge->sockets && (bridge->kernel || !wants_kernel) ? 0 : -ENOMEM;
}

static uint64_t ns_between(uint64_t from, uint64_t to)
{
	return to - from;
}

static uint64_t stamp_now(void)
{
	return clock_ns();
}

static void prepare_captures(struct bridge *bridge)
{
	capture_init(&bridge->capture, ns_between);
	capture_service_init(&bridge->captures, &bridge->loop, stamp_now);
	capture_service_add(&bridge->captures, &bridge->capture);
}

static int open_volume(struct bridge *bridge)
{
	struct volume_config config = bridge->config->volume;

	config.capture = &bridge->capture;
	return volume_open(&bridge->loop, &config, &callbacks, bridge, &bridge->volume);
}

static int prepare(struct bridge *bridge)
{
	int r = loop_init(&bridge->loop, 0, NULL);

	prepare_captures(bridge);

	if (r == 0)
		r = watch_signals(bridge);
	if (r == 0)
		r = make_frontends(bridge);
	if (r == 0)
		r = listen_for_control(bridge);
	if (r == 0)
		r = bridge_metrics_start(bridge, bridge->error);
	if (r == 0)
		r = open_volume(bridge);
	return r;
}

static void clean_up(struct bridge *bridge)
{
	bridge_metrics_stop(bridge);
	rpc_server_free(bridge->rpc);
	capture_service_stop(&bridge->captures);
	capture_deinit(&bridge->capture);
	if (bridge->kernel)
		bridge->kernel->ops->free(bridge->kernel);
	if (bridge->sockets)
		bridge->sockets->ops->free(bridge->sockets);
	nbd_export_deinit(&bridge->export);
	loop_timer_stop(&bridge->deadline);
	if (bridge->signals.loop) {
		loop_fd_remove(&bridge->signals);
		close(bridge->signals.fd);
	}
	loop_deinit(&bridge->loop);
}

int bridge_run(const struct bridge_config *config, struct error *error)
{
	struct bridge *bridge = calloc(1, sizeof(*bridge));
	int r, code;

	*error = (struct error){.code = EXIT_FAILED};
	if (!bridge) {
		snprintf(error->message, sizeof(error->message), "out of memory");
		return EXIT_FAILED;
	}
	bridge->config = config;
	bridge->start_ns = clock_ns();
	bridge->error = error;
	pool_init(&bridge->pool);
	list_init(&bridge->conns);
	r = prepare(bridge);
	if (r == 0) {
		loop_run(&bridge->loop);
	} else {
		bridge->exit_code = (int)error->code;
		if (!*error->message)
			snprintf(error->message, sizeof(error->message),
				 "cannot start the volume: %s", strerror(-r));
	}
	clean_up(bridge);
	code = bridge->exit_code;
	free(bridge);
	return code;
}
