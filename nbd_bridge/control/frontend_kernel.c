/* SPDX-License-Identifier: BSD-3-Clause */
/*
 *   DETACHED -> ATTACHING -> ATTACHED <-> RECONNECTING
 *                   |           |              |
 *                   +-----------+--------------+
 *                               | stop
 *                            LEAVING -> DETACHING -> GONE
 *
 * A device outlives its process: the kernel holds its I/O while it has no connection. So a process
 * that starts first looks for a device with its namespace's UUID (ATTACHING). A process that stops
 * leaves a device in use to its successor (LEAVING); it detaches one that is not in use, and any
 * after `rblk detach`, which checks for users first (DETACHING). A connection that ends while the
 * process serves is replaced (RECONNECTING): the kernel drops a connection with a request older
 * than its timeout, and may not have noticed yet that a connection of a predecessor is dead.
 *
 * Choices, and what they prevent:
 *   - the kernel chooses the index, and the device destroys itself: every attach gets a fresh disk,
 *     without settings that its last user left behind
 *   - the namespace's UUID is the backend identifier, and the process holds a lock by that UUID
 *     (kernel_name.c): no other process can reconfigure the device, or get half of its connections
 *   - one connection by default, because of what happens after a crash (kernel_helper.c)
 *   - the kernel waits an hour for a dead connection to be replaced, and holds the device's I/O
 *   - the process keeps its memory: it must not wait for memory that the kernel frees only by
 *     writing to this very device
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/states.h"
#include "nbd_bridge/control/frontend.h"
#include "nbd_bridge/control/frontend_kernel.h"
#include "nbd_bridge/control/kernel_device.h"
#include "nbd_bridge/control/kernel_helper.h"
#include "nbd_bridge/control/kernel_name.h"

#define RECONNECT_DELAY_NS (200 * NSEC_PER_MSEC)
/* Requests sent before the timer was shortened are answered by then. */
#define LEAVE_DELAY_NS (200 * NSEC_PER_MSEC)

enum kernel_state {
	KERNEL_DETACHED,
	KERNEL_ATTACHING,
	KERNEL_ATTACHED,
	KERNEL_RECONNECTING,
	KERNEL_LEAVING, /* asks for users; with any, connections end and the device stays */
	KERNEL_DETACHING,
	KERNEL_GONE,
};

#define TO(s)	STATE_TO(KERNEL_##s)
#define TO_STOP (TO(LEAVING) | TO(DETACHING) | TO(GONE))
static const struct state_rule rules[] = {
	[KERNEL_DETACHED] = {"detached", TO(ATTACHING) | TO(GONE)},
	[KERNEL_ATTACHING] = {"attaching", TO(ATTACHED) | TO_STOP},
	[KERNEL_ATTACHED] = {"attached", TO(RECONNECTING) | TO_STOP},
	[KERNEL_RECONNECTING] = {"reconnecting", TO(ATTACHED) | TO_STOP},
	[KERNEL_LEAVING] = {"leaving", TO(DETACHING) | TO(GONE)},
	[KERNEL_DETACHING] = {"detaching", TO(GONE)},
	[KERNEL_GONE] = {"gone", 0},
};
#undef TO_STOP
#undef TO

/* Thread: control */
struct frontend_kernel {
	struct frontend frontend;
	struct frontend_kernel_config config;
	enum kernel_state state;
	struct kernel_helper helper;
	unsigned wanted; /* one bit for each job that waits for the helper */
	char device[32]; /* "" while it is not attached */
	uuid_t uuid;
	struct kernel_name name;
	bool is_left;	     /* the device stays behind */
	unsigned n_slots;    /* connections the device was made for */
	unsigned n_missing;  /* of them, to be replaced */
	unsigned n_attempts; /* to replace them, in a row */
	struct loop_timer timer;
};

static void move(struct frontend_kernel *fe, enum kernel_state state)
{
	states_move("frontend_kernel", rules, &fe->state, state);
}

static struct frontend_kernel *of(struct frontend *frontend)
{
	return container_of(frontend, struct frontend_kernel, frontend);
}

int frontend_kernel_check(struct error *error)
{
	int r = kernel_nbd_probe();

	if (r == 0 && geteuid() == 0)
		return 0;
	error->code = EXIT_PRIVILEGE;
	if (r < 0) {
		snprintf(error->message, sizeof(error->message),
			 "kernel module nbd is not available");
		snprintf(error->hint, sizeof(error->hint),
			 "modprobe nbd; containers and machines without it use the NBD socket");
	} else {
		snprintf(error->message, sizeof(error->message),
			 "attaching to /dev/nbdN needs root");
		snprintf(error->hint, sizeof(error->hint), "run as root, or use the NBD socket");
	}
	return (int)error->code;
}

