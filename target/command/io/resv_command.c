/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reservation Register, Acquire, Release and Report. Poller of the queue.
 *
 *   data is there --> turn --> what other rblkd have changed is read, where they share the state
 *     --> reservation.c makes the next state
 *     --> kept, if it must survive a restart (PTPL) or is shared --> published
 *     --> visit: commands that it forbids leave; Preempt and Abort also stops its victims' commands
 *     --> notifications, answer
 *
 * So when a host reads that it holds the reservation, no command that the reservation forbids is on
 * its way to the medium, even if the command was admitted before. That holds for every action.
 * Preempt and Abort does more: commands of victims that wait end with "aborted due to preempt and
 * abort", and the other commands of victims have finished.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/check.h"
#include "target/export/guard/guard_adopt.h"
#include "target/export/guard/guard_state.h"
#include "target/command/io/io.h"
#include "target/command/io/resv_command.h"
#include "target/command/io/resv_notice.h"
#include "target/engine/request/request_turn.h"
#include "target/export/guard/reservation.h"
#include "target/engine/record/host.h"
#include "target/engine/request/request.h"
#include "transport/wire/strings.h"

enum {
	COMPLAINTS_BURST = 5,
};

static struct reservation *current(const struct guard *guard)
{
	return atomic_load_explicit(&guard->reservation, memory_order_acquire);
}

static const uint8_t *hostid_of(const struct queue *queue)
{
	return queue->controller->hostid;
}

/* ---- changes -------------------------------------------------------------------------------- */

static bool is_preempt_and_abort(const struct request *r)
{
	return r->sqe.opcode == NVME_IO_RESERVATION_ACQUIRE &&
	       (get_le32(r->sqe.cdw10) & NVME_RESV_ACTION_MASK) == NVME_RACQA_PREEMPT_ABORT;
}

/* Whether its host was registered before the change and no longer is. */
static bool is_victim(const struct request *owner, const struct pass *pass)
{
	const uint8_t *hostid = pass->client->ops->hostid(pass->client);

	return pass != &owner->pass && is_preempt_and_abort(owner) &&
	       reservation_is_registered(owner->old_state, hostid) &&
	       !reservation_is_registered(current(pass->guard), hostid);
}

static bool must_leave(struct pass *owner, struct pass *pass)
{
	bool must_abort = is_victim(request_of_pass(owner), pass);

	if (must_abort && pass->is_command && !pass->is_inside)
		request_preempt(pass);
	return pass->is_inside &&
	       (must_abort ||
		!reservation_allows(current(pass->guard), pass->client->ops->hostid(pass->client),
				    pass->access));
}

static void on_left(struct pass *pass)
{
	struct request *r = request_of_pass(pass);

	resv_notice_send(&(struct resv_news){.target = r->queue->target,
					     .subnqn = r->queue->controller->subnqn,
					     .nsid = r->ns->nsid,
					     .actor = hostid_of(r->queue),
					     .before = r->old_state,
					     .after = current(pass->guard)});
	free(r->old_state);
	request_finish_turn(r, NVME_OK);
}

static void on_saved(struct request *r, int error)
{
	struct guard *guard = r->pass.guard;

	if (error < 0) {
		free(guard->next.reservation);
		request_finish_turn(r, NVME_INTERNAL_ERROR);
		return;
	}
	r->old_state = guard_replace_reservation(guard);
	guard_visit(&r->pass, must_leave, on_left);
}

void resv_change(struct request *r, reservation_action *action, const struct reservation_wish *wish)
{
	struct guard *guard = r->pass.guard;
	const struct reservation *now = current(guard);
	struct reservation *next;
	enum nvme_status status = action(now, wish, &next);
	bool is_kept;

	if (status != NVME_OK) {
		request_finish_turn(r, status);
		return;
	}
	is_kept = next->is_persistent || (now && now->is_persistent);
	guard_begin_save(guard);
	guard->next.reservation = next;
	request_save(r, !is_kept, on_saved);
}

/* ---- Register, Acquire, Release ------------------------------------------------------------- */

static void complain_about_persistence(const struct request *r, const struct reservation_wish *wish)
{
	if (wish->cptpl == NVME_CPTPL_SET && !wish->can_persist &&
	    log_limit_pass(&r->queue->poller->complaints, COMPLAINTS_BURST))
		log_warn_about(
			LOG_ABOUT(.subsystem = r->queue->controller->subnqn, .nsid = r->ns->nsid,
				  .host = r->queue->controller->hostnqn),
			"host %s: namespace %u: a reservation that survives a restart is refused: set state_directory (and uuid, if it is ram)",
			hostnqn_label(r->queue->controller->hostnqn), r->ns->nsid);
}

static void on_fresh(struct request *r)
{
	uint32_t cdw10 = get_le32(r->sqe.cdw10);
	struct reservation_wish wish = {
		.hostid = hostid_of(r->queue),
		.hostnqn = r->queue->controller->hostnqn,
		.action = cdw10 & NVME_RESV_ACTION_MASK,
		.ignores_key = cdw10 & NVME_RESV_IEKEY,
		.crkey = r->keys[0],
		.key = r->keys[1],
		.can_persist = r->pass.guard->store,
		.is_id_bound = atomic_load(&r->queue->controller->is_id_bound),
	};

	if (r->sqe.opcode == NVME_IO_RESERVATION_REGISTER)
		wish.cptpl = cdw10 >> NVME_RESV_CPTPL_SHIFT;
	else
		wish.type = cdw10 >> NVME_RESV_RTYPE_SHIFT & 0xff;
	complain_about_persistence(r, &wish);
	if (r->sqe.opcode == NVME_IO_RESERVATION_REGISTER)
		resv_change(r, reservation_register, &wish);
	else if (r->sqe.opcode == NVME_IO_RESERVATION_ACQUIRE)
		resv_change(r, reservation_acquire, &wish);
	else
		resv_change(r, reservation_release, &wish);
}

