/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lane of the next command. I/O loop only.
 *
 * Usable are the lanes that are live and whose path has the best ANA state among those. With one
 * usable lane, queue->lane is it, and nothing of this file is on the data path. With several,
 * each I/O goes through the list of held ones, where choose_lane is asked:
 *
 *   round-robin   each in turn
 *   queue-depth   the one with the fewest commands in flight
 *   latency       the one where the command is expected to be answered first: the moving average of
 *                 the time that commands of about that size took, times those in flight and this
 *                 one. So a path that is slower gets less, and equal paths get the same. One that
 *                 got nothing for a second is tried with one small command.
 *
 * A path may refuse I/O before control knows of its new ANA state. Then its lane is shunned until
 * the retry timer fires or control tells new ranks, unless there is no other.
 */
#include "initiator/io/choose.h"

#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "initiator/io/lane_room.h"
#include "initiator/io/queue_impl.h"

enum {
	PACE_SHIFT = 3,		/* the weight of a new duration: 1/8 */
	SMALL_BYTES = 16 << 10, /* the largest command with little data */
};
#define PACE_MIN_NS  1000u
#define TRY_AFTER_NS NSEC_PER_SEC

struct lane choose_none = {.queue = NULL};

void choose_init(struct volume_queue *queue, enum volume_policy policy)
{
	queue->choice.policy = policy;
	queue->lane = &choose_none;
}

/* ---- which are usable ---- */

static unsigned collect(struct lane_choice *choice, bool with_shunned)
{
	enum lane_rank best = LANE_RANK_NONE;
	unsigned n = 0;

	for (unsigned i = 0; i < choice->n; i++) {
		struct lane *lane = choice->attached[i];

		if (lane->state != LANE_LIVE || (lane->is_shunned && !with_shunned) ||
		    lane->rank < best)
			continue;
		if (lane->rank > best)
			n = 0;
		best = lane->rank;
		choice->usable[n++] = lane;
	}
	return n;
}

void choose_look(struct volume_queue *queue)
{
	struct lane_choice *choice = &queue->choice;

	choice->n_usable = collect(choice, false);
	if (!choice->n_usable)
		choice->n_usable = collect(choice, true);
	queue->lane = choice->n_usable ? choice->usable[0] : &choose_none;
}

void choose_join(struct lane *lane)
{
	struct lane_choice *choice = &lane->queue->choice;

	check(choice->n < VOLUME_PATHS_MAX);
	choice->attached[choice->n++] = lane;
	atomic_store(&lane->seen_rank, lane->rank);
	lane->is_shunned = false;
	lane->pace = (struct lane_pace){0};
	choose_look(lane->queue);
}

void choose_leave(struct lane *lane)
{
	struct lane_choice *choice = &lane->queue->choice;
	unsigned at = 0;

	while (choice->attached[at] != lane)
		check(++at < choice->n);
	choice->attached[at] = choice->attached[--choice->n];
	choose_look(lane->queue);
}

void choose_take_rank(struct lane *lane)
{
	lane->rank = (enum lane_rank)atomic_load(&lane->wanted_rank);
}

/* Seen only when the choice is made anew: no command takes the lane as one of the old rank then. */
void choose_rank(struct volume_queue *queue)
{
	for (unsigned i = 0; i < queue->choice.n; i++)
		choose_take_rank(queue->choice.attached[i]);
	choose_shun_none(queue);
	for (unsigned i = 0; i < queue->choice.n; i++) {
		struct lane *lane = queue->choice.attached[i];

		atomic_store(&lane->seen_rank, lane->rank);
	}
}

bool choose_shun(struct lane *lane)
{
	lane->is_shunned = true;
	choose_look(lane->queue);
	return lane->queue->lane != &choose_none && !lane->queue->lane->is_shunned;
}

void choose_shun_none(struct volume_queue *queue)
{
	for (unsigned i = 0; i < queue->choice.n; i++)
		queue->choice.attached[i]->is_shunned = false;
	choose_look(queue);
}

/* ---- which is next ---- */

static unsigned size_of(uint64_t n_bytes)
{
	return n_bytes > SMALL_BYTES;
}

/* Lower is better. */
static uint64_t cost(const struct lane_choice *choice, const struct lane *lane, uint64_t n_bytes)
{
	uint64_t n = lane->table.n_in_flight + 1;

	switch (choice->policy) {
	case VOLUME_POLICY_LATENCY:
		return MAX(lane->pace.ns[size_of(n_bytes)], (uint64_t)PACE_MIN_NS) * n;
	case VOLUME_POLICY_QUEUE_DEPTH:
		return n;
	case VOLUME_POLICY_ROUND_ROBIN:
		break;
	}
	return 0;
}

/* It had no command for long, so what is known of it may be old. */
static bool is_to_be_tried(const struct lane_choice *choice, const struct lane *lane,
			   uint64_t n_bytes)
{
	return choice->policy == VOLUME_POLICY_LATENCY && !size_of(n_bytes) &&
	       !lane->table.n_in_flight &&
	       lane->queue->loop->now_ns - lane->pace.noted_ns > TRY_AFTER_NS;
}

static struct lane *choose_one(struct volume_queue *queue, uint64_t n_bytes)
{
	struct lane_choice *choice = &queue->choice;
	struct lane *best = NULL;
	uint64_t best_cost = UINT64_MAX;

	choice->turn++;
	for (unsigned i = 0; i < choice->n_usable; i++) {
		struct lane *lane = choice->usable[(choice->turn + i) % choice->n_usable];
		uint64_t its_cost;

		if (!lane_has_room(lane))
			continue;
		if (is_to_be_tried(choice, lane, n_bytes))
			return lane;
		its_cost = cost(choice, lane, n_bytes);
		if (its_cost < best_cost) {
			best = lane;
			best_cost = its_cost;
		}
	}
	return best;
}

struct lane *choose_lane(struct volume_queue *queue, uint64_t n_bytes)
{
	if (choose_has_choice(&queue->choice))
		return choose_one(queue, n_bytes);
	return lane_has_room(queue->lane) ? queue->lane : NULL;
}

void choose_note(struct lane *lane, const struct command *command)
{
	uint64_t now_ns = lane->queue->loop->now_ns;
	uint64_t *pace = &lane->pace.ns[size_of(command->n_bytes)];
	uint64_t ns = MAX(now_ns - command->start_ns, (uint64_t)PACE_MIN_NS);

	lane->pace.noted_ns = now_ns;
	*pace = *pace ? *pace - (*pace >> PACE_SHIFT) + (ns >> PACE_SHIFT) : ns;
	atomic_store_explicit(&lane->seen_pace_ns, lane->pace.ns[0], memory_order_relaxed);
}
