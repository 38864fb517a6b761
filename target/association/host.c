/* SPDX-License-Identifier: BSD-3-Clause */
/* See host.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/check.h"
#include "target/association/host.h"

struct host *host_find(const struct target *target, const char *nqn)
{
	list_for_each (node, &target->hosts) {
		struct host *host = list_entry(node, struct host, node);

		if (!host->is_guest && !strcmp(host->nqn, nqn))
			return host;
	}
	return NULL;
}

struct host *host_find_guest(const struct target *target, const union addr *remote)
{
	list_for_each (node, &target->hosts) {
		struct host *host = list_entry(node, struct host, node);

		if (host->is_guest && addr_is_same_party(&host->address, remote))
			return host;
	}
	return NULL;
}

static void set_qos(struct host *host, const struct target_config *config)
{
	const struct config_host *hosts = config->hosts.items;
	const struct config_qos none = {0}, *qos = &none;

	for (unsigned i = 0; i < config->hosts.n && !host->is_guest; i++)
		if (!strcmp(hosts[i].nqn, host->nqn))
			qos = &hosts[i].qos;
	qos_set(&host->qos, qos);
}

void hosts_set_qos(struct target *target)
{
	list_for_each (node, &target->hosts) {
		set_qos(list_entry(node, struct host, node), target->config);
	}
}

void hosts_set_limits(struct target *target)
{
	const struct config_limits *limits = &target->config->limits;
	size_t bytes = limits->bytes_per_host / MAX(target->n_pollers, 1);

	atomic_store(&target->buffers_per_host, (unsigned)limits->buffers_per_host);
	atomic_store(&target->bytes_per_host, limits->bytes_per_host ? bytes : SIZE_MAX);
	atomic_store(&target->io_queues_per_host, (unsigned)limits->io_queues_per_host);
	atomic_store(&target->discovery_timeout_ns, limits->discovery_timeout_ns);
}

static struct host *host_new(struct target *target, const char *nqn)
{
	struct host *host = aligned_alloc(_Alignof(struct host), sizeof(*host));

	if (!host)
		return NULL;
	memset(host, 0, sizeof(*host));
	snprintf(host->nqn, sizeof(host->nqn), "%s", nqn);
	list_init(&host->provers);
	qos_init(&host->qos);
	list_add_tail(&target->hosts, &host->node);
	return host;
}

struct host *host_take(struct target *target, const char *nqn)
{
	struct host *host = host_find(target, nqn);

	if (!host) {
		host = host_new(target, nqn);
		if (host)
			set_qos(host, target->config);
	}
	if (host)
		host->n_refs++;
	return host;
}

struct host *host_take_guest(struct target *target, const union addr *remote)
{
	struct host *host = host_find_guest(target, remote);

	if (!host) {
		host = host_new(target, "");
		if (host) {
			host->is_guest = true;
			host->address = *remote;
		}
	}
	if (host)
		host->n_refs++;
	return host;
}

void host_give(struct host *host)
{
	if (!host)
		return;
	check(host->n_refs > 0);
	if (--host->n_refs)
		return;
	check(!host->n_queues && !host->n_controllers && !atomic_load(&host->n_io_queues));
	check(!host->n_proofs && list_is_empty(&host->provers));
	list_remove(&host->node);
	free(host);
}