static void on_turn(struct request *r)
{
	request_refresh(r, on_fresh);
}

static enum request_state execute(struct request *r)
{
	le64 keys[2] = {0};

	/* A host without an identifier cannot be a registrant (8.19.1). */
	if (host_id_is_none(hostid_of(r->queue)))
		return request_end(r, NVME_INVALID_FIELD | NVME_DNR);
	memcpy(keys, r->data, r->length);
	r->keys[0] = get_le64(keys[0]);
	r->keys[1] = get_le64(keys[1]);
	return request_take_turn(r, on_turn);
}

static enum nvme_status parse(struct request *r, size_t n_bytes)
{
	enum nvme_status status = io_find_namespace(r);

	if (status != NVME_OK)
		return status;
	r->turns = TURN_WANTED;
	r->direction = DIRECTION_H2C;
	r->length = (uint32_t)n_bytes;
	return parse_check_sgl(r, false);
}

static enum nvme_status parse_register(struct request *r)
{
	return parse(r, sizeof(struct nvme_resv_register));
}

static enum nvme_status parse_acquire(struct request *r)
{
	return parse(r, sizeof(struct nvme_resv_acquire));
}

static enum nvme_status parse_release(struct request *r)
{
	return parse(r, sizeof(struct nvme_resv_release));
}

/* ---- Report --------------------------------------------------------------------------------- */

static void put(struct request *r, size_t offset, const void *from, size_t n)
{
	if (offset < r->length)
		memcpy((char *)r->data + offset, from, MIN(n, r->length - offset));
}

static void fill_report(struct request *r)
{
	const struct reservation *now = current(r->pass.guard);
	unsigned n = now ? now->n : 0;
	struct nvme_resv_status status = {
		.regctl = {(uint8_t)n, (uint8_t)(n >> 8)},
	};

	memset(r->data, 0, r->length);
	if (now) {
		status.gen = put_le32(now->generation);
		status.rtype = now->type;
		status.ptpls = now->is_persistent;
	}
	put(r, 0, &status, sizeof(status));
	for (unsigned i = 0; i < n; i++) {
		struct nvme_resv_registrant entry = {
			.cntlid = put_le16(NVMF_CNTLID_DYNAMIC),
			.rcsts = reservation_is_holder(now, i),
			.rkey = put_le64(now->registrants[i].key),
		};

		memcpy(entry.hostid, now->registrants[i].hostid, HOSTID_BYTES);
		put(r, sizeof(status) + i * sizeof(entry), &entry, sizeof(entry));
	}
}

static void on_report_fresh(struct request *r)
{
	fill_report(r);
	request_finish_turn(r, NVME_OK);
}

static void on_report_turn(struct request *r)
{
	request_refresh(r, on_report_fresh);
}

/* Only where other rblkd share the state does a report take a turn: to read it. */
static enum request_state execute_report(struct request *r)
{
	if (r->turns == TURN_WANTED)
		return request_take_turn(r, on_report_turn);
	fill_report(r);
	return request_end(r, NVME_OK);
}

static enum nvme_status parse_report(struct request *r)
{
	uint64_t n_bytes = ((uint64_t)get_le32(r->sqe.cdw10) + 1) * sizeof(le32);
	enum nvme_status status = io_find_namespace(r);

	if (status != NVME_OK)
		return status;
	/* Hosts have 128-bit identifiers here, which only the extended structure can hold. */
	if (!(get_le32(r->sqe.cdw11) & NVME_RESV_EDS))
		return NVME_HOST_ID_INCONSISTENT | NVME_DNR;
	if (n_bytes > r->queue->target->config->tuning.max_transfer)
		return NVME_INVALID_FIELD | NVME_DNR;
	if (guard_is_shared(r->ns->guard))
		r->turns = TURN_WANTED;
	r->direction = DIRECTION_C2H;
	r->length = (uint32_t)n_bytes;
	return parse_check_sgl(r, false);
}

const struct nvme_command resv_register_command = {
	.opcode = NVME_IO_RESERVATION_REGISTER,
	.name = "Reservation Register",
	.parse = parse_register,
	.execute = execute,
	.effects = NVME_EFFECT_CSUPP,
	.optional = NVME_ONCS_RESERVATIONS,
};

const struct nvme_command resv_acquire_command = {
	.opcode = NVME_IO_RESERVATION_ACQUIRE,
	.name = "Reservation Acquire",
	.parse = parse_acquire,
	.execute = execute,
	.effects = NVME_EFFECT_CSUPP,
	.optional = NVME_ONCS_RESERVATIONS,
};

const struct nvme_command resv_release_command = {
	.opcode = NVME_IO_RESERVATION_RELEASE,
	.name = "Reservation Release",
	.parse = parse_release,
	.execute = execute,
	.effects = NVME_EFFECT_CSUPP,
	.optional = NVME_ONCS_RESERVATIONS,
};

const struct nvme_command resv_report_command = {
	.opcode = NVME_IO_RESERVATION_REPORT,
	.name = "Reservation Report",
	.parse = parse_report,
	.execute = execute_report,
	.effects = NVME_EFFECT_CSUPP,
	.optional = NVME_ONCS_RESERVATIONS,
};
