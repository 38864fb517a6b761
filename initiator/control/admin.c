/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The admin queue. Control loop only; used by the controller's states, keep alive,
 * asynchronous events, and discovery.
 *
 * Happy path: admin_start makes completion queue, queue pair and memory and posts the
 * receives; the connection manager connects (controller.c); admin_submit sends; when the
 * answer and the SEND's completion are both in, the data is copied out and done is
 * called.
 *
 * Failures: a broken connection, a short answer, an answer to no command of ours, or no
 * answer in time go to on_failed, once; the owner stops the queue, and pending commands
 * are forgotten.
 *
 * No data ever travels in a capsule here: nvmet's admin receives have no room for any
 * (wire reference, section 3). The registered memory is readable and writable for the
 * target, so it holds nothing but this.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/states.h"
#include "initiator/control/admin.h"
#include "initiator/control/errors.h"
#include "initiator/io/io_status.h"
#include "initiator/io/slab.h"
#include "transport/cq_poll.h"
#include "transport/qp_post.h"
#include "transport/recv_ring.h"

enum {
	SLOT_BITS = 3,
	N_RECV = NVMF_ADMIN_SQ_ENTRIES + 1,
	SEND_DEPTH = 4 * ADMIN_SLOTS,
	SLOT_BYTES = ADMIN_DATA_BYTES,
	MEMORY_BYTES = ADMIN_SLOTS * SLOT_BYTES + 4096, /* data of each slot, then the commands */
};
static_assert(1 << SLOT_BITS == ADMIN_SLOTS, "CID = slot | generation << SLOT_BITS");

#define TO(s) STATE_TO(ADMIN_##s)
static const struct state_rule rules[] = {
	[ADMIN_IDLE] = {"idle", TO(RUNNING)},
	[ADMIN_RUNNING] = {"running", TO(FAILED) | TO(STOPPING) | TO(IDLE)},
	[ADMIN_FAILED] = {"failed", TO(STOPPING)},
	[ADMIN_STOPPING] = {"stopping", TO(IDLE)},
};
static const struct state_rule slot_rules[] = {
	[ADMIN_SLOT_FREE] = {"free", TO(SLOT_SENT)},
	[ADMIN_SLOT_SENT] = {"sent", TO(SLOT_AWAITS_ANSWER) | TO(SLOT_AWAITS_SEND)},
	[ADMIN_SLOT_AWAITS_ANSWER] = {"awaits its answer", TO(SLOT_FREE)},
	[ADMIN_SLOT_AWAITS_SEND] = {"awaits its SEND", TO(SLOT_FREE)},
};
#undef TO

static void move(struct admin *admin, enum admin_state next)
{
	states_move("admin queue", rules, &admin->state, next);
}

static void move_slot(struct admin_slot *slot, enum admin_slot_state next)
{
	states_move("admin command", slot_rules, &slot->state, next);
}

__attribute__((format(printf, 3, 4))) static void fail(struct admin *admin, bool is_timeout,
						       const char *fmt, ...)
{
	char reason[160];
	va_list ap;

	if (admin->state != ADMIN_RUNNING)
		return;
	move(admin, ADMIN_FAILED);
	va_start(ap, fmt);
	vsnprintf(reason, sizeof(reason), fmt, ap);
	va_end(ap);
	admin->on_failed(admin, is_timeout, reason);
}

/* ---- commands ---- */

static void finish(struct admin_slot *slot)
{
	struct admin *admin = slot->admin;
	struct admin_answer answer = slot->answer;

	loop_timer_stop(&slot->timer);
	move_slot(slot, ADMIN_SLOT_FREE);
	if (admin->state != ADMIN_RUNNING)
		return;
	if (slot->n_read) {
		memcpy(admin->copy, slot->data, ADMIN_DATA_BYTES);
		answer.data = admin->copy;
	}
	slot->done(slot->context, &answer);
}

static void on_sent(struct work *work, const struct completion *c)
{
	struct admin_slot *slot = container_of(work, struct admin_slot, send);

	if (slot->state == ADMIN_SLOT_SENT)
		move_slot(slot, ADMIN_SLOT_AWAITS_ANSWER);
	else
		finish(slot);
}

static void on_timeout(struct loop_timer *timer)
{
	struct admin_slot *slot = container_of(timer, struct admin_slot, timer);

	fail(slot->admin, true, "no answer from the target");
}

