/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device joins when it is first seen, at a portal's address or with a connection. The control
 * thread creates the shares, which no poller knows yet, then sends `start`. Later messages about
 * queue pairs of that device arrive behind it.
 *
 * A removed device goes in this order, because each step needs the one before. Its queues die;
 * their backend I/O pins their buffers until it ends. When the last queue is freed, control sends
 * `stop`, and the pollers cease polling. When all have answered, control frees receives,
 * registrations, completion queues, the namespaces' registrations and the protection domain. When
 * the portals have let go too, transport/device.c gives up the device itself.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/units.h"
#include "target/engine/poller/poller.h"
#include "target/engine/poller/poller_device.h"
#include "target/engine/poller/poller_memory.h"
#include "target/engine/record/target.h"
#include "transport/cq.h"
#include "transport/cq_poll.h"

enum {
	SPARE_CQES = 64,
	FIRST_CQES = 512, /* it grows */
	RECEIVES_STEP = 256,
	FAILURES_BURST = 3,
};

static void on_device_stop(struct loop_msg *msg);
static void on_device_removed(struct device_user *user);

/* ---- a device comes ------------------------------------------------------------------------- */

/* Entries for the most connections that the limits allow, spread evenly, and for the receives. */
static unsigned cq_depth(const struct target *target)
{
	uint64_t n_queues = target->config->limits.connections / target->n_pollers + 1;
	uint64_t per_queue = queue_send_depth((unsigned)target->config->tuning.queue_depth) +
			     target->config->tuning.queue_depth + 1;
	uint64_t depth = target->config->tuning.shared_receives + n_queues * per_queue;

	return (unsigned)MIN(depth + SPARE_CQES, INT32_MAX);
}

static void post_receives(struct poller_device *pd, struct recv_part *part)
{
	if (recv_part_post(part) < 0)
		log_err("%s: poller %u cannot receive: connections will fail", pd->device->name,
			pd->poller->index);
}

/* Until the start succeeds, connections that are placed here time out. */
static void start_device(struct poller_device *pd)
{
	int r = cq_start(&pd->cq);

	pd->is_started = r == 0;
	if (r < 0) {
		log_errno(r, "%s: poller %u cannot start, and tries again", pd->device->name,
			  pd->poller->index);
		loop_timer_start(&pd->poller->loop, &pd->start_again, NSEC_PER_SEC);
	} else if (pd->first_receives) {
		post_receives(pd, pd->first_receives);
	}
}

static void on_start_again(struct loop_timer *timer)
{
	start_device(container_of(timer, struct poller_device, start_again));
}

static void on_device_start(struct loop_msg *msg)
{
	start_device(container_of(msg, struct poller_device, start));
}

void poller_device_free(struct poller_device *pd)
{
	if (!pd->poller)
		return;
	recv_ring_deinit(&pd->ring);
	mr_close(&pd->mr);
	cq_deinit(&pd->cq);
	*pd = (struct poller_device){0};
}

static int say_cannot(struct target *target, const struct device *device, int r, const char *what)
{
	if (log_limit_pass(&target->device_failures, FAILURES_BURST))
		log_err("%s: cannot make %s: %s", device->name, what, strerror(-r));
	return r;
}

static int say_no_memory(struct target *target, const struct device *device, int r, size_t n_bytes)
{
	char what[160];
	const char *hint = mr_explain(r, n_bytes, what, sizeof(what));

	if (r == -ENOMEM && pollers_can_shrink(target))
		return r; /* it is tried with less */
	if (log_limit_pass(&target->device_failures, FAILURES_BURST))
		log_err("%s: %s%s%s", device->name, what, *hint ? "; " : "", hint);
	return r;
}

/* Receives stay when their queues are gone, for later queues. */
static int make_receives(struct poller_device *pd, unsigned n, struct recv_part **ret_part)
{
	struct target *target = pd->poller->target;
	const struct domain *domain = &target->devices[pd->device->index].domain;
	int r = recv_ring_add(&pd->ring, domain, n, ret_part);

	if (r == -ENOSPC)
		return say_cannot(target, pd->device, r,
				  "more receives, its completion queues are full");
	return r < 0 ? say_no_memory(target, pd->device, r, n * (size_t)(64 + pd->ring.data_bytes))
		     : 0;
}

