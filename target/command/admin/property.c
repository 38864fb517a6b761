/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Enabling: CC.EN 0 -> 1 checks CC and sets CSTS.RDY. Disabling: 1 -> 0 stops I/O at once and sends
 * the control thread a request to end the I/O queues. RDY becomes 0 when they are gone, so a host
 * that reads it knows that none of its old writes is under way. Shutdown (CC.SHN): I/O stops, every
 * namespace with a volatile cache is flushed, one after the other, then CSTS.SHST becomes complete.
 *
 * Disabling and enabling each begin a new life of the controller. The disk may still run a flush of
 * an earlier life: its end does not complete a later shutdown, which flushes all namespaces again
 * when it is back.
 *
 * While another rblkd takes the stores over (QUEUE_PARTING) they are synced anyway, so a shutdown
 * flushes nothing: it is complete once no host finds the subsystem here any more.
 */
#include <string.h>

#include "base/check.h"
#include "target/command/admin/async_event.h"
#include "target/command/admin/cross_reset.h"
#include "target/command/admin/event_page.h"
#include "target/command/admin/keep_alive.h"
#include "target/command/admin/property.h"
#include "target/engine/record/command_table.h"
#include "target/engine/record/controller.h"
#include "target/engine/request/parse.h"
#include "target/engine/queue/queue_path.h"
#include "target/engine/queue/queue_state.h"
#include "target/engine/request/request_namespace.h"
#include "target/export/io_errors.h"

enum {
	READY_TIMEOUT = 30, /* CAP.TO, in 500 ms */
	SHST_MASK = NVME_CSTS_SHST_OCCURRING | NVME_CSTS_SHST_COMPLETE,
};

static uint64_t capabilities(const struct target *target)
{
	return controller_mqes(target) | NVME_CAP_CQR |
	       (uint64_t)READY_TIMEOUT << NVME_CAP_TO_SHIFT | NVME_CAP_CSS_NVM;
}

/* ---- shutdown ------------------------------------------------------------------------------ */

static void flush_next(struct controller *controller, uint32_t after);

static void set_shutdown(struct controller *controller, uint32_t shst)
{
	controller->csts = (controller->csts & ~SHST_MASK) | shst;
}

static bool is_shutting_down(const struct controller *controller)
{
	return NVME_CSTS_SHST(controller->csts) == NVME_CSTS_SHST(NVME_CSTS_SHST_OCCURRING);
}

static void on_flushed(struct backend_io *io, int error)
{
	struct controller *controller = container_of(io, struct controller, flush);
	struct queue *queue = controller->flush_queue;
	struct namespace *ns = controller->flush_ns;

	if (error < 0)
		namespace_fail(ns, error);
	controller->flush_ns = NULL;
	if (!queue_is_dying(queue) && is_shutting_down(controller))
		flush_next(controller, controller->flush_life == controller->life ? ns->nsid : 0);
	namespace_give(&ns->counters[queue->poller->index]);
	queue_done_one(queue);
}

static void submit_flush(struct controller *controller, struct namespace *ns)
{
	struct queue *queue = controller->admin_queue;

	controller->flush_ns = ns;
	controller->flush_queue = queue;
	controller->flush_life = controller->life;
	controller->flush = (struct backend_io){
		.op = BACKEND_FLUSH, .purpose = BACKEND_FOR_SHUTDOWN, .done = on_flushed};
	namespace_take(queue, ns);
	queue->n_busy++;
	backend_submit(ns->backend, queue->poller->backends, &controller->flush);
}

static void flush_next(struct controller *controller, uint32_t after)
{
	const struct subsystem *subsystem = queue_subsystem(controller->admin_queue);
	struct namespace *ns = subsystem ? subsystem_next_namespace(subsystem, after) : NULL;

	if (subsystem && queue_is_parting(controller->admin_queue))
		return;
	while (ns && !ns->has_cache)
		ns = subsystem_next_namespace(subsystem, ns->nsid);
	if (ns)
		submit_flush(controller, ns);
	else
		set_shutdown(controller, NVME_CSTS_SHST_COMPLETE);
}

static void begin_shutdown(struct controller *controller)
{
	atomic_store(&controller->is_ready, false);
	set_shutdown(controller, NVME_CSTS_SHST_OCCURRING);
	if (!controller->flush_ns)
		flush_next(controller, 0);
}

/* ---- enable and disable -------------------------------------------------------------------- */

static bool is_legal_enable(const struct controller *controller, uint32_t cc)
{
	/* Discovery controllers have no I/O queues, so the sizes of their entries do not matter. */
	bool has_sizes = NVME_CC_IOSQES(cc) == 6 && NVME_CC_IOCQES(cc) == 4;

	return (has_sizes || controller->is_discovery) && NVME_CC_MPS(cc) == 0 &&
	       NVME_CC_AMS(cc) == 0 && NVME_CC_CSS(cc) == 0;
}

