/* SPDX-License-Identifier: BSD-3-Clause */
/*
 *   poller: a free entry --> control: finds the controller, and ends its association
 *   poller: answer       <-- control: all of it is over, or it takes longer than a moment
 *   poller: DONE, event  <-- control: all of it is over, later
 *
 * An answer with Immediate Reset Successful, or an entry with success, is proof: no command of that
 * controller is in a store or will reach one. The host may repeat its writes then.
 */
#include <string.h>

#include "base/bits.h"
#include "base/states.h"
#include "target/command/admin/async_event.h"
#include "target/command/admin/cross_reset.h"
#include "target/engine/record/command_table.h"
#include "target/engine/record/controller.h"
#include "target/engine/request/parse.h"
#include "target/engine/request/request_run.h"

#define TO(s) STATE_TO(CROSS_RESET_##s)

static const struct state_rule rules[] = {
	[CROSS_RESET_FREE] = {"free", TO(ASKING)},
	[CROSS_RESET_ASKING] = {"asking", TO(FREE) | TO(PENDING)},
	[CROSS_RESET_PENDING] = {"pending", TO(DONE) | TO(FORGOTTEN)},
	[CROSS_RESET_DONE] = {"done", TO(FREE)},
	[CROSS_RESET_FORGOTTEN] = {"forgotten", TO(FREE)},
};

static void move_to(struct cross_reset *reset, enum cross_reset_state next)
{
	states_move("cross-controller reset", rules, &reset->state, next);
}

static bool is_under_way(const struct cross_reset *reset)
{
	return reset->state != CROSS_RESET_FREE && reset->state != CROSS_RESET_DONE;
}

/* ---- the command ---------------------------------------------------------------------------- */

static void on_over(struct loop_msg *msg)
{
	struct cross_reset *reset = container_of(msg, struct cross_reset, over);

	if (reset->state == CROSS_RESET_FORGOTTEN) {
		move_to(reset, CROSS_RESET_FREE);
		return;
	}
	move_to(reset, CROSS_RESET_DONE);
	async_event_raise(reset->source, EVENT_CROSS_RESET);
}

static void on_answer(struct loop_msg *msg)
{
	struct cross_reset *reset = container_of(msg, struct cross_reset, msg);
	struct request *r = reset->request;
	bool is_pending = reset->status == NVME_OK && !reset->is_immediate;

	reset->request = NULL;
	r->result = reset->is_immediate ? NVME_CROSS_RESET_IMMEDIATE : 0;
	move_to(reset, is_pending ? CROSS_RESET_PENDING : CROSS_RESET_FREE);
	request_run(r, request_end(r, reset->status));
}

static enum nvme_status take_entry(struct controller *source, uint16_t icid, uint8_t ciu,
				   struct cross_reset **ret_reset)
{
	unsigned n_under_way = 0;

	*ret_reset = NULL;
	for (unsigned i = 0; i < CROSS_RESET_ENTRIES; i++) {
		struct cross_reset *reset = &source->fencing.resets[i];

		n_under_way += is_under_way(reset);
		if (is_under_way(reset) && reset->icid == icid && reset->ciu == ciu)
			return NVME_CROSS_RESET_BUSY | NVME_DNR;
		if (reset->state == CROSS_RESET_FREE && !*ret_reset)
			*ret_reset = reset;
	}
	if (n_under_way >= CROSS_RESETS)
		return NVME_CROSS_RESET_LIMIT | NVME_DNR;
	return *ret_reset ? NVME_OK : NVME_CROSS_RESET_LOG_FULL | NVME_DNR;
}

static enum request_state execute(struct request *r)
{
	struct controller *source = r->queue->controller;
	uint16_t icid = nvme_cross_reset_icid(&r->sqe);
	uint8_t ciu = nvme_cross_reset_ciu(&r->sqe);
	struct cross_reset *reset;
	enum nvme_status status = take_entry(source, icid, ciu, &reset);