/* On iWARP each queue registers the memory itself (sink.h). */
static int register_memory(struct poller_device *pd, const struct domain *domain)
{
	const struct poller *poller = pd->poller;

	if (pd->device->limits.is_iwarp)
		return 0;
	return mr_open(domain, poller->memory.base, poller->memory.n_bytes, MR_SINK, &pd->mr);
}

static int make_device(struct poller *poller, struct device *device, struct domain *domain)
{
	const struct config_tuning *tuning = &poller->target->config->tuning;
	struct poller_device *pd = &poller->devices[device->index];
	unsigned n_recv = (unsigned)MIN(tuning->shared_receives, device->limits.max_srq_wr);
	int r;

	*pd = (struct poller_device){.poller = poller,
				     .device = device,
				     .start = {.run = on_device_start},
				     .start_again = {.on_expiry = on_start_again},
				     .stop = {.run = on_device_stop}};
	r = cq_init(&pd->cq, device, &poller->loop, FIRST_CQES, cq_depth(poller->target));
	if (r < 0)
		return say_cannot(poller->target, device, r, "a completion queue");
	r = register_memory(pd, domain);
	if (r < 0)
		return say_no_memory(poller->target, device, r, poller->memory.n_bytes);
	if (!device->limits.has_srq)
		return 0;
	r = recv_ring_init(&pd->ring, &pd->cq, domain, true, n_recv, sizeof(struct nvme_sqe),
			   (uint32_t)tuning->inline_data);
	if (r < 0)
		return say_cannot(poller->target, device, r, "a shared receive queue");
	pd->ring.on_recv = poller->on_recv;
	return make_receives(pd, MIN(RECEIVES_STEP, n_recv), &pd->first_receives);
}

static void on_more_receives(struct loop_msg *msg)
{
	struct recv_part *part = container_of(msg, struct recv_part, msg);

	post_receives(container_of(part->ring, struct poller_device, ring), part);
}

int poller_device_take_receives(struct poller_device *pd, unsigned n)
{
	const struct recv_ring *ring = &pd->ring;
	uint64_t n_wanted = MIN(align_up(pd->n_promised + n, RECEIVES_STEP), ring->n_max);
	struct recv_part *part;

	if (n_wanted > ring->n_made) {
		int r = make_receives(pd, (unsigned)n_wanted - ring->n_made, &part);

		if (r < 0)
			return r;
		part->msg.run = on_more_receives;
		loop_send(&pd->poller->loop, &part->msg);
	}
	pd->n_promised += n;
	return 0;
}

void poller_device_give_receives(struct poller_device *pd, unsigned n)
{
	check(n <= pd->n_promised);
	pd->n_promised -= n;
}

/* On iWARP the sink of a READ must be remotely writable, which namespace memory never is. */
static void register_namespaces(struct target *target, const struct domain *domain)
{
	struct snapshot *snapshot = atomic_load(&target->snapshot);

	if (snapshot && !domain->device->limits.is_iwarp)
		snapshot_register_memory(snapshot, domain);
}

static int make_device_everywhere(struct target_device *td, struct device *device)
{
	struct target *target = td->target;
	int r = domain_open(device, &td->domain);

	if (r < 0)
		return say_cannot(target, device, r, "a protection domain");
	for (unsigned i = 0; i < target->n_pollers; i++) {
		r = make_device(&target->pollers[i], device, &td->domain);
		if (r < 0)
			return r;
	}
	return 0;
}

static void unmake(struct target_device *td)
{
	struct target *target = td->target;
	unsigned index = (unsigned)(td - target->devices);

	snapshot_forget_memory(atomic_load(&target->snapshot), index);
	retire_forget_device(&target->retire, index);
	for (unsigned i = 0; i < target->n_pollers; i++)
		poller_device_free(&target->pollers[i].devices[index]);
	domain_close(&td->domain);
}

/* All devices with less memory. Their completion queues and receives stay. */
static int shrink(struct target *target)
{
	int r;

	for (unsigned i = 0; i < DEVICE_MAX; i++)
		for (unsigned p = 0; p < target->n_pollers; p++)
			mr_close(&target->pollers[p].devices[i].mr);
	r = pollers_shrink(target);
	for (unsigned i = 0; i < DEVICE_MAX && r == 0; i++)
		for (unsigned p = 0; p < target->n_pollers && r == 0; p++) {
			struct poller_device *pd = &target->pollers[p].devices[i];

			if (pd->poller)
				r = register_memory(pd, &target->devices[i].domain);
		}
	return r;
}