static struct admin_slot *take_slot(struct admin *admin)
{
	for (unsigned i = 0; i < ADMIN_SLOTS; i++)
		if (admin->slots[i].state == ADMIN_SLOT_FREE)
			return &admin->slots[i];
	return NULL;
}

static uint16_t cid_of(const struct admin_slot *slot)
{
	unsigned index = (unsigned)(slot - slot->admin->slots);

	return (uint16_t)(index | (unsigned)slot->generation << SLOT_BITS);
}

static void fill(struct admin_slot *slot, const struct admin_command *command)
{
	uint32_t n = command->n_write ? command->n_write : command->n_read;

	check(n <= ADMIN_DATA_BYTES);
	check(!command->n_write || !command->n_read);
	*slot->sqe = command->sqe;
	slot->sqe->flags = NVME_FLAGS_PSDT_SGL;
	slot->sqe->cid = put_le16(cid_of(slot));
	slot->sqe->sgl = (struct nvme_sgl){.keyed.type = NVME_SGL_KEYED_ADDRESS};
	if (!n)
		return;
	/* Zeroed first: a target that writes less than it reports must not expose earlier data. */
	memset(slot->data, 0, ADMIN_DATA_BYTES);
	if (command->n_write)
		memcpy(slot->data, command->write_data, command->n_write);
	slot->sqe->sgl.keyed.address = put_le64((uintptr_t)slot->data);
	slot->sqe->sgl.keyed.length = put_le24(n);
	slot->sqe->sgl.keyed.key = put_le32(slot->admin->mr.rkey);
}

int admin_submit(struct admin *admin, const struct admin_command *command)
{
	struct admin_slot *slot = take_slot(admin);
	struct sge sge;

	if (admin->state != ADMIN_RUNNING)
		return 0;
	if (!slot || !qp_n_free(&admin->qp))
		return -EBUSY;
	move_slot(slot, ADMIN_SLOT_SENT);
	slot->generation++;
	slot->n_read = command->n_read;
	slot->sent_ns = admin->loop->now_ns;
	slot->answer = (struct admin_answer){0};
	slot->done = command->done;
	slot->context = command->context;
	fill(slot, command);
	sge = (struct sge){slot->sqe, sizeof(*slot->sqe), admin->mr.lkey};
	slot->send.done = on_sent;
	qp_send(&admin->qp, &slot->send, &sge, 1, QP_SIGNALED, 0);
	if (command->timeout_ns)
		loop_timer_start(admin->loop, &slot->timer, command->timeout_ns);
	return 0;
}

/* ---- answers ---- */

static void on_answer(struct admin *admin, const struct nvme_cqe *cqe)
{
	uint16_t cid = get_le16(cqe->cid);
	struct admin_slot *slot = &admin->slots[cid & (ADMIN_SLOTS - 1)];
	bool is_in_flight = slot->state == ADMIN_SLOT_SENT ||
			    slot->state == ADMIN_SLOT_AWAITS_ANSWER;

	if (!is_in_flight || cid != cid_of(slot)) {
		fail(admin, false, "target answered admin command %04x, which is not in flight",
		     cid);
		return;
	}
	if (capture_is_on(admin->capture))
		capture_add(admin->capture, &admin->stream, slot->sent_ns, admin->loop->now_ns,
			    slot->sqe, cqe);
	slot->answer.status = io_status_in(cqe);
	slot->answer.result = get_le64(cqe->result);
	if (slot->state == ADMIN_SLOT_SENT)
		move_slot(slot, ADMIN_SLOT_AWAITS_SEND);
	else
		finish(slot);
}

static void on_recv(struct recv *recv, struct qp *qp, const struct completion *c)
{
	struct admin *admin = qp->context;
	struct nvme_cqe cqe;

	if (c->byte_len < sizeof(cqe)) {
		recv_give(recv);
		fail(admin, false, "target sent an admin answer of %u bytes", c->byte_len);
		return;
	}
	cqe = *(const struct nvme_cqe *)recv->capsule;
	recv_give(recv);
	if (c->has_invalidated)
		fail(admin, false, "target invalidated a key it was not asked to");
	if (admin->state == ADMIN_RUNNING)
		on_answer(admin, &cqe);
}

static void on_broken(struct qp *qp, const struct completion *c)
{
	fail(qp->context, false, "the connection broke: %s", completion_string(c));
}

/* ---- life ---- */

