/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Get Features and Set Features. Poller of the admin queue.
 *
 * Hosts set some features that have no meaning for a target without hardware (arbitration,
 * temperature threshold...). Those are plain dwords: stored and returned, without effect. No
 * feature is saveable.
 */
#include <string.h>

#include "base/bits.h"
#include "target/command/admin/identify.h"
#include "target/command/admin/keep_alive.h"
#include "target/command/admin/ns_features.h"
#include "target/engine/record/command_table.h"
#include "target/engine/record/controller.h"
#include "target/engine/record/host.h"
#include "target/engine/request/parse.h"
#include "target/engine/queue/queue_path.h"

enum {
	HOST_BEHAVIOR_BYTES = 512,
	HOST_ID_BYTES = 16,
	SELECT_CURRENT = 0,
	SELECT_DEFAULT = 1,
	SELECT_SAVED = 2,
	SELECT_SUPPORTED = 3,
	SUPPORTED_NS_SPECIFIC = 2,
	SUPPORTED_CHANGEABLE = 4,
	AER_SMART_BITS = 0xff,
};

static bool is_plain(unsigned feature)
{
	switch (feature) {
	case NVME_FEAT_ARBITRATION:
	case NVME_FEAT_POWER:
	case NVME_FEAT_TEMPERATURE:
	case NVME_FEAT_INTERRUPT_COALESCING:
	case NVME_FEAT_INTERRUPT_VECTOR:
	case NVME_FEAT_WRITE_ATOMICITY:
		return true;
	default:
		return false;
	}
}

static bool is_known(const struct controller *controller, unsigned feature)
{
	if (feature == NVME_FEAT_ASYNC_EVENT || feature == NVME_FEAT_KATO)
		return true;
	if (controller->is_discovery)
		return false;
	return ns_features_is_one(feature) || is_plain(feature) || feature == NVME_FEAT_VWC ||
	       feature == NVME_FEAT_QUEUES || feature == NVME_FEAT_HOST_BEHAVIOR ||
	       feature == NVME_FEAT_HOST_ID;
}

/* A feature of all namespaces needs the paths to all of them (8.1). */
static enum nvme_status check_all_paths(struct request *r)
{
	const struct subsystem *subsystem = queue_subsystem(r->queue);
	enum nvme_status status = NVME_OK;
	struct namespace *ns = NULL;

	for (uint32_t nsid = 0;
	     status == NVME_OK && subsystem && (ns = subsystem_next_namespace(subsystem, nsid));
	     nsid = ns->nsid)
		status = queue_check_path(r->queue, ns->nsid);
	return status;
}

/* A feature of a namespace needs the path to it, and so does Write Atomicity (8.1). After a
 * persistent loss no feature can be set for that namespace. */
static enum nvme_status check_path(struct request *r, unsigned feature, bool is_set)
{
	enum nvme_status status = queue_check_path(r->queue, get_le32(r->sqe.nsid));

	if (is_set && get_le32(r->sqe.nsid) == NVME_NSID_ALL)
		return check_all_paths(r);
	if (status == NVME_OK || ns_features_is_one(feature) ||
	    feature == NVME_FEAT_WRITE_ATOMICITY || (is_set && status == NVME_ANA_PERSISTENT_LOSS))
		return status;
	return NVME_OK;
}

/* A feature of the controller cannot be set for one namespace: the host would regard it as a
 * feature of that namespace (5.27). */
static enum nvme_status check_scope(struct request *r, unsigned feature)
{
	const struct subsystem *subsystem = queue_subsystem(r->queue);
	uint32_t nsid = get_le32(r->sqe.nsid);

	if (ns_features_is_one(feature) || nsid == 0 || nsid == NVME_NSID_ALL)
		return NVME_OK;
	return (subsystem && subsystem_namespace(subsystem, nsid) ? NVME_FEATURE_NOT_NS_SPECIFIC
								  : NVME_INVALID_NSID) |
	       NVME_DNR;
}

/* ---- get ----------------------------------------------------------------------------------- */

/* For a feature whose value is a dword. */
static uint32_t current_value(struct request *r, unsigned feature)
{
	struct controller *controller = r->queue->controller;
	unsigned n;

	switch (feature) {
	case NVME_FEAT_ASYNC_EVENT:
		return controller->event_mask;
	case NVME_FEAT_KATO:
		return controller->kato_ms;
	case NVME_FEAT_VWC:
		return controller_has_cache(r->queue);
	case NVME_FEAT_QUEUES:
		n = atomic_load(&controller->n_granted) - 1;
		return n | n << 16;
	default:
		return feature < FEATURES_PLAIN ? controller->features[feature] : 0;
	}
}

static uint32_t supported(unsigned feature)
{
	if (ns_features_is_one(feature))
		return SUPPORTED_NS_SPECIFIC | SUPPORTED_CHANGEABLE;
	return feature == NVME_FEAT_HOST_ID ? 0 : SUPPORTED_CHANGEABLE;
}

static enum request_state execute_get(struct request *r)
{
	struct controller *controller = r->queue->controller;
	uint32_t cdw10 = get_le32(r->sqe.cdw10);
	unsigned feature = cdw10 & 0xff, select = cdw10 >> 8 & 7;