/* Best effort: without the privileges a machine without swap still works. */
static void keep_memory(void)
{
	_autoclose_ int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) < 0 || mlockall(MCL_CURRENT | MCL_FUTURE) < 0 ||
	    fd < 0 || write(fd, "-1000", 5) < 0)
		log_debug("cannot protect the process from memory reclaim: %s", strerror(errno));
}

/* Stable and unique: the namespace's UUID or NGUID, or a hash of the subsystem and the NSID. */
static void choose_uuid(struct frontend_kernel *fe)
{
	const struct frontend_host *host = fe->frontend.host;
	const char *text = host->export->description;

	uuid_copy(fe->uuid, host->info->uuid);
	if (uuid_is_null(fe->uuid))
		memcpy(fe->uuid, host->info->nguid, sizeof(fe->uuid));
	if (uuid_is_null(fe->uuid))
		uuid_generate_sha1(fe->uuid, *uuid_get_template("url"), text, strlen(text));
}

/* ---- connections ---------------------------------------------------------------------------- */

static void describe(struct frontend_kernel *fe)
{
	const struct frontend_host *host = fe->frontend.host;
	struct kernel_nbd_params *params = &fe->helper.params;

	*params = (struct kernel_nbd_params){
		.size_bytes = host->info->size_bytes,
		.block_size = host->info->block_size,
		.io_timeout_s = fe->n_slots > 1 ? fe->config.io_timeout_s : 0,
		.dead_conn_timeout_s = 3600,
		.flags = nbd_export_flags(host->export, false),
	};
	uuid_unparse_lower(fe->uuid, params->backend);
	fe->helper.max_io_kib = host->export->max_io_bytes / 1024;
}

