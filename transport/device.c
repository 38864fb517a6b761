/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Devices, protection domains and memory registration.
 *
 * Removal of a device. The control thread detects it by an event of a connection or a listener, by
 * IBV_EVENT_DEVICE_FATAL, or because the device is missing from the list of devices. It reads the
 * list when the kernel reports that some device is removed, and when a connect or a listen fails.
 * It notifies the users of the device. Each user releases the device when it can, and the last
 * release frees the entry. With a driver that cannot remove a device in use (rxe, siw) the kernel
 * waits until then, and holds the locks of all that an administrator would try next.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>
#include <infiniband/verbs.h>

#include "base/bits.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/units.h"
#include "transport/device.h"
#include "transport/uevent.h"

static struct device devices[DEVICE_MAX];
static struct loop *control_loop;
static struct uevents uevents;
static unsigned n_watches; /* of control_loop */

static int query_limits(struct ibv_context *verbs, struct device_limits *limits)
{
	struct ibv_device_attr attr = {0};

	if (ibv_query_device(verbs, &attr))
		return -errno;
	*limits = (struct device_limits){
		.max_qp_wr = (unsigned)attr.max_qp_wr,
		.max_cqe = (unsigned)attr.max_cqe,
		.max_sge = (unsigned)attr.max_sge,
		.max_sge_rd = (unsigned)attr.max_sge_rd,
		.max_srq_wr = (unsigned)attr.max_srq_wr,
		.max_rd_atom = (unsigned)attr.max_qp_rd_atom,
		.max_init_rd_atom = (unsigned)attr.max_qp_init_rd_atom,
		.has_srq = attr.max_srq > 0 && attr.max_srq_sge >= 2,
		.has_send_invalidate = attr.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS,
		.max_windows = attr.device_cap_flags & (IBV_DEVICE_MEM_WINDOW_TYPE_2A |
							IBV_DEVICE_MEM_WINDOW_TYPE_2B)
				       ? (unsigned)attr.max_mw
				       : 0,
		.is_iwarp = verbs->device->transport_type == IBV_TRANSPORT_IWARP,
	};
	return 0;
}

/* ---- the way in ---- */

static void on_event(struct loop_fd *lfd, uint32_t events)
{
	struct device *device = container_of(lfd, struct device, events);
	struct ibv_async_event event;
	bool is_fatal;

	if (ibv_get_async_event(device->verbs, &event))
		return;
	is_fatal = event.event_type == IBV_EVENT_DEVICE_FATAL;
	log_debug("%s: event: %s", device->name, ibv_event_type_str(event.event_type));
	ibv_ack_async_event(&event);
	if (is_fatal)
		device_removed(device);
}

static void watch(struct device *device)
{
	int fd = device->verbs->async_fd;

	if (!control_loop || device->events.loop ||
	    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0)
		return;
	device->events = (struct loop_fd){.fd = fd, .events = EPOLLIN, .on_event = on_event};
	if (loop_fd_add(control_loop, &device->events) < 0)
		log_warn("%s: its events cannot be watched", device->name);
}

void devices_watch(struct loop *control)
{
	n_watches += control ? 1U : -1U;
	if (control ? n_watches > 1 : n_watches > 0)
		return;
	control_loop = control;
	if (control && uevents_open(&uevents, control, devices_look) < 0)
		log_debug("the kernel's events of devices cannot be heard");
	if (!control)
		uevents_close(&uevents);
	for (unsigned i = 0; i < DEVICE_MAX; i++)
		if (control && devices[i].verbs)
			watch(&devices[i]);
		else if (devices[i].events.loop)
			loop_fd_remove(&devices[i].events);
}

static int device_open(struct device *device, struct ibv_context *verbs)
{
	struct device_limits limits;
	int r = query_limits(verbs, &limits);

	if (r < 0)
		return r;
	*device = (struct device){
		.index = (unsigned)(device - devices), .verbs = verbs, .limits = limits};
	snprintf(device->name, sizeof(device->name), "%s", ibv_get_device_name(verbs->device));
	list_init(&device->users);
	list_init(&device->told);
	watch(device);
	return 0;
}

