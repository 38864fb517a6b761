/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Set for NSID FFFFFFFFh they change for all namespaces, one after the other if that takes a turn.
 * The first namespace that cannot change ends the command, with its status. Get Features needs one
 * namespace, with one exception: without one, Error Recovery returns what was last set for all
 * (nvme-cli reads it so).
 *
 * Write protection (Base 2.0, 8.12) takes a turn. The state is on disk before it is valid. Then
 * writes under way leave, the cache is flushed, and the host gets its answer. From then on the
 * medium does not change. "Until power cycle" ends with this rblkd, and cannot be revoked before.
 * Without a state directory the state could not be saved, so protection is not offered.
 */
#include "base/bits.h"
#include "base/check.h"
#include "target/command/admin/ns_features.h"
#include "target/engine/record/command_table.h"
#include "target/engine/record/controller.h"
#include "target/engine/request/parse.h"
#include "target/engine/queue/queue_path.h"
#include "target/engine/request/request.h"
#include "target/engine/request/request_run.h"
#include "target/export/guard/guard_new.h"
#include "target/export/guard/guard_state.h"
#include "target/export/io_errors.h"
#include "target/command/io/io.h"
#include "target/command/io/resv_command.h"
#include "target/command/io/resv_notice.h"
#include "target/engine/request/request_turn.h"

enum {
	ERROR_RECOVERY_TLER = 0xffff,
	WRITE_PROTECT_MASK = 7,
	RESV_MASK_BITS = 1 << NVME_RESV_REGISTRATION_PREEMPTED | 1 << NVME_RESV_RELEASED |
			 1 << NVME_RESV_PREEMPTED,
};

bool ns_features_is_one(unsigned feature)
{
	return feature == NVME_FEAT_ERROR_RECOVERY || feature == NVME_FEAT_RESV_MASK ||
	       feature == NVME_FEAT_RESV_PERSIST || feature == NVME_FEAT_WRITE_PROTECT;
}

bool write_protect_is_offered(const struct target *target)
{
	return target->runtime.state;
}

/* ---- get ------------------------------------------------------------------------------------ */

enum nvme_status ns_features_get(struct request *r, unsigned feature)
{
	bool is_of_reservations = feature == NVME_FEAT_RESV_MASK ||
				  feature == NVME_FEAT_RESV_PERSIST;
	uint32_t nsid = get_le32(r->sqe.nsid);
	const struct reservation *reservation;
	enum nvme_status status;

	if ((!nsid || nsid == NVME_NSID_ALL) && feature == NVME_FEAT_ERROR_RECOVERY) {
		r->result = r->queue->controller->error_recovery[0];
		return NVME_OK;
	}
	if (nsid == NVME_NSID_ALL && is_of_reservations)
		return NVME_INVALID_FIELD | NVME_DNR; /* not Invalid NSID: 5.27.1.26 */
	status = io_find_namespace(r);
	if (status != NVME_OK)
		return status;
	switch (feature) {
	case NVME_FEAT_ERROR_RECOVERY:
		r->result = r->queue->controller->error_recovery[r->ns->nsid];
		return NVME_OK;
	case NVME_FEAT_RESV_MASK:
		r->result = r->queue->controller->resv_mask[r->ns->nsid];
		return NVME_OK;
	case NVME_FEAT_RESV_PERSIST:
		reservation = atomic_load_explicit(&r->ns->guard->reservation,
						   memory_order_acquire);
		r->result = reservation && reservation->is_persistent;
		return NVME_OK;
	default:
		if (!write_protect_is_offered(r->queue->target))
			return NVME_INVALID_FIELD | NVME_DNR;
		r->result = atomic_load(&r->ns->guard->write_protect);
		return NVME_OK;
	}
}

/* ---- values of the controller, one for each namespace --------------------------------------- */

static enum request_state execute_value(struct request *r)
{
	struct controller *controller = r->queue->controller;
	uint32_t nsid = get_le32(r->sqe.nsid), value = get_le32(r->sqe.cdw11);
	bool is_mask = (get_le32(r->sqe.cdw10) & 0xff) == NVME_FEAT_RESV_MASK;

	for (uint32_t i = 0; i <= NSID_MAX; i++) { /* 0: the value set for all */
		if (nsid != NVME_NSID_ALL && nsid != i)
			continue;
		if (is_mask)
			controller->resv_mask[i] = (uint8_t)value;
		else
			controller->error_recovery[i] = (uint16_t)value;
	}
	return request_end(r, NVME_OK);
}

/* ---- reservations --------------------------------------------------------------------------- */

static void on_persistence_fresh(struct request *r)
{
	struct reservation_wish wish = {
		.hostid = r->queue->controller->hostid,
		.hostnqn = r->queue->controller->hostnqn,
		.cptpl = get_le32(r->sqe.cdw11) & 1 ? NVME_CPTPL_SET : NVME_CPTPL_CLEAR,
		.can_persist = r->pass.guard->store,
	};

	resv_change(r, reservation_set_persistence, &wish);
}