/* The kernel's ends into the helper's parameters, ours to workers. */
static int connect_pairs(struct frontend_kernel *fe, unsigned n)
{
	struct frontend_host *host = fe->frontend.host;
	struct kernel_nbd_params *params = &fe->helper.params;

	while (params->n_sockets < n) {
		int fds[2], r;

		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
			return -errno;
		params->sockets[params->n_sockets++] = fds[0];
		if (fcntl(fds[1], F_SETFL, O_NONBLOCK) < 0) {
			close(fds[1]);
			return -errno;
		}
		r = host->add_conn(host, fds[1], true, false);
		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- jobs for the helper -------------------------------------------------------------------- */

/* The most final first. */
static void give_next_job(struct frontend_kernel *fe)
{
	unsigned job = 0;

	if (fe->helper.is_busy || !fe->wanted)
		return;
	while (!(fe->wanted & 1u << job))
		job++;
	fe->wanted &= ~(1u << job);
	if (job == KERNEL_RECONNECT || job == KERNEL_RESIZE)
		describe(fe);
	if (job == KERNEL_RECONNECT) {
		unsigned n = fe->n_missing;

		fe->n_missing = 0;
		if (connect_pairs(fe, n) < 0) /* goes on with fewer, then tries again */
			fe->n_missing = n;
	}
	kernel_helper_give(&fe->helper, (enum kernel_job)job);
}

static void want(struct frontend_kernel *fe, enum kernel_job job)
{
	fe->wanted |= 1u << job;
	give_next_job(fe);
}

/* ---- attaching ------------------------------------------------------------------------------ */

static int fail(struct error *error, int r)
{
	error->code = r == -EPERM ? EXIT_PRIVILEGE : EXIT_FAILED;
	snprintf(error->message, sizeof(error->message), "cannot attach to /dev/nbdN: %s",
		 strerror(-r));
	snprintf(error->hint, sizeof(error->hint), "%s",
		 r == -EPERM ? "this needs CAP_SYS_ADMIN"
			     : "the kernel's log may know more; --frontend socket does without");
	return (int)error->code;
}

static int fail_taken(const struct frontend_kernel *fe, const struct kernel_name_content *owner,
		      struct error *error)
{
	error->code = EXIT_BUSY;
	snprintf(error->message, sizeof(error->message),
		 "%.150s has a block device already, as volume '%s'",
		 fe->frontend.host->export->description, owner->volume);
	snprintf(error->hint, sizeof(error->hint), "use that, or --frontend socket beside it");
	return EXIT_BUSY;
}

static int fail_different(const struct frontend_kernel *fe, const struct kernel_name_content *left,
			  struct error *error)
{
	error->code = EXIT_FAILED;
	snprintf(error->message, sizeof(error->message),
		 "/dev/nbd%u was left with blocks of %u bytes, the namespace now has %u",
		 fe->helper.index, left->block_size, fe->helper.params.block_size);
	snprintf(error->hint, sizeof(error->hint),
		 "unmount it, and give it up with `rblk detach --force /dev/nbd%u`",
		 fe->helper.index);
	return EXIT_FAILED;
}

/* A predecessor's device, or none. */
static int find_device(struct frontend_kernel *fe, const struct kernel_name_content *left,
		       struct error *error)
{
	struct kernel_helper *helper = &fe->helper;

	fe->n_slots = fe->config.n_connections;
	describe(fe);
	helper->is_found = kernel_device_find(KERNEL_SYS_BLOCK, helper->params.backend,
					      &helper->index) == 0;
	if (!helper->is_found)
		return 0;
	if (left->block_size && left->block_size != helper->params.block_size)
		return fail_different(fe, left, error);
	if (left->n_sockets) /* it has that many places, whatever the options are */
		fe->n_slots = MIN(left->n_sockets, (unsigned)KERNEL_NBD_SOCKETS_MAX);
	describe(fe);
	return 0;
}

/* Before the device is announced. */
static void write_name(struct frontend_kernel *fe)
{
	struct kernel_name_content content = {.n_sockets = fe->n_slots,
					      .block_size = fe->helper.params.block_size};
	int r;

	snprintf(content.volume, sizeof(content.volume), "%.63s", fe->frontend.host->export->name);
	r = kernel_name_write(&fe->name, &content);
	if (r < 0)
		log_warn("%s: %s; there will be no link in /dev/disk/by-rblk", fe->name.path,
			 strerror(-r));
}

static int begin(struct frontend_kernel *fe, struct error *error)
{
	struct kernel_name_content content;
	int r = kernel_name_take(&fe->name, fe->config.names_directory, fe->uuid, &content);

	if (r == -EBUSY)
		return fail_taken(fe, &content, error);
	if (r < 0)
		log_warn("%s: %s; no later process can take the device over", fe->name.path,
			 strerror(-r));
	r = find_device(fe, &content, error);
	if (r)
		return r;
	write_name(fe);
	r = kernel_helper_start(&fe->helper, fe->frontend.host->loop);
	if (r == 0)
		r = connect_pairs(fe, fe->n_slots);
	return r < 0 ? fail(error, r) : 0;
}

static int start(struct frontend *frontend, struct error *error)
{
	struct frontend_kernel *fe = of(frontend);
	int r;

	keep_memory();
	choose_uuid(fe);
	r = begin(fe, error);
	if (r) {
		for (unsigned i = 0; i < fe->helper.params.n_sockets; i++)
			close(fe->helper.params.sockets[i]);
		fe->is_left = fe->helper.is_found;
		move(fe, KERNEL_GONE);
		return r;
	}
	fe->frontend.is_starting = true;
	move(fe, KERNEL_ATTACHING);
	want(fe, KERNEL_ATTACH);
	return 0;
}

static void reconnect_later(struct frontend_kernel *fe)
{
	loop_timer_start(fe->frontend.host->loop, &fe->timer,
			 RECONNECT_DELAY_NS * MIN(++fe->n_attempts, 5u));
}

static void on_attach_done(struct frontend_kernel *fe, int result)
{
	struct frontend_host *host = fe->frontend.host;
	struct error error = {0};

	fe->frontend.is_starting = false;
	if (result < 0) {
		fe->is_left = kernel_device_find(KERNEL_SYS_BLOCK, fe->helper.params.backend,
						 &fe->helper.index) == 0;
		if (fe->state == KERNEL_ATTACHING)
			move(fe, KERNEL_GONE);
		fail(&error, result);
		host->on_started(host, &error);
		return;
	}
	snprintf(fe->device, sizeof(fe->device), "/dev/nbd%u", fe->helper.index);
	if (fe->helper.is_found)
		log_info("%s: taken over", fe->device);
	if (fe->state != KERNEL_ATTACHING)
		return; /* stopped meanwhile */
	move(fe, KERNEL_ATTACHED);
	host->on_started(host, NULL);
	if (fe->n_missing) {
		move(fe, KERNEL_RECONNECTING);
		reconnect_later(fe);
	}
}

/* ---- connections that end ------------------------------------------------------------------- */

/* One that never carried a request and is not the only one: the kernel had no place for it. */
static void conn_gone(struct frontend *frontend, bool was_used, unsigned n_left)
{
	struct frontend_kernel *fe = of(frontend);

	if (!n_left)
		fe->n_missing = fe->n_slots;
	else if (was_used)
		fe->n_missing = MIN(fe->n_missing + 1, fe->n_slots);
	if (fe->state != KERNEL_ATTACHED || !fe->n_missing)
		return;
	move(fe, KERNEL_RECONNECTING);
	fe->n_attempts = 0;
	reconnect_later(fe);
}

static void on_reconnect_done(struct frontend_kernel *fe, int result)
{
	struct frontend_host *host = fe->frontend.host;

	if (fe->state != KERNEL_RECONNECTING)
		return;
	if (result == -ENOENT) {
		log_warn("%s was detached by another program", fe->device);
		move(fe, KERNEL_GONE);
		host->on_lost(host);
	} else if (result < 0 || fe->n_missing) {
		if (result < 0) {
			log_errno(result, "%s: cannot be reconnected", fe->device);
			fe->n_missing = fe->n_slots;
		}
		reconnect_later(fe);
	} else {
		log_info("%s: reconnected", fe->device);
		move(fe, KERNEL_ATTACHED);
	}
}

/* ---- size ----------------------------------------------------------------------------------- */

static void resize(struct frontend *frontend)
{
	struct frontend_kernel *fe = of(frontend);

	if (fe->state >= KERNEL_ATTACHING && fe->state <= KERNEL_RECONNECTING)
		want(fe, KERNEL_RESIZE);
}

/* ---- the end -------------------------------------------------------------------------------- */

static void stop(struct frontend *frontend, bool may_leave)
{
	struct frontend_kernel *fe = of(frontend);

	if (fe->state == KERNEL_GONE || fe->state == KERNEL_DETACHED)
		return;
	loop_timer_stop(&fe->timer);
	fe->wanted = 0;
	move(fe, may_leave ? KERNEL_LEAVING : KERNEL_DETACHING);
	want(fe, may_leave ? KERNEL_LEAVE : KERNEL_DETACH);
}

static void on_leave_done(struct frontend_kernel *fe, int result)
{
	if (result == -EBUSY) {
		loop_timer_start(fe->frontend.host->loop, &fe->timer, LEAVE_DELAY_NS);
		return;
	}
	move(fe, KERNEL_DETACHING);
	want(fe, KERNEL_DETACH);
}

static void leave(struct frontend_kernel *fe)
{
	struct frontend_host *host = fe->frontend.host;
	struct error why = {.code = EXIT_BUSY};

	snprintf(why.message, sizeof(why.message), "%s is in use and holds its I/O", fe->device);
	snprintf(why.hint, sizeof(why.hint), "attach the volume again to go on");
	fe->is_left = true;
	move(fe, KERNEL_GONE);
	host->on_left(host, &why);
}

static void on_timer(struct loop_timer *timer)
{
	struct frontend_kernel *fe = container_of(timer, struct frontend_kernel, timer);

	if (fe->state == KERNEL_LEAVING)
		leave(fe);
	else
		want(fe, KERNEL_RECONNECT);
}

static void on_job_done(struct kernel_helper *helper, enum kernel_job job, int result)
{
	struct frontend_kernel *fe = container_of(helper, struct frontend_kernel, helper);

	if (job == KERNEL_ATTACH)
		on_attach_done(fe, result);
	else if (job == KERNEL_RECONNECT)
		on_reconnect_done(fe, result);
	else if (job == KERNEL_LEAVE)
		on_leave_done(fe, result);
	else if (job == KERNEL_DETACH)
		move(fe, KERNEL_GONE);
	give_next_job(fe);
}

static void free_frontend(struct frontend *frontend)
{
	struct frontend_kernel *fe = of(frontend);

	loop_timer_stop(&fe->timer);
	kernel_helper_end(&fe->helper);
	kernel_name_release(&fe->name, !fe->is_left);
	free(fe);
}

const char *frontend_kernel_device(struct frontend *frontend)
{
	return of(frontend)->device;
}

static const struct frontend_ops ops = {
	.name = "nbd",
	.start = start,
	.resize = resize,
	.conn_gone = conn_gone,
	.stop = stop,
	.free = free_frontend,
};

struct frontend *frontend_kernel_new(struct frontend_host *host,
				     const struct frontend_kernel_config *config)
{
	struct frontend_kernel *fe = calloc(1, sizeof(*fe));

	if (!fe)
		return NULL;
	fe->frontend = (struct frontend){.ops = &ops, .host = host};
	fe->config = *config;
	fe->config.n_connections = MAX(MIN(config->n_connections, (unsigned)KERNEL_NBD_SOCKETS_MAX),
				       1u);
	fe->helper.on_done = on_job_done;
	fe->timer.on_expiry = on_timer;
	fe->name.fd = -1;
	return &fe->frontend;
}
