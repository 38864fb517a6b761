/* SPDX-License-Identifier: BSD-3-Clause */
/* See member.h. */
#include <string.h>

#include "base/clock.h"
#include "target/association/controller.h"
#include "target/export/health/health.h"
#include "target/association/host.h"
#include "target/association/host_id.h"
#include "target/association/member.h"
#include "target/engine/hosts.h"

enum {
	QUEUES_QUIET_MS = 200,
	REFUSALS_BURST = 5,
};

const char *member_refuse_association(const struct target *target, const char *hostnqn)
{
	const struct config_limits *limits = &target->config->limits;
	const struct host *host = host_find(target, hostnqn);

	if (host && host->n_queues >= limits->connections_per_host)
		return "too many connections: raise limits.connections_per_host";
	if (host && host->n_controllers >= limits->controllers_per_host)
		return "too many associations: raise limits.controllers_per_host";
	return NULL;
}

const char *member_refuse(const struct controller *controller)
{
	const struct config_limits *limits = &controller->target->config->limits;
	const struct host *host = controller->host;

	if (host->n_queues >= limits->connections_per_host)
		return "too many connections: raise limits.connections_per_host";
	if (atomic_load(&host->n_io_queues) >= limits->io_queues_per_host)
		return "too many I/O queues: raise limits.io_queues_per_host";
	return NULL;
}

struct queue *member_find(const struct controller *controller, uint16_t qid)
{
	list_for_each (node, &controller->queues) {
		struct queue *queue = list_entry(node, struct queue, member_node);

		if (queue->qid == qid && !queue->is_pending)
			return queue;
	}
	return NULL;
}

/* From here on it counts for its host, and, of a proven name, in the host's name. */
void member_admit(struct queue *queue)
{
	struct controller *controller = queue->member_of;

	queue_admit(queue);
	controller->host->n_queues++;
	host_stats_attach(queue, controller->hostnqn);
	if (queue->qid == 0) {
		controller->host->n_controllers++;
		controller->target->n_discovery += controller->is_discovery;
		if (controller->health)
			health_note_host(controller->health->health);
		return;
	}
	atomic_fetch_add(&controller->n_io, 1);
	atomic_fetch_add(&controller->host->n_io_queues, 1);
	controller_announce_soon(controller, QUEUES_QUIET_MS * NSEC_PER_MSEC);
}

void member_discount(const struct queue *queue)
{
	struct controller *controller = queue->member_of;

	if (queue->is_pending)
		return;
	controller->host->n_queues--;
	if (queue->qid == 0) {
		controller->host->n_controllers--;
		controller->target->n_discovery -= controller->is_discovery;
		return;
	}
	atomic_fetch_sub(&controller->n_io, 1);
	atomic_fetch_sub(&controller->host->n_io_queues, 1);
}

/* While it proved itself, others may have taken the last place. */
static const char *find_refusal(const struct controller *controller, const struct queue *queue)
{
	if (queue->qid == 0)
		return member_refuse_association(controller->target, controller->hostnqn);
	if (member_find(controller, queue->qid))
		return "the queue is connected already";
	return member_refuse(controller);
}

void member_on_proven(struct queue *queue)
{
	struct controller *controller = queue->member_of;
	const char *why = find_refusal(controller, queue);

	if (why) {
		if (log_limit_pass(&controller->target->refusals, REFUSALS_BURST))
			log_warn("host %s: refused at %s (%s), queue %u: %s",
				 hostnqn_label(controller->hostnqn), controller->subnqn,
				 queue->remote, queue->qid, why);
		queue_kill(queue, why);
		return;
	}
	member_admit(queue);
	if (queue->qid != 0)
		return;
	controller->is_unproven = false;
	controller_announce_soon(controller, ANNOUNCE_MS * NSEC_PER_MSEC);
	host_id_check(controller); /* another may have come first */
}