	if (status != NVME_OK)
		return request_end(r, status);
	move_to(reset, CROSS_RESET_ASKING);
	reset->source = source;
	reset->request = r;
	reset->icid = icid;
	reset->ciu = ciu;
	reset->cirn = nvme_cross_reset_cirn(&r->sqe);
	reset->on_answer = on_answer;
	reset->over.run = on_over;
	reset->msg.run = source->fencing.on_cross_reset;
	loop_send(&source->target->loop, &reset->msg);
	return REQUEST_CONTROL;
}

static enum nvme_status parse(struct request *r)
{
	const struct controller *source = r->queue->controller;

	if (source->is_discovery)
		return NVME_INVALID_OPCODE | NVME_DNR;
	if (get_le32(r->sqe.nsid) || nvme_cross_reset_icid(&r->sqe) == source->id)
		return NVME_INVALID_FIELD | NVME_DNR;
	return NVME_OK;
}

const struct nvme_command cross_reset_command = {
	.opcode = NVME_ADMIN_CROSS_RESET,
	.name = "Cross-Controller Reset",
	.parse = parse,
	.execute = execute,
	.effects = NVME_EFFECT_CSUPP,
};

/* ---- log page 1Eh --------------------------------------------------------------------------- */

static void put_entry(const struct cross_reset *reset, struct nvme_cross_reset_entry *entry)
{
	*entry = (struct nvme_cross_reset_entry){
		.icid = put_le16(reset->icid),
		.ciu = reset->ciu,
		.acid = put_le16(NVME_CROSS_RESET_NO_ALTERNATE),
		.ccrs = reset->state == CROSS_RESET_DONE ? NVME_CROSS_RESET_SUCCESS
							 : NVME_CROSS_RESET_IN_PROGRESS,
		.ccrf = NVME_CROSS_RESET_VALIDATED | NVME_CROSS_RESET_INITIATED};
}

unsigned cross_reset_build_log(struct controller *source, void *page, bool must_remove)
{
	struct nvme_cross_reset_log *log = page;
	struct nvme_cross_reset_entry *entries = (struct nvme_cross_reset_entry *)(log + 1);
	unsigned n = 0;

	for (unsigned i = 0; i < CROSS_RESET_ENTRIES; i++) {
		struct cross_reset *reset = &source->fencing.resets[i];

		if (reset->state != CROSS_RESET_PENDING && reset->state != CROSS_RESET_DONE)
			continue;
		put_entry(reset, &entries[n++]);
		if (must_remove && reset->state == CROSS_RESET_DONE)
			move_to(reset, CROSS_RESET_FREE);
	}
	log->n_entries = put_le16((uint16_t)n);
	return n;
}

void cross_reset_forget(struct controller *source)
{
	for (unsigned i = 0; i < CROSS_RESET_ENTRIES; i++) {
		struct cross_reset *reset = &source->fencing.resets[i];

		if (reset->state == CROSS_RESET_DONE)
			move_to(reset, CROSS_RESET_FREE);
		else if (reset->state == CROSS_RESET_PENDING)
			move_to(reset, CROSS_RESET_FORGOTTEN);
	}
}

/* ---- log page 1Fh --------------------------------------------------------------------------- */

void lost_host_build_log(struct controller *controller, void *page, bool must_remove)
{
	struct nvme_cross_reset_log *log = page;
	struct nvme_lost_host_entry *entries = (struct nvme_lost_host_entry *)(log + 1);
	unsigned n = 0;

	for (unsigned i = 0; i < LOST_HOST_ENTRIES; i++) {
		_Atomic uint64_t *lost = &controller->fencing.lost[i];
		uint64_t is = must_remove ? atomic_exchange(lost, 0) : atomic_load(lost);

		if (is)
			entries[n++] = (struct nvme_lost_host_entry){
				.cntlid = put_le16((uint16_t)(is >> LOST_HOST_ID_SHIFT)),
				.ciu = (uint8_t)(is >> LOST_HOST_CIU_SHIFT),
				.loss_count = (uint8_t)is};
	}
	log->n_entries = put_le16((uint16_t)n);
}