static int find(struct ibv_context *verbs, struct device **ret_device)
{
	struct device *vacant = NULL;

	for (unsigned i = DEVICE_MAX; i-- > 0;) {
		if (devices[i].verbs == verbs) {
			*ret_device = &devices[i];
			return 0;
		}
		if (!devices[i].verbs)
			vacant = &devices[i];
	}
	*ret_device = vacant;
	return vacant ? device_open(vacant, verbs) : -ENOSPC;
}

int device_hold(struct device_user *user, struct ibv_context *verbs)
{
	struct device *device;
	int r = find(verbs, &device);

	if (r < 0)
		return r;
	if (device->is_removed)
		return -ENODEV;
	user->device = device;
	list_add_tail(&device->users, &user->node);
	return 0;
}

/* ---- the way out ---- */

/* libibverbs opens a socket and a file at a time; without descriptors its list is incomplete. */
static bool can_list(void)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return false;
	close(fds[0]);
	close(fds[1]);
	return true;
}

/* Opens no device: an open device could not be removed. */
static bool is_listed(const struct device *device)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	bool found = !list || !can_list(); /* an unreadable list is no proof of a removal */

	for (unsigned i = 0; list && list[i]; i++)
		found |= list[i] == device->verbs->device;
	if (list)
		ibv_free_device_list(list);
	return found;
}

/*
 * Closes the context's descriptors, since the kernel waits for that. librdmacm owns the context. It
 * closes the context of a removed device only when it finds a new device (rdma-core, cma.c,
 * sync_devices_list), and does not use it until then. So librdmacm keeps the context, and here its
 * descriptors become those of "/", on which every request fails.
 */
static void close_descriptors(const struct device *device)
{
	const struct ibv_context *verbs = device->verbs;
	int nothing = open("/", O_PATH | O_CLOEXEC);

	if (nothing < 0 || (verbs->cmd_fd >= 0 && dup3(nothing, verbs->cmd_fd, O_CLOEXEC) < 0) ||
	    dup3(nothing, verbs->async_fd, O_CLOEXEC) < 0)
		log_warn("%s: cannot be released: %s", device->name, strerror(errno));
	else
		log_info("%s: released", device->name);
	if (nothing >= 0)
		close(nothing);
}

/* A device that broke but is still listed is usable again from the next connection on. */
static void forget_when_unused(struct device *device)
{
	if (!device->is_removed || device->is_telling || !list_is_empty(&device->users) ||
	    !list_is_empty(&device->told))
		return;
	if (is_listed(device)) {
		device->is_removed = false;
		return;
	}
	if (device->events.loop)
		loop_fd_remove(&device->events);
	close_descriptors(device);
	*device = (struct device){0};
}

void device_release(struct device_user *user)
{
	struct device *device = user->device;

	if (!device)
		return;
	user->device = NULL;
	list_remove(&user->node);
	forget_when_unused(device);
}

void device_removed(struct device *device)
{
	struct list *node;

	if (device->is_removed)
		return;
	log_warn("%s: the RDMA device is going away", device->name);
	device->is_removed = device->is_telling = true;
	while ((node = list_take_first(&device->users))) {
		struct device_user *user = list_entry(node, struct device_user, node);

		list_add_tail(&device->told, node);
		if (user->on_removed)
			user->on_removed(user);
	}
	device->is_telling = false;
	forget_when_unused(device);
}

void devices_look(void)
{
	for (unsigned i = 0; i < DEVICE_MAX; i++)
		if (devices[i].verbs && !is_listed(&devices[i]))
			device_removed(&devices[i]);
}

/* ---- protection domains ---- */

