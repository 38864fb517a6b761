/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A target that hangs while its RDMA device goes on acknowledging (a stopped process) is
 * noticed by nothing else: no answer within the keep alive time is the end of the
 * association (admin.c's timeout), so it is noticed after at most one and a half of them.
 */
#include "base/bits.h"
#include "base/clock.h"
#include "initiator/control/controller_impl.h"
#include "initiator/control/controller_command.h"
#include "initiator/control/errors.h"
#include "initiator/control/keep_alive.h"

/* Without one, the target ends a discovery controller soon (Fabrics 1.1, 5.2). */
#define DISCOVERY_NS (30 * NSEC_PER_SEC)

uint64_t controller_keep_alive_ns(const struct controller *c)
{
	switch (c->kind) {
	case CONTROLLER_KIND_IO:
		return c->config->keep_alive_ns;
	case CONTROLLER_KIND_DISCOVERY:
		return 0;
	case CONTROLLER_KIND_PERSISTENT_DISCOVERY:
		return c->config->keep_alive_ns ?: DISCOVERY_NS;
	}
	return 0;
}

static void on_done(void *context, const struct admin_answer *answer)
{
	struct controller *c = context;

	c->keep_alive.is_pending = false;
	if (answer->status == NVME_OK)
		return;
	error_from_status(&c->error, "Keep Alive", answer->status);
	controller_fail(c);
}

static void on_timer(struct loop_timer *timer)
{
	struct keep_alive *ka = container_of(timer, struct keep_alive, timer);
	struct controller *c = container_of(ka, struct controller, keep_alive);
	struct admin_command command = {
		.sqe = {.opcode = NVME_ADMIN_KEEP_ALIVE},
		.timeout_ns = controller_keep_alive_ns(c),
		.done = on_done,
		.context = c,
	};

	loop_timer_start(c->loop, timer, controller_keep_alive_ns(c) / 2);
	if (ka->is_pending)
		return; /* its own timeout decides */
	ka->is_pending = true;
	controller_submit(c, &command);
}

void host_keep_alive_start(struct controller *c)
{
	c->keep_alive.timer.on_expiry = on_timer;
	c->keep_alive.is_pending = false;
	if (controller_keep_alive_ns(c))
		loop_timer_start(c->loop, &c->keep_alive.timer, controller_keep_alive_ns(c) / 2);
}

void host_keep_alive_stop(struct controller *c)
{
	loop_timer_stop(&c->keep_alive.timer);
}
