/* SPDX-License-Identifier: BSD-3-Clause */
#include "softrdma/fabric/roce/psn.h"
#include "softrdma/fabric/roce/requester.h"
#include "softrdma/fabric/roce/requester_answers.h"
#include "softrdma/fabric/roce/requester_parts.h"

enum {
	SYNDROME_KIND = 0x60,
	SYNDROME_IS_ACK = 0x00,
	SYNDROME_IS_RNR = 0x20,
};

/* ---- forward -------------------------------------------------------------------------------- */

static void measure(struct roce_requester *r, uint64_t now)
{
	uint64_t ns = now - r->sample_ns;

	if (!r->sample_ns || roce_psn_diff(r->una, r->sample_psn) <= 0)
		return;
	r->srtt_ns = r->srtt_ns ? (7 * r->srtt_ns + ns) / 8 : ns;
	r->sample_ns = 0;
}

/* Packet `una` is acknowledged. */
static void advance_one(struct roce_requester *r, const struct roce_request *q)
{
	uint32_t i = (r->una - q->psn) & ROCE_PSN_MASK;
	uint64_t cost = roce_cost(r, q, i, 1);

	if (r->una == r->next) { /* it was to be sent again */
		r->next = roce_psn_add(r->next, 1);
		cost = 0;
	} else if (roce_is_read(q) && roce_ends_chunk(r, q, i) && r->n_reads) {
		r->n_reads--;
	}
	r->in_flight -= cost < r->in_flight ? cost : r->in_flight;
	r->una = roce_psn_add(r->una, 1);
	if (r->una == r->next)
		r->in_flight = 0;
	roce_requester_settle(r);
}

static void note_progress(struct roce_requester *r, uint64_t now)
{
	r->is_set_back = false;
	r->n_tries = r->n_rnr_tries = r->n_probes = 0;
	r->rnr_until = 0;
	measure(r, now);
	roce_requester_start_timers(r, now);
}

/*
 * Acknowledges what lies before psn, up to the first READ or atomic that has had no answer. Returns
 * whether anything was.
 */
static bool advance_to(struct roce_requester *r, uint32_t psn, uint64_t now)
{
	bool moved = false;

	while (r->una != psn && r->una != r->end) {
		const struct roce_request *q = roce_request_at(r, r->acked);

		if (roce_is_read(q))
			break;
		advance_one(r, q);
		moved = true;
	}
	if (moved)
		note_progress(r, now);
	return moved;
}

/* ---- back ----------------------------------------------------------------------------------- */

static void set_back(struct roce_requester *r, uint64_t now)
{
	r->next = r->una;
	r->current = r->acked;
	r->in_flight = 0;
	r->n_reads = 0;
	r->sample_ns = 0;
	r->since_ack_request = 0;
	r->is_set_back = true;
	r->n_losses++;
}

/* One retry is used up. False: there is none left. */
static bool use_retry(struct roce_requester *r)
{
	if (r->n_tries++ < r->config.retries)
		return true;
	r->failure = ROCE_RETRIES_OVER;
	return false;
}

/* The response to the READ or atomic at `una` was lost, or a packet of it. */
static enum roce_effect miss_response(struct roce_requester *r, bool moved, uint64_t now)
{
	if (r->is_set_back)
		return moved ? ROCE_PROGRESS : ROCE_IGNORED;
	set_back(r, now);
	return ROCE_PROGRESS;
}

/* ---- packets -------------------------------------------------------------------------------- */

static enum roce_effect take_ack(struct roce_requester *r, uint32_t psn, uint64_t now)
{
	bool moved = advance_to(r, roce_psn_add(psn, 1), now);

	if (r->una == roce_psn_add(psn, 1))
		return moved ? ROCE_PROGRESS : ROCE_IGNORED;
	return miss_response(r, moved, now);
}

static enum roce_effect take_sequence_nak(struct roce_requester *r, uint32_t psn, uint64_t now)
{
	bool moved = advance_to(r, psn, now);

	if (r->una != psn)
		return miss_response(r, moved, now);
	if (r->is_set_back || r->rnr_until)
		return moved ? ROCE_PROGRESS : ROCE_IGNORED;
	if (use_retry(r)) {
		set_back(r, now);
		roce_requester_start_timers(r, now);
	}
	return ROCE_PROGRESS;
}

static enum roce_effect take_rnr_nak(struct roce_requester *r, uint32_t psn, uint64_t rnr_ns,
				     uint64_t now)
{
	bool moved = advance_to(r, psn, now);

	if (r->una != psn)
		return miss_response(r, moved, now);
	if (r->rnr_until)
		return moved ? ROCE_PROGRESS : ROCE_IGNORED;
	if (r->config.rnr_retries != ROCE_RETRY_FOREVER &&
	    r->n_rnr_tries++ >= r->config.rnr_retries) {
		r->failure = ROCE_RNR_RETRIES_OVER;
		return ROCE_PROGRESS;
	}
	set_back(r, now);
	r->n_losses--; /* nothing was lost */
	r->n_tries = 0;
	r->rnr_until = now + rnr_ns;
	r->due_ns = r->probe_ns = 0;
	return ROCE_PROGRESS;
}