int domain_open(struct device *device, struct domain *domain)
{
	int r;

	*domain = (struct domain){.device = device};
	r = device_hold(&domain->user, device->verbs);
	if (r < 0)
		return r;
	errno = 0;
	domain->pd = ibv_alloc_pd(device->verbs);
	if (domain->pd)
		return 0;
	r = errno ? -errno : -ENOMEM;
	device_release(&domain->user);
	return r;
}

void domain_close(struct domain *domain)
{
	if (domain->pd && ibv_dealloc_pd(domain->pd))
		log_warn("%s: a protection domain is still in use and stays", domain->device->name);
	domain->pd = NULL;
	device_release(&domain->user);
}

/* ---- registered memory ---- */

static int access_flags(const struct device *device, enum mr_access access)
{
	switch (access) {
	case MR_LOCAL:
		return IBV_ACCESS_LOCAL_WRITE;
	case MR_SINK:
		return IBV_ACCESS_LOCAL_WRITE |
		       (device->limits.is_iwarp ? IBV_ACCESS_REMOTE_WRITE : 0);
	case MR_REMOTE_READ:
		return IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
	case MR_REMOTE_WRITE:
		return IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	case MR_REMOTE_BOTH:
		return IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
	case MR_WINDOWS:
		return IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;
	}
	return 0;
}

static size_t pages_of(const void *base, size_t n_bytes)
{
	uintptr_t mask = (uintptr_t)sysconf(_SC_PAGESIZE) - 1;

	return n_bytes ? (((uintptr_t)base + n_bytes + mask) & ~mask) - ((uintptr_t)base & ~mask)
		       : 0;
}

/* The bytes that this process has registered. Thread: any */
static _Atomic size_t registered_bytes;

int mr_open(const struct domain *domain, void *base, size_t n_bytes, enum mr_access access,
	    struct mr *ret_mr)
{
	int flags = access_flags(domain->device, access);
	struct ibv_mr *mr;

	errno = 0;
	mr = ibv_reg_mr(domain->pd, base, n_bytes, flags);
	if (!mr)
		return errno ? -errno : -ENOMEM;
	*ret_mr = (struct mr){.verbs = mr, .lkey = mr->lkey, .rkey = mr->rkey};
	registered_bytes += pages_of(base, n_bytes);
	return 0;
}

void mr_close(struct mr *mr)
{
	if (mr->verbs) {
		registered_bytes -= pages_of(mr->verbs->addr, mr->verbs->length);
		ibv_dereg_mr(mr->verbs);
	}
	*mr = (struct mr){0};
}

size_t mr_limit_bytes(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
		return SIZE_MAX;
	return limit.rlim_cur;
}

/* Pages that the kernel counts as pinned: those of foreign registrations, too. The software
 * provider pins nothing, so the caller takes the larger of this and its own count. */
static size_t pinned_bytes(void)
{
	_autofclose_ FILE *f = fopen("/proc/self/status", "re");
	unsigned long long kib = 0;
	char line[128];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "VmPin: %llu kB", &kib) == 1)
			break;
	return kib * KIB;
}

bool mr_limit_has_room(size_t n_bytes)
{
	size_t limit = mr_limit_bytes(), used;

	if (limit == SIZE_MAX)
		return true;
	used = MAX(pinned_bytes(), (size_t)registered_bytes);
	return used <= limit && n_bytes <= limit - used;
}

const char *mr_explain(int error, size_t n_bytes, char *buf, size_t n)
{
	char want[UNITS_MAX], have[UNITS_MAX];
	struct rlimit limit;

	units_format_size(want, n_bytes);
	if (error == -ENOMEM && !getrlimit(RLIMIT_MEMLOCK, &limit) &&
	    limit.rlim_cur != RLIM_INFINITY) {
		units_format_size(have, limit.rlim_cur);
		snprintf(buf, n, "cannot register %s for RDMA: locked-memory limit is %s", want,
			 have);
		return "raise it: LimitMEMLOCK=infinity in the unit, or ulimit -l unlimited";
	}
	snprintf(buf, n, "cannot register %s for RDMA: %s", want, strerror(-error));
	return "";
}