static void on_persistence_turn(struct request *r)
{
	request_refresh(r, on_persistence_fresh);
}

/* ---- write protection ----------------------------------------------------------------------- */

static void on_flushed(struct backend_io *io, int error)
{
	struct request *r = container_of(io, struct request, io);

	if (error < 0)
		namespace_fail(r->ns, error);
	request_finish_turn(r, error < 0 ? NVME_WRITE_FAULT | NVME_DNR : NVME_OK);
}

static bool is_write_inside(struct pass *owner, struct pass *pass)
{
	return pass->is_inside && pass->access >= ACCESS_WRITE;
}

static void on_writes_left(struct pass *pass)
{
	struct request *r = request_of_pass(pass);

	resv_notice_attributes(r);
	if (!atomic_load(&r->pass.guard->write_protect)) {
		request_finish_turn(r, NVME_OK);
		return;
	}
	io_start(r, (struct io_work){.op = BACKEND_FLUSH}, on_flushed);
}

static void on_saved(struct request *r, int error)
{
	struct guard *guard = r->pass.guard;

	if (error < 0) {
		request_finish_turn(r, NVME_INTERNAL_ERROR);
		return;
	}
	atomic_store(&guard->write_protect, guard->next.write_protect);
	guard_set_flag(guard, GUARD_PROTECTED, guard->next.write_protect);
	guard_visit(&r->pass, is_write_inside, on_writes_left);
}

static void on_protection_fresh(struct request *r)
{
	struct guard *guard = r->pass.guard;
	unsigned now = atomic_load(&guard->write_protect);
	unsigned wanted = get_le32(r->sqe.cdw11) & WRITE_PROTECT_MASK;

	if (wanted == now) {
		request_finish_turn(r, NVME_OK);
		return;
	}
	if (now == NVME_WP_UNTIL_POWER_CYCLE) {
		request_finish_turn(r, NVME_FEATURE_NOT_CHANGEABLE | NVME_DNR);
		return;
	}
	guard_begin_save(guard);
	guard->next.write_protect = wanted;
	request_save(r, false, on_saved);
}

static void on_protection_turn(struct request *r)
{
	request_refresh(r, on_protection_fresh);
}

/* ---- set ------------------------------------------------------------------------------------ */

static enum request_state take_turn(struct request *r)
{
	bool is_protection = (get_le32(r->sqe.cdw10) & 0xff) == NVME_FEAT_WRITE_PROTECT;

	return request_take_turn(r, is_protection ? on_protection_turn : on_persistence_turn);
}

/* Takes the turn of the next namespace above r->range, if the command is for all. */
static enum request_state take_next_turn(struct request *r)
{
	const struct subsystem *subsystem = queue_subsystem(r->queue);
	struct namespace *ns = subsystem ? subsystem_next_namespace(subsystem, r->range) : NULL;
	enum nvme_status status;

	if (!ns || queue_is_dying(r->queue))
		return request_end(r, NVME_OK);
	status = queue_check_path(r->queue, ns->nsid);
	if (status != NVME_OK)
		return request_end(r, status);
	r->range = ns->nsid;
	request_take_namespace(r, ns);
	return take_turn(r);
}

static void after_turn(struct request *r)
{
	request_give_namespace(r);
	if (take_next_turn(r) == REQUEST_RESPOND)
		request_run(r, REQUEST_RESPOND);
}

static enum nvme_status parse_turn(struct request *r)
{
	r->turns = TURN_WANTED;
	if (get_le32(r->sqe.nsid) != NVME_NSID_ALL) {
		r->execute = take_turn;
		return io_find_namespace(r);
	}
	r->range = 0;
	r->after_turn = after_turn;
	r->execute = take_next_turn;
	return NVME_OK;
}

static enum nvme_status parse_value(struct request *r, uint32_t bits)
{
	if (get_le32(r->sqe.cdw11) & ~bits)
		return NVME_INVALID_FIELD | NVME_DNR;
	r->execute = execute_value;
	return get_le32(r->sqe.nsid) == NVME_NSID_ALL ? NVME_OK : io_find_namespace(r);
}

enum nvme_status ns_features_parse_set(struct request *r, unsigned feature)
{
	switch (feature) {
	case NVME_FEAT_ERROR_RECOVERY: /* no namespace has what DULBE would enable */
		return parse_value(r, ERROR_RECOVERY_TLER);
	case NVME_FEAT_RESV_MASK:
		return parse_value(r, RESV_MASK_BITS);
	case NVME_FEAT_RESV_PERSIST:
		return parse_turn(r);
	default:
		if (!write_protect_is_offered(r->queue->target) ||
		    (get_le32(r->sqe.cdw11) & WRITE_PROTECT_MASK) > NVME_WP_UNTIL_POWER_CYCLE)
			return NVME_INVALID_FIELD | NVME_DNR;
		return parse_turn(r);
	}
}