/* A new instance, which no reset of an earlier one concerns (Base 2.3, 8.3.3). */
static void begin_instance(struct controller *controller)
{
	unsigned ciu = atomic_load(&controller->fencing.ciu);

	atomic_store(&controller->fencing.cirn,
		     incarnation_number(&controller->target->incarnation));
	atomic_store(&controller->fencing.ciu, ciu % UINT8_MAX + 1);
	cross_reset_forget(controller);
}

static void enable(struct controller *controller)
{
	if (!is_legal_enable(controller, controller->cc)) {
		controller->csts |= NVME_CSTS_CFS;
		return;
	}
	controller->life++;
	atomic_store(&controller->sees_no_cache, false);
	begin_instance(controller);
	controller->csts = NVME_CSTS_RDY;
	keep_alive_start(controller);
	atomic_store(&controller->is_ready, true);
}

void property_reset_done(struct loop_msg *msg)
{
	struct controller *controller = container_of(msg, struct controller, reset);

	controller->is_reset_sent = false;
	/* A shutdown that began after the disable continues. */
	controller->csts &= SHST_MASK;
	if (controller->cc & NVME_CC_EN)
		enable(controller);
}

static void disable(struct controller *controller)
{
	controller->life++;
	set_shutdown(controller, 0);
	atomic_store(&controller->is_ready, false);
	async_event_end_all(controller, NVME_ABORTED_SQ_DELETION);
	controller->pending = controller->masked = 0;
	controller->event_mask = 0;
	event_page_release(controller);
	if (controller->is_reset_sent)
		return;
	controller->is_reset_sent = true;
	controller->reset.run = controller->on_reset;
	loop_send(&controller->target->loop, &controller->reset);
}

static void set_cc(struct controller *controller, uint32_t cc)
{
	uint32_t before = controller->cc;

	controller->cc = cc;
	if (cc & NVME_CC_EN && !(before & NVME_CC_EN) && !controller->is_reset_sent)
		enable(controller);
	if (!(cc & NVME_CC_EN) && before & NVME_CC_EN)
		disable(controller);
	if (NVME_CC_SHN(cc) && !NVME_CC_SHN(before))
		begin_shutdown(controller);
}

/* ---- the commands -------------------------------------------------------------------------- */

static enum nvme_status get_4_bytes(const struct controller *controller, uint32_t offset,
				    uint64_t *ret_value)
{
	uint64_t cap = capabilities(controller->target);

	switch (offset) {
	case NVME_PROP_CAP:
		*ret_value = (uint32_t)cap;
		return NVME_OK;
	case NVME_PROP_CAP + 4:
		*ret_value = cap >> 32;
		return NVME_OK;
	case NVME_PROP_VS:
		*ret_value = NVME_VS_1_4;
		return NVME_OK;
	case NVME_PROP_CC:
		*ret_value = controller->cc;
		return NVME_OK;
	case NVME_PROP_CSTS:
		*ret_value = controller->csts;
		return NVME_OK;
	case NVME_PROP_NSSR:
		*ret_value = 0;
		return NVME_OK;
	default:
		return NVME_INVALID_FIELD | NVME_DNR;
	}
}

static enum request_state execute_get(struct request *r)
{
	struct controller *controller = r->queue->controller;
	struct nvmf_property_cmd cmd;
	uint32_t offset;

	if (queue_is_parting(r->queue) && is_shutting_down(controller) && !controller->flush_ns)
		flush_next(controller, 0);
	memcpy(&cmd, &r->sqe, sizeof(cmd));
	offset = get_le32(cmd.offset);
	if ((cmd.attrib & 7) == 0)
		return request_end(r, get_4_bytes(controller, offset, &r->result));
	if ((cmd.attrib & 7) != 1 || offset != NVME_PROP_CAP)
		return request_end(r, NVME_INVALID_FIELD | NVME_DNR);
	r->result = capabilities(controller->target);
	return request_end(r, NVME_OK);
}

static enum request_state execute_set(struct request *r)
{
	struct nvmf_property_cmd cmd;

	memcpy(&cmd, &r->sqe, sizeof(cmd));
	if ((cmd.attrib & 7) != 0 || get_le32(cmd.offset) != NVME_PROP_CC)
		return request_end(r, NVME_INVALID_FIELD | NVME_DNR);
	set_cc(r->queue->controller, (uint32_t)get_le64(cmd.value));
	return request_end(r, NVME_OK);
}

static enum nvme_status parse(struct request *r)
{
	return r->queue->qid == 0 ? NVME_OK : NVME_INVALID_OPCODE | NVME_DNR;
}

const struct nvme_command property_get_command = {
	.opcode = NVMF_PROPERTY_GET,
	.name = "Property Get",
	.parse = parse,
	.execute = execute_get,
	.flags = COMMAND_BEFORE_READY,
};

const struct nvme_command property_set_command = {
	.opcode = NVMF_PROPERTY_SET,
	.name = "Property Set",
	.parse = parse,
	.execute = execute_set,
	.flags = COMMAND_BEFORE_READY,
};