static enum roce_failure failure_of(uint8_t syndrome)
{
	switch (syndrome) {
	case ROCE_NAK_REQUEST:
		return ROCE_REMOTE_REQUEST;
	case ROCE_NAK_ACCESS:
		return ROCE_REMOTE_ACCESS;
	case ROCE_NAK_OPERATION:
		return ROCE_REMOTE_OPERATION;
	default:
		return ROCE_NO_FAILURE;
	}
}

static enum roce_effect take_nak(struct roce_requester *r, const struct roce_packet *p,
				 uint64_t now)
{
	enum roce_failure failure = failure_of(p->syndrome);
	bool moved;

	if (p->syndrome == ROCE_NAK_SEQUENCE)
		return take_sequence_nak(r, p->psn, now);
	if (!failure)
		return ROCE_IGNORED;
	moved = advance_to(r, p->psn, now);
	if (r->una != p->psn)
		return miss_response(r, moved, now);
	r->failure = failure;
	return ROCE_PROGRESS;
}

static enum roce_effect take_acknowledge(struct roce_requester *r, const struct roce_packet *p,
					 uint64_t rnr_ns, uint64_t now)
{
	switch (p->syndrome & SYNDROME_KIND) {
	case SYNDROME_IS_ACK:
		return take_ack(r, p->psn, now);
	case SYNDROME_IS_RNR:
		return take_rnr_nak(r, p->psn, rnr_ns, now);
	default:
		return take_nak(r, p, now);
	}
}

/* A READ response or an atomic's. */
static enum roce_effect take_data(struct roce_requester *r, const struct roce_packet *p,
				  uint64_t now, struct roce_placement *ret)
{
	bool moved = advance_to(r, p->psn, now);
	bool for_atomic = p->opcode == ROCE_ATOMIC_ACK;
	const struct roce_request *q = roce_request_at(r, r->acked);
	uint64_t left;

	if (r->una != p->psn)
		return miss_response(r, moved, now);
	if (!roce_is_read(q) || for_atomic != roce_is_atomic(q)) {
		r->failure = ROCE_BAD_RESPONSE;
		return ROCE_PROGRESS;
	}
	ret->index = r->acked;
	ret->offset = for_atomic ? 0 : ((r->una - q->psn) & ROCE_PSN_MASK) * r->config.mtu;
	if (for_atomic)
		return ROCE_PLACE_ATOMIC;
	left = q->length - ret->offset;
	if (p->payload_bytes == (left < r->config.mtu ? left : r->config.mtu))
		return ROCE_PLACE;
	r->failure = ROCE_BAD_RESPONSE;
	return ROCE_PROGRESS;
}

bool roce_requester_awaits(const struct roce_requester *r, uint32_t psn)
{
	return roce_psn_within(psn, r->una, (r->end - r->una) & ROCE_PSN_MASK);
}

enum roce_effect roce_requester_receive(struct roce_requester *r, const struct roce_packet *p,
					uint64_t rnr_ns, uint64_t now, struct roce_placement *ret)
{
	/* Only what answers a packet under way counts: IBA 9.7.5.1, "ghost" responses. */
	if (r->failure || !roce_requester_awaits(r, p->psn))
		return ROCE_IGNORED;
	if (p->opcode == ROCE_ACK)
		return take_acknowledge(r, p, rnr_ns, now);
	return take_data(r, p, now, ret);
}

void roce_requester_placed(struct roce_requester *r, uint64_t now)
{
	advance_one(r, roce_request_at(r, r->acked));
	note_progress(r, now);
}

void roce_requester_fail(struct roce_requester *r, uint64_t index)
{
	roce_request_at(r, index)->failure = ROCE_FAILED_HERE;
	if (index == r->acked)
		r->failure = ROCE_FAILED_HERE;
}

bool roce_requester_pop(struct roce_requester *r, enum roce_failure *ret)
{
	*ret = ROCE_NO_FAILURE;
	if (r->tail == r->acked)
		*ret = r->failure;
	if (r->tail == r->acked && !r->failure)
		return false;
	r->tail++;
	return true;
}

/* ---- time ----------------------------------------------------------------------------------- */

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return !a || (b && b < a) ? b : a;
}

uint64_t roce_requester_deadline(const struct roce_requester *r)
{
	if (r->failure)
		return 0;
	return earlier(r->rnr_until, earlier(r->due_ns, r->probe_ns));
}

void roce_requester_tick(struct roce_requester *r, uint64_t now)
{
	if (r->failure)
		return;
	if (r->rnr_until && now >= r->rnr_until) {
		r->rnr_until = 0;
		r->is_set_back = false;
	}
	if (r->due_ns && now >= r->due_ns) {
		if (use_retry(r)) {
			set_back(r, now);
			r->due_ns = now + r->config.timeout_ns;
			r->probe_ns = now + roce_probe_interval(r);
		}
	} else if (r->probe_ns && now >= r->probe_ns) {
		r->n_probes++;
		set_back(r, now);
		r->probe_ns = now + roce_probe_interval(r);
	}
}
