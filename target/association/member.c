/* SPDX-License-Identifier: BSD-3-Clause */
/* See member.h. */
#include "base/check.h"
#include "target/association/connection.h"
#include "target/export/health/health.h"
#include "target/association/host.h"
#include "target/association/member.h"
#include "target/engine/record/controller.h"

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

struct connection *member_find(const struct controller *controller, uint16_t qid)
{
	list_for_each (node, &controller->connections) {
		struct connection *c = list_entry(node, struct connection, member_node);

		if (c->queue->qid == qid && connection_is_admitted(c))
			return c;
	}
	return NULL;
}

/* Counts the connection for its host: by its NQN if that is proven or needs no proof. */
void member_admit(struct connection *c)
{
	struct controller *controller = c->controller;

	connection_admit(c, controller->hostnqn);
	controller->host->n_queues++;
	if (c->queue->qid == 0) {
		controller->host->n_controllers++;
		controller->target->n_discovery += controller->is_discovery;
		if (controller->health)
			health_note_host(controller->health->health);
		return;
	}
	atomic_fetch_add(&controller->n_io, 1);
	atomic_fetch_add(&controller->host->n_io_queues, 1);
}

void member_discount(const struct connection *c)
{
	struct controller *controller = c->controller;

	if (!connection_is_admitted(c))
		return;
	check(controller->host->n_queues > 0);
	controller->host->n_queues--;
	if (c->queue->qid == 0) {
		check(controller->host->n_controllers > 0);
		controller->host->n_controllers--;
		check(!controller->is_discovery || controller->target->n_discovery > 0);
		controller->target->n_discovery -= controller->is_discovery;
		return;
	}
	check(atomic_load(&controller->n_io) > 0 &&
	      atomic_load(&controller->host->n_io_queues) > 0);
	atomic_fetch_sub(&controller->n_io, 1);
	atomic_fetch_sub(&controller->host->n_io_queues, 1);
}