static void warn_of_less(const struct target *target, const struct device *device)
{
	const struct poller *poller = &target->pollers[0];
	char limit[UNITS_MAX] = "?", is[UNITS_MAX], asked[UNITS_MAX];
	struct rlimit memlock;

	if (getrlimit(RLIMIT_MEMLOCK, &memlock) == 0)
		units_format_size(limit, memlock.rlim_cur);
	log_warn(
		"%s: the limit of locked memory, %s, leaves %s of buffers, not %s: many hosts at once will be slower; raise it: LimitMEMLOCK=infinity in the unit, or ulimit -l unlimited",
		device->name, limit, units_format_size(is, poller->data_bytes * target->n_pollers),
		units_format_size(asked, target->config->tuning.buffers));
}

/* Halves the buffers until the device takes all, and then once more, because queues and their
 * receives need memory, too. */
static int make_with_less(struct target_device *td, struct device *device)
{
	struct target *target = td->target;
	int r = -ENOMEM;

	while (r == -ENOMEM && pollers_can_shrink(target)) {
		unmake(td);
		*td = (struct target_device){.target = target};
		r = shrink(target);
		if (r == 0)
			r = make_device_everywhere(td, device);
	}
	if (r == 0 && pollers_can_shrink(target))
		r = shrink(target);
	if (r == 0)
		warn_of_less(target, device);
	return r;
}

int pollers_add_device(struct target *target, struct device *device)
{
	struct target_device *td = &target->devices[device->index];
	int r;

	if (td->domain.pd)
		return device->is_removed ? -ENODEV : 0;
	*td = (struct target_device){.target = target};
	r = make_device_everywhere(td, device);
	if (r == -ENOMEM && pollers_can_shrink(target))
		r = make_with_less(td, device);
	if (r < 0) {
		unmake(td);
		return r;
	}
	register_namespaces(target, &td->domain);
	td->domain.user.on_removed = on_device_removed;
	for (unsigned p = 0; p < target->n_pollers; p++)
		loop_send(&target->pollers[p].loop,
			  &target->pollers[p].devices[device->index].start);
	return 0;
}

/* ---- a device goes -------------------------------------------------------------------------- */

/* Poller, before its thread ends or the device goes. */
void poller_device_stop(struct poller_device *pd)
{
	loop_timer_stop(&pd->start_again);
	if (pd->is_started)
		cq_stop(&pd->cq);
	pd->is_started = false;
}

static void on_device_stopped(struct loop_msg *msg)
{
	struct poller_device *pd = container_of(msg, struct poller_device, stop);
	struct target *target = pd->poller->target;
	struct target_device *td = &target->devices[pd->device->index];

	if (--td->n_stopping == 0)
		unmake(td);
}

static void on_device_stop(struct loop_msg *msg)
{
	struct poller_device *pd = container_of(msg, struct poller_device, stop);

	poller_device_stop(pd);
	pd->stop.run = on_device_stopped;
	loop_send(&pd->poller->target->loop, &pd->stop);
}

/* Nothing is posted any more, and nothing new arrives: the pollers release their shares. */
static void stop_when_unused(struct target_device *td)
{
	struct target *target = td->target;
	unsigned index = (unsigned)(td - target->devices);

	if (!td->is_removed || td->n_queues || td->n_stopping)
		return;
	td->n_stopping = target->n_pollers;
	for (unsigned p = 0; p < target->n_pollers; p++)
		loop_send(&target->pollers[p].loop, &target->pollers[p].devices[index].stop);
}

/* Connections and portals of the device are notified separately. */
static void on_device_removed(struct device_user *user)
{
	struct domain *domain = container_of(user, struct domain, user);
	struct target_device *td = container_of(domain, struct target_device, domain);

	td->is_removed = true;
	stop_when_unused(td);
}

void pollers_take_queue(struct target *target, const struct device *device)
{
	target->has_placed = true;
	target->devices[device->index].n_queues++;
}

void pollers_give_queue(struct target *target, const struct device *device)
{
	struct target_device *td = &target->devices[device->index];

	check(td->n_queues > 0);
	td->n_queues--;
	stop_when_unused(td);
}
