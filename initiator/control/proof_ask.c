/* SPDX-License-Identifier: BSD-3-Clause */
/* The commands that ask a controller about another one: 38h and log page 1Eh. Control loop. */
#include "base/clock.h"
#include "initiator/control/controller_impl.h"
#include "initiator/control/controller_command.h"
#include "initiator/control/proof_ask.h"
#include "transport/wire/nvme_cross_reset.h"

static void answer(struct controller *c, enum proof_word word)
{
	if (controller_is_up(c))
		c->question.done(c, word);
}

static enum proof_word word_of(enum nvme_status status, uint64_t result)
{
	switch ((unsigned)nvme_status_code(status)) {
	case NVME_OK:
		return result & NVME_CROSS_RESET_IMMEDIATE ? PROOF_OVER : PROOF_UNDER_WAY;
	case NVME_CROSS_RESET_BUSY: /* another controller has asked for the same */
	case NVME_CROSS_RESET_LOG_FULL:
	case NVME_CROSS_RESET_LIMIT:
		return PROOF_LATER;
	case NVME_INVALID_OPCODE:
		return PROOF_UNSUPPORTED;
	default:
		return PROOF_REFUSED;
	}
}

static void on_reset(void *context, const struct admin_answer *a)
{
	answer(context, word_of(a->status, a->result));
}

static void on_log(void *context, const struct admin_answer *a)
{
	struct controller *c = context;

	answer(c, a->status != NVME_OK
			  ? PROOF_REFUSED
			  : proof_log_find(a->data, ADMIN_DATA_BYTES, c->question.subject.cntlid,
					   c->question.subject.ciu));
}

void proof_ask_reset(struct controller *c, const struct proof_subject *subject, proof_done *done)
{
	struct admin_command command = {
		.sqe = {.opcode = NVME_ADMIN_CROSS_RESET,
			.cdw10 = put_le32(subject->cntlid | (uint32_t)subject->ciu << 16),
			.cdw12 = put_le32((uint32_t)subject->cirn),
			.cdw13 = put_le32((uint32_t)(subject->cirn >> 32))},
		.done = on_reset,
	};

	c->question.subject = *subject;
	c->question.done = done;
	controller_submit(c, &command);
}

void proof_ask_log(struct controller *c, const struct proof_subject *subject, proof_done *done)
{
	struct admin_command command = controller_get_log(NVME_LOG_CROSS_RESET, 0,
							  ADMIN_DATA_BYTES);

	command.sqe.cdw10 = put_le32(get_le32(command.sqe.cdw10) | NVME_CROSS_RESET_RMC);
	command.done = on_log;
	c->question.subject = *subject;
	c->question.done = done;
	controller_submit(c, &command);
}

void proof_subject_of(const struct controller *c, struct proof_subject *ret_subject)
{
	uint64_t n_times = c->id.has_traffic_keep_alive ? 3 : 2;
	bool has_time = c->id.quiesce_ms && c->config->keep_alive_ns;

	*ret_subject = (struct proof_subject){
		.cntlid = c->cntlid,
		.ciu = c->id.uniquifier,
		.cirn = c->id.instance,
		.hold_ns = has_time ? n_times * c->config->keep_alive_ns +
					      c->id.quiesce_ms * NSEC_PER_MSEC
				    : 0,
		.address = c->config->address,
	};
}