	if (ns_features_is_one(feature) && select == SELECT_CURRENT)
		return request_end(r, ns_features_get(r, feature));
	if (feature == NVME_FEAT_HOST_ID && r->data)
		memcpy(r->data, controller->hostid, HOST_ID_BYTES);
	else if (feature == NVME_FEAT_HOST_BEHAVIOR && r->data)
		memcpy(r->data, controller->host_behavior, HOST_BEHAVIOR_BYTES);
	if (select == SELECT_SUPPORTED)
		r->result = supported(feature);
	else if (select == SELECT_CURRENT || is_plain(feature))
		r->result = select == SELECT_CURRENT ? current_value(r, feature) : 0;
	else
		r->result = current_value(r, feature);
	return request_end(r, NVME_OK);
}

static enum nvme_status parse_get(struct request *r)
{
	uint32_t cdw10 = get_le32(r->sqe.cdw10);
	unsigned feature = cdw10 & 0xff, select = cdw10 >> 8 & 7;
	enum nvme_status status;

	if (!is_known(r->queue->controller, feature) || select > SELECT_SUPPORTED)
		return NVME_INVALID_FIELD | NVME_DNR;
	status = check_path(r, feature, false);
	if (status != NVME_OK)
		return status;
	if (feature == NVME_FEAT_HOST_ID && select != SELECT_SUPPORTED) {
		if (!(get_le32(r->sqe.cdw11) & 1)) /* CTRATT reports 128-bit host identifiers */
			return NVME_INVALID_FIELD | NVME_DNR;
		r->length = HOST_ID_BYTES;
	} else if (feature == NVME_FEAT_HOST_BEHAVIOR && select != SELECT_SUPPORTED) {
		r->length = HOST_BEHAVIOR_BYTES;
	} else {
		return NVME_OK;
	}
	r->direction = DIRECTION_C2H;
	return parse_check_sgl(r, false);
}

/* ---- set ----------------------------------------------------------------------------------- */

static enum nvme_status set_queues(struct request *r, uint32_t cdw11)
{
	struct controller *controller = r->queue->controller;
	uint32_t n_sq = cdw11 & 0xffff, n_cq = cdw11 >> 16, n;

	if (n_sq == 0xffff || n_cq == 0xffff)
		return NVME_INVALID_FIELD | NVME_DNR;
	if (atomic_load(&controller->n_io))
		return NVME_COMMAND_SEQUENCE | NVME_DNR;
	n = MIN(MIN(n_sq, n_cq) + 1, (uint32_t)r->queue->target->config->tuning.io_queues);
	n = MIN(n, host_room_for_queues(r->queue->target, controller->host));
	atomic_store(&controller->n_granted, n);
	r->result = (n - 1) | (n - 1) << 16;
	return NVME_OK;
}

static enum nvme_status set_async_event(struct request *r, uint32_t mask)
{
	if (mask & ~(controller_oaes(r->queue) | AER_SMART_BITS))
		return NVME_INVALID_FIELD | NVME_DNR;
	r->queue->controller->event_mask = mask;
	return NVME_OK;
}

static enum nvme_status set_kato(struct controller *controller, uint32_t ms)
{
	if (ms > KATO_MAX_MS)
		return NVME_KATO_INVALID | NVME_DNR;
	controller->kato_ms = ms;
	keep_alive_start(controller);
	return NVME_OK;
}

static enum nvme_status set_feature(struct request *r, unsigned feature, uint32_t value)
{
	struct controller *controller = r->queue->controller;

	switch (feature) {
	case NVME_FEAT_ASYNC_EVENT:
		return set_async_event(r, value);
	case NVME_FEAT_KATO:
		return set_kato(controller, value);
	case NVME_FEAT_QUEUES:
		return set_queues(r, value);
	case NVME_FEAT_VWC: /* it cannot be turned off */
		return value & 1 ? NVME_OK : NVME_FEATURE_NOT_CHANGEABLE | NVME_DNR;
	case NVME_FEAT_HOST_BEHAVIOR:
		memcpy(controller->host_behavior, r->data, HOST_BEHAVIOR_BYTES);
		return NVME_OK;
	default:
		controller->features[feature] = value;
		return NVME_OK;
	}
}

static enum request_state execute_set(struct request *r)
{
	return request_end(r,
			   set_feature(r, get_le32(r->sqe.cdw10) & 0xff, get_le32(r->sqe.cdw11)));
}

static enum nvme_status parse_set(struct request *r)
{
	uint32_t cdw10 = get_le32(r->sqe.cdw10);
	unsigned feature = cdw10 & 0xff;
	enum nvme_status status;

	if (!is_known(r->queue->controller, feature))
		return NVME_INVALID_FIELD | NVME_DNR;
	if (feature == NVME_FEAT_HOST_ID) /* Connect has set it */
		return NVME_COMMAND_SEQUENCE | NVME_DNR;
	if (cdw10 >> 31)
		return NVME_FEATURE_NOT_SAVEABLE | NVME_DNR;
	status = check_path(r, feature, true);
	if (status == NVME_OK)
		status = check_scope(r, feature);
	if (status != NVME_OK)
		return status;
	if (ns_features_is_one(feature))
		return ns_features_parse_set(r, feature);
	if (feature != NVME_FEAT_HOST_BEHAVIOR)
		return NVME_OK;
	r->direction = DIRECTION_H2C;
	r->length = HOST_BEHAVIOR_BYTES;
	return parse_check_sgl(r, false);
}

const struct nvme_command features_get_command = {
	.opcode = NVME_ADMIN_GET_FEATURES,
	.name = "Get Features",
	.parse = parse_get,
	.execute = execute_get,
	.effects = NVME_EFFECT_CSUPP,
};

const struct nvme_command features_set_command = {
	.opcode = NVME_ADMIN_SET_FEATURES,
	.name = "Set Features",
	.parse = parse_set,
	.execute = execute_set,
	.effects = NVME_EFFECT_CSUPP,
};