static void unmake(struct admin *admin)
{
	for (unsigned i = 0; i < ADMIN_SLOTS; i++)
		loop_timer_stop(&admin->slots[i].timer);
	qp_deinit(&admin->qp);
	mr_close(&admin->mr);
	cq_deinit(&admin->cq);
	slab_unmap(admin->memory, MEMORY_BYTES);
	admin->memory = NULL;
}

static void report_stopped(struct loop_call *call)
{
	struct admin *admin = container_of(call, struct admin, stopped_call);

	qp_detach(&admin->qp);
	cq_stop(&admin->cq);
	unmake(admin);
	move(admin, ADMIN_IDLE);
	admin->on_stopped(admin);
}

static void on_drained(struct qp *qp)
{
	struct admin *admin = qp->context;

	loop_defer(admin->loop, &admin->stopped_call);
}

void admin_stop(struct admin *admin)
{
	move(admin, ADMIN_STOPPING);
	for (unsigned i = 0; i < ADMIN_SLOTS; i++)
		loop_timer_stop(&admin->slots[i].timer);
	qp_drain(&admin->qp);
}

static void reset(struct admin *admin)
{
	struct admin old = *admin;

	memset(admin, 0, sizeof(*admin));
	admin->loop = old.loop;
	admin->capture = old.capture;
	admin->on_failed = old.on_failed;
	admin->on_stopped = old.on_stopped;
	admin->context = old.context;
	admin->stopped_call.run = report_stopped;
}

static int make_memory(struct admin *admin, const struct domain *domain)
{
	admin->memory = slab_map(MEMORY_BYTES);
	if (!admin->memory)
		return -ENOMEM;
	for (unsigned i = 0; i < ADMIN_SLOTS; i++) {
		struct admin_slot *slot = &admin->slots[i];

		slot->admin = admin;
		slot->data = admin->memory + i * SLOT_BYTES;
		slot->sqe = (void *)(admin->memory + ADMIN_SLOTS * SLOT_BYTES +
				     i * sizeof(struct nvme_sqe));
		slot->timer.on_expiry = on_timeout;
	}
	return mr_open(domain, admin->memory, MEMORY_BYTES, MR_REMOTE_BOTH, &admin->mr);
}

static int attach(struct admin *admin, struct cm_conn *conn, const struct domain *domain)
{
	struct qp_config config = {
		.cq = &admin->cq,
		.domain = domain,
		.n_recv = N_RECV,
		.recv_capsule_bytes = sizeof(struct nvme_cqe),
		.inline_bytes = sizeof(struct nvme_sqe),
		.send_depth = SEND_DEPTH,
		.n_sges = QP_SGE_MAX,
	};
	int r = qp_init(&admin->qp, conn->id, &config);

	if (r < 0)
		return r;
	admin->qp.context = admin;
	admin->qp.on_broken = on_broken;
	admin->qp.on_drained = on_drained;
	admin->qp.ring->on_recv = on_recv;
	r = cq_start(&admin->cq);
	if (r < 0)
		return r;
	move(admin, ADMIN_RUNNING);
	r = qp_attach(&admin->qp);
	if (r < 0 && !qp_is_attached(admin->qp.state)) {
		cq_stop(&admin->cq);
		move(admin, ADMIN_IDLE);
		return r;
	}
	/* A receive that could not be posted soon breaks the queue pair. */
	return 0;
}

int admin_start(struct admin *admin, struct cm_conn *conn, const struct domain *domain,
		struct error *error)
{
	char text[160];
	const char *hint;
	int r;

	reset(admin);
	r = make_memory(admin, domain);
	if (r < 0) {
		unmake(admin);
		hint = mr_explain(r, MEMORY_BYTES, text, sizeof(text));
		error_set(error, EXIT_PRIVILEGE, hint, "%s", text);
		return r;
	}
	r = cq_init(&admin->cq, domain->device, admin->loop, N_RECV + SEND_DEPTH,
		    N_RECV + SEND_DEPTH);
	if (r == 0)
		r = attach(admin, conn, domain);
	if (r < 0) {
		unmake(admin);
		if (r == -ENOMEM) {
			hint = mr_explain(r, MEMORY_BYTES, text, sizeof(text));
			error_set(error, EXIT_PRIVILEGE, hint, "%s", text);
		} else {
			error_set(error, EXIT_FAILED, NULL, "%s: cannot make a queue pair: %s",
				  domain->device->name, strerror(-r));
		}
	}
	return r;
}
