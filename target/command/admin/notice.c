/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Carries a change from the control thread to the events of hosts; see notice.h.
 *
 * Control sends a message only to a controller whose admin queue is live. The queue's `drain` is
 * sent later, and messages arrive in order, so the controller still exists when the poller reads
 * the message.
 */
#include <string.h>

#include "base/probe.h"
#include "target/command/admin/async_event.h"
#include "target/engine/record/command_table.h"
#include "target/engine/record/controller.h"
#include "target/command/admin/notice.h"
#include "target/engine/request/parse.h"
#include "target/engine/record/portal.h"

/* ---- poller of the admin queue ------------------------------------------------------------ */

static void take_namespaces(struct controller *controller)
{
	struct notice *notice = &controller->notice;

	for (unsigned word = 0; word < ARRAY_LEN(notice->changed_ns); word++) {
		uint64_t bits = atomic_exchange(&notice->changed_ns[word], 0);

		for (; bits; bits &= bits - 1)
			async_event_ns_changed(controller,
					       word * 64 + (uint32_t)__builtin_ctzll(bits));
	}
}

static void on_notice(struct loop_msg *msg)
{
	struct controller *controller = container_of(msg, struct controller, notice.msg);

	/* First: a change that is set after this sends the message again. */
	atomic_store(&controller->notice.is_sent, false);
	take_namespaces(controller);
	if (atomic_exchange(&controller->notice.has_discovery_changed, false))
		async_event_raise(controller, EVENT_DISCOVERY_CHANGED);
	if (atomic_exchange(&controller->notice.has_ana_changed, false))
		async_event_raise(controller, EVENT_ANA_CHANGED);
	if (atomic_exchange(&controller->notice.has_lost_host, false))
		async_event_raise(controller, EVENT_LOST_HOST);
	if (atomic_load(&controller->notice.is_moving)) {
		/* In this order: control looks for either of them. */
		atomic_store(&controller->notice.is_leaving, controller->n_aers > 0);
		atomic_store(&controller->notice.is_moving, false);
		async_event_raise(controller, EVENT_MOVING);
	}
}

/* ---- control ------------------------------------------------------------------------------ */

static bool can_be_told(const struct controller *controller)
{
	return controller_state(controller) != CONTROLLER_DYING;
}

static void send_notice(struct controller *controller)
{
	if (atomic_exchange(&controller->notice.is_sent, true))
		return;
	controller->notice.msg.run = on_notice;
	loop_send(&controller->poller->loop, &controller->notice.msg);
}

unsigned notice_namespace(struct target *target, const char *subnqn, uint32_t nsid)
{
	unsigned n = 0;

	PROBE(rblkd, namespace_changed, subnqn, nsid);
	list_for_each (node, &target->controllers) {
		struct controller *controller = list_entry(node, struct controller, node);

		if (!can_be_told(controller) || strcmp(controller->subnqn, subnqn) != 0)
			continue;
		atomic_fetch_or(&controller->notice.changed_ns[nsid / 64], 1ULL << nsid % 64);
		send_notice(controller);
		n++;
	}
	return n;
}

unsigned notice_ana(struct target *target, const char *subnqn, unsigned portal)
{
	unsigned n = 0;

	list_for_each (node, &target->controllers) {
		struct controller *controller = list_entry(node, struct controller, node);

		if (!can_be_told(controller) || controller->portal->index != portal ||
		    strcmp(controller->subnqn, subnqn) != 0)
			continue;
		atomic_store(&controller->notice.has_ana_changed, true);
		send_notice(controller);
		n++;
	}
	return n;
}

void notice_lost_host(struct controller *controller)
{
	if (!can_be_told(controller))
		return;
	atomic_store(&controller->notice.has_lost_host, true);
	send_notice(controller);
}

void notice_moving(struct target *target)
{
	list_for_each (node, &target->controllers) {
		struct controller *controller = list_entry(node, struct controller, node);

		if (!can_be_told(controller))
			continue;
		atomic_store(&controller->notice.is_moving, true);
		send_notice(controller);
	}
}

void notice_discovery(struct target *target)
{
	list_for_each (node, &target->controllers) {
		struct controller *controller = list_entry(node, struct controller, node);

		if (!controller->is_discovery || !can_be_told(controller))
			continue;
		atomic_store(&controller->notice.has_discovery_changed, true);
		send_notice(controller);
	}
}
