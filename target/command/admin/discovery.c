/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log is a header of 1024 bytes and a record of 1024 bytes for each pair of subsystem and
 * listening portal, for each referral to another discovery service, and, if this service has a name
 * of its own, for itself on each portal. Hosts read it in pieces and compare genctr before and
 * after, so no copy is stored: each piece is generated from the snapshot of its moment. A portal
 * that listens on a wildcard address shows the address that this host connected to.
 */
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/rcu.h"
#include "target/command/admin/async_event.h"
#include "target/command/admin/discovery.h"
#include "target/engine/record/command_table.h"
#include "target/engine/record/controller.h"
#include "target/engine/request/parse.h"
#include "target/engine/record/portal.h"

enum {
	RECORD_BYTES = sizeof(struct nvmf_discovery_entry),
};

/* The part of the log that the host requested. */
struct window {
	uint8_t *data;
	uint64_t offset;
	uint32_t length;
};

/* Copies the part of record number i (the header is 0) that is within the window. */
static void emit(const struct window *w, uint64_t i, const void *record)
{
	uint64_t start = i * RECORD_BYTES, end = start + RECORD_BYTES;
	uint64_t from = MAX(start, w->offset), to = MIN(end, w->offset + w->length);

	if (from < to)
		memcpy(w->data + (from - w->offset), (const char *)record + (from - start),
		       to - from);
}

static bool is_wanted(const struct window *w, uint64_t i)
{
	return i * RECORD_BYTES < w->offset + w->length && (i + 1) * RECORD_BYTES > w->offset;
}

static void fill_address(const struct controller *controller, const struct portal *portal,
			 struct nvmf_discovery_entry *entry)
{
	const union addr *address = addr_is_wildcard(&portal->address) ? &controller->local
								       : &portal->address;
	char host[ADDR_STRING_MAX];

	entry->adrfam = address->sa.sa_family == AF_INET6 ? NVMF_ADRFAM_IPV6 : NVMF_ADRFAM_IPV4;
	snprintf((char *)entry->traddr, sizeof(entry->traddr), "%s",
		 addr_format_host(host, address));
	snprintf((char *)entry->trsvcid, sizeof(entry->trsvcid), "%u",
		 (unsigned)addr_port(&portal->address));
}

static void init_entry(struct nvmf_discovery_entry *entry, enum nvmf_subtype subtype,
		       const char *nqn)
{
	*entry = (struct nvmf_discovery_entry){
		.trtype = NVMF_TRTYPE_RDMA,
		.subtype = (uint8_t)subtype,
		.treq = NVMF_TREQ_NOT_REQUIRED | NVMF_TREQ_DISABLE_SQFLOW,
		.cntlid = put_le16(NVMF_CNTLID_DYNAMIC),
		.asqsz = put_le16(NVMF_ADMIN_SQ_ENTRIES),
		.tsas_rdma = {.qptype = NVMF_QPTYPE_RC,
			      .prtype = NVMF_PRTYPE_NONE,
			      .cms = NVMF_CMS_RDMA_CM},
	};
	snprintf((char *)entry->subnqn, sizeof(entry->subnqn), "%s", nqn);
}

/* An IPv6 host does not reach an IPv4 wildcard by the address that it uses, nor the reverse. */
static bool is_reachable(const struct controller *controller, const struct portal *portal)
{
	return atomic_load(&portal->state) == PORTAL_LISTENING &&
	       (!addr_is_wildcard(&portal->address) ||
		portal->address.sa.sa_family == controller->local.sa.sa_family);
}

/* Emits one record for each of these portals (bits) from number n on; returns the next number. */
static uint64_t emit_portals(const struct controller *controller, const struct window *w,
			     uint64_t n, struct nvmf_discovery_entry *entry, uint32_t portal_mask)
{
	for (unsigned i = 0; i < PORTALS_MAX; i++) {
		const struct portal *portal = &controller->target->portals[i];

		if (!(portal_mask >> i & 1) || !is_reachable(controller, portal))
			continue;
		n++;
		if (!is_wanted(w, n))
			continue;
		entry->portid = put_le16((uint16_t)(portal->index + 1));
		fill_address(controller, portal, entry);
		emit(w, n, entry);
	}
	return n;
}

static uint64_t emit_subsystem(const struct controller *controller,
			       const struct subsystem *subsystem, const struct window *w,
			       uint64_t n)
{
	struct nvmf_discovery_entry entry;

	init_entry(&entry, NVMF_SUBTYPE_NVM, subsystem->nqn);
	return emit_portals(controller, w, n, &entry, subsystem->portal_mask);
}

/* The discovery service itself, if it has a name for a later Connect. */
static uint64_t emit_itself(const struct controller *controller, const struct snapshot *snapshot,
			    const struct window *w, uint64_t n)
{
	struct nvmf_discovery_entry entry;

	if (!*snapshot->discovery_nqn)
		return n;
	init_entry(&entry, NVMF_SUBTYPE_CURRENT, snapshot->discovery_nqn);
	entry.eflags = put_le16(NVMF_EFLAGS_DUPLICATE | NVMF_EFLAGS_PERSISTENT);
	return emit_portals(controller, w, n, &entry, UINT32_MAX);
}

static uint64_t emit_referral(const struct referral *referral, const struct window *w, uint64_t n)
{
	struct nvmf_discovery_entry entry;

	init_entry(&entry, NVMF_SUBTYPE_REFERRAL, referral->nqn);
	entry.adrfam = referral->adrfam;
	snprintf((char *)entry.traddr, sizeof(entry.traddr), "%s", referral->traddr);
	snprintf((char *)entry.trsvcid, sizeof(entry.trsvcid), "%s", referral->trsvcid);
	emit(w, n + 1, &entry);
	return n + 1;
}

static uint64_t emit_records(const struct controller *controller, const struct snapshot *snapshot,
			     const struct window *w)
{
	uint64_t n = emit_itself(controller, snapshot, w, 0);

	for (unsigned i = 0; i < snapshot->n_subsystems; i++)
		if (subsystem_allows(&snapshot->subsystems[i], controller->hostnqn))
			n = emit_subsystem(controller, &snapshot->subsystems[i], w, n);
	for (unsigned i = 0; i < snapshot->n_referrals; i++)
		n = emit_referral(&snapshot->referrals[i], w, n);
	return n;
}

enum nvme_status discovery_fill_log(struct request *r, uint64_t offset)
{
	struct controller *controller = r->queue->controller;
	struct target *target = controller->target;
	const struct snapshot *snapshot = rcu_get(&target->snapshot);
	struct window w = {.data = r->data, .offset = offset, .length = r->length};
	struct nvmf_discovery_header header = {0};
	uint64_t n;

	/* The log is never that long, and offset + length must not wrap. */
	if (offset > UINT32_MAX)
		return NVME_INVALID_FIELD | NVME_DNR;
	n = emit_records(controller, snapshot, &w);
	if (offset > (n + 1) * RECORD_BYTES)
		return NVME_INVALID_FIELD | NVME_DNR;
	header.genctr = put_le64(snapshot->generation + atomic_load(&target->n_portal_changes));
	header.numrec = put_le64(n);
	emit(&w, 0, &header);
	if (!(get_le32(r->sqe.cdw10) & 1 << 15))
		async_event_unmask(controller, EVENT_DISCOVERY_CHANGED);
	return NVME_OK;
}
