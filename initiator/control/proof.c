/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Proof that a lost association is over. Control loop only.
 *
 * I/O that was in flight when an association was lost may still be at work in the target: in a
 * receive queue, in a disk that hangs. Sent again too early, a write could be acknowledged, be
 * followed by a newer one, and then land for a second time. So changes keep their buffers and
 * ranges in the queues (io/io_fencing.c) until one of these holds:
 *
 *   Cross-Controller Reset   a live controller, of whichever path, answers that the old one has no
 *                            command left (TP 8028): at once, or by log page 1Eh
 *   the same id              a new controller has the old one's id, so the subsystem has let go of
 *                            it
 *   time                     the old controller has not heard us for so long that it must have
 *                            noticed (2 keep alive timeouts, 3 with traffic based keep alive), and
 *                            has had its quiesce time CQT after that (TP 4129)
 *   Connect                  the target has neither: it is trusted to order what it gets, so its
 *                            new association by the same address is the end of the old one. This
 *                            is no proof, and log and status say so.
 *   a word                   an administrator vouches that the target's machine is off, for good
 *
 * Where none of them can come, it is unknown whether the association is over: changes wait for its
 * address, and status names it.
 *
 *     NEW -> ASKING -> DYING <-> READING -> proven        LATER: asked again
 *      ^       |  ^ ^----'           |                    DYING: a better path is asked, too
 *      |       v  |                  v
 *      |    LATER -+<-------------- not listed            REFUSED: time, or Connect
 *      +--- another controller is live, or the one that was asked is lost
 *
 * A process that was killed leaves its predecessors in a file, which is written when an association
 * becomes live and never on the data path. Its successor does not know which ranges they may still
 * change, so it holds back all changes until there is proof; likewise after writes have failed
 * without it.
 */
#include <errno.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/states.h"
#include "base/units.h"
#include "initiator/control/path_impl.h"
#include "initiator/control/proof.h"
#include "initiator/control/proof_ask.h"
#include "initiator/control/proof_file.h"
#include "initiator/control/volume_impl.h"
#include "initiator/control/volume_info.h"
#include "initiator/io/queue.h"

#define LOOK_MIN_NS (20 * NSEC_PER_MSEC)
#define LOOK_MAX_NS (1 * NSEC_PER_SEC)

#define TO(s) STATE_TO(PREDECESSOR_##s)
static const struct state_rule rules[] = {
	[PREDECESSOR_NEW] = {"new", TO(ASKING) | TO(REFUSED) | TO(NEW)},
	[PREDECESSOR_ASKING] = {"asking", TO(DYING) | TO(LATER) | TO(REFUSED) | TO(NEW)},
	[PREDECESSOR_LATER] = {"asked later", TO(ASKING) | TO(NEW)},
	[PREDECESSOR_DYING] = {"dying", TO(READING) | TO(ASKING) | TO(NEW)},
	[PREDECESSOR_READING] = {"reading", TO(DYING) | TO(LATER) | TO(REFUSED) | TO(NEW)},
	[PREDECESSOR_REFUSED] = {"refused", TO(NEW)},
};
#undef TO

static void move(struct predecessor *p, enum predecessor_state next)
{
	states_move("predecessor", rules, &p->state, next);
}

/* ---- what the queues know ---- */

static void tell_queues(struct volume *volume)
{
	list_for_each (node, &volume->queues)
		queue_look_at_proof(list_entry(node, struct volume_queue, node));
}

static void publish(struct volume *volume)
{
	const struct proof *proof = &volume->proof;

	for (unsigned i = 0; i < UNPROVEN_MAX; i++)
		atomic_store(&volume->unproven.serials[i],
			     i < proof->n ? proof->predecessors[i].serial : 0);
	tell_queues(volume);
}

static bool is_closed(const struct volume *volume)
{
	return atomic_load(&volume->unproven.is_closed);
}

static void set_closed(struct volume *volume, bool is_closed)
{
	atomic_store(&volume->unproven.is_closed, is_closed);
	tell_queues(volume);
}

/* ---- proven ---- */

static const char *const ways[FENCING_WAYS] = {
	[FENCING_RESET] = "are over: proven by Cross-Controller Reset",
	[FENCING_TIME] = "are over: proven by time",
	[FENCING_CONNECT] = "are taken as over: the target's answer to Connect is trusted",
	[FENCING_WORD] = "are taken as over: an administrator's word is trusted",
};

static void say_proven(const struct volume *volume)
{
	const struct proof *proof = &volume->proof;
	char text[UNITS_MAX];

	log_info(VOLUME_FMT ": earlier writes %s, after %s", VOLUME_ARG(volume),
		 ways[proof->last_way], units_format_duration(text, clock_ns() - proof->since_ns));
}

static void forget(struct volume *volume, struct predecessor *p)
{
	struct proof *proof = &volume->proof;

	*p = proof->predecessors[--proof->n];
	publish(volume);
	if (proof->n)
		return;
	for_each_path(path, volume) path->may_change = path->phase == PATH_LIVE;
	if (is_closed(volume))
		set_closed(volume, false);
}

static void prove(struct volume *volume, struct predecessor *p, enum fencing_way way)
{
	struct proof *proof = &volume->proof;

	proof->n_by[way]++;
	proof->last_way = way;
	log_debug(VOLUME_FMT ": controller %u: its writes %s", VOLUME_ARG(volume),
		  p->subject.cntlid, ways[way]);
	if (proof->n == 1)
		say_proven(volume);
	forget(volume, p);
}

bool proof_has_time(const struct predecessor *p)
{
	return p->subject.hold_ns;
}

uint64_t proof_over_ns(const struct predecessor *p)
{
	return p->lost_ns + p->subject.hold_ns;
}

/* ---- refused ---- */

static const char no_reset[] = "the target has no Cross-Controller Reset";

/* Its Connect, and none by another address, is the end of p for a target that says nothing. */
static bool is_by(const struct predecessor *p, const struct path *path)
{
	return addr_is_equal(&p->subject.address, &path->config.address);
}

/* Live, and it may help: the best one. */
static struct path *find_source(const struct volume *volume, const struct predecessor *p)
{
	struct path *best = NULL;

	for_each_path(path, volume) if (path->phase == PATH_LIVE &&
					!(p->refused_by & 1u << path->index) &&
					(!best || volume_rank(path) > volume_rank(best)))
		best = path;
	return best;
}

/* The target at the end of this path does not tell whether p is over. */
static void refuse(struct path *path, struct predecessor *p, const char *reason)
{
	struct volume *volume = path->volume;
	uint64_t now = clock_ns();
	char text[MAX(UNITS_MAX, ADDR_STRING_MAX)];

	p->refused_by |= 1u << path->index;
	if (!proof_has_time(p) && is_by(p, path)) {
		log_info(
			VOLUME_FMT
			": %s, and no quiesce time: its answer to Connect is taken as the end of earlier writes",
			VOLUME_ARG(volume), reason);
		prove(volume, p, FENCING_CONNECT);
		return;
	}
	if (find_source(volume, p)) {
		move(p, PREDECESSOR_NEW);
		return;
	}
	move(p, PREDECESSOR_REFUSED);
	if (!proof_has_time(p))
		log_warn(
			VOLUME_FMT
			": %s, and no quiesce time: whether earlier writes are over is unknown, and writes to their ranges wait until %s is connected again (or `rblk path remove --dead`)",
			VOLUME_ARG(volume), reason, addr_format(text, &p->subject.address));
	else if (proof_over_ns(p) > now)
		log_warn(VOLUME_FMT ": %s: writes to ranges of earlier ones wait for %s",
			 VOLUME_ARG(volume), reason,
			 units_format_duration(text, proof_over_ns(p) - now));
}

/* ---- asking ---- */

static void look_later(struct predecessor *p, enum predecessor_state state)
{
	move(p, state);
	p->delay_ns = MIN(MAX(2 * p->delay_ns, LOOK_MIN_NS), LOOK_MAX_NS);
	p->look_ns = clock_ns() + p->delay_ns;
}

static struct predecessor *find_asked(struct proof *proof)
{
	for (unsigned i = 0; i < proof->n; i++) {
		struct predecessor *p = &proof->predecessors[i];

		if (p->state == PREDECESSOR_ASKING || p->state == PREDECESSOR_READING)
			return p;
	}
	return NULL;
}

static void go_on(struct volume *volume);

static void on_word(struct controller *c, enum proof_word word)
{
	struct path *path = c->context;
	struct volume *volume = path->volume;
	struct proof *proof = &volume->proof;
	struct predecessor *p = find_asked(proof);

	if (path != proof->asked)
		return;
	proof->asked = NULL;
	if (!p) { /* time has proven it meanwhile */
		go_on(volume);
		return;
	}
	switch (word) {
	case PROOF_OVER:
		prove(volume, p, FENCING_RESET);
		break;
	case PROOF_UNDER_WAY:
		look_later(p, PREDECESSOR_DYING);
		break;
	case PROOF_LATER:
		look_later(p, PREDECESSOR_LATER);
		break;
	case PROOF_REFUSED:
		refuse(path, p, "the target refuses to reset the earlier controller");
		break;
	case PROOF_UNSUPPORTED:
		refuse(path, p, no_reset);
		break;
	}
	go_on(volume);
}

/*
 * The log page belongs to the controller that was asked for the reset, so p stays with its path:
 * unless another one has become better. A target that stands by for the store waits with the
 * answer until it has the locks, which it may never get; the owner, which may have come later,
 * knows at once.
 */
struct path *proof_source_for(const struct volume *volume, const struct predecessor *p)
{
	struct path *path = p->source, *best = find_source(volume, p);

	if (p->state == PREDECESSOR_DYING && path && path->phase == PATH_LIVE &&
	    (!best || volume_rank(best) <= volume_rank(path)))
		return path;
	return best;
}

static void ask(struct volume *volume, struct predecessor *p, struct path *path)
{
	bool is_under_way = p->state == PREDECESSOR_DYING && p->source == path;

	volume->proof.asked = path;
	p->source = path;
	if (is_under_way) {
		move(p, PREDECESSOR_READING);
		proof_ask_log(&path->controller, &p->subject, on_word);
	} else {
		move(p, PREDECESSOR_ASKING);
		proof_ask_reset(&path->controller, &p->subject, on_word);
	}
}

static uint64_t due_ns(const struct predecessor *p)
{
	switch (p->state) {
	case PREDECESSOR_NEW:
		return 0;
	case PREDECESSOR_LATER:
	case PREDECESSOR_DYING:
		return p->look_ns;
	case PREDECESSOR_ASKING:
	case PREDECESSOR_READING:
	case PREDECESSOR_REFUSED:
		break;
	}
	return UINT64_MAX;
}

static void prove_by_time(struct volume *volume)
{
	struct proof *proof = &volume->proof;
	uint64_t now = clock_ns();

	for (unsigned i = proof->n; i--;)
		if (proof_has_time(&proof->predecessors[i]) &&
		    now >= proof_over_ns(&proof->predecessors[i]))
			prove(volume, &proof->predecessors[i], FENCING_TIME);
}

/* The first that is due is asked about: one question at a time, so CCRL is kept. */
static void ask_next(struct volume *volume)
{
	struct proof *proof = &volume->proof;
	struct predecessor *first = NULL;
	struct path *path;

	if (proof->asked)
		return;
	for (unsigned i = 0; i < proof->n; i++)
		if (!first || due_ns(&proof->predecessors[i]) < due_ns(first))
			first = &proof->predecessors[i];
	if (!first || due_ns(first) > clock_ns())
		return;
	path = proof_source_for(volume, first);
	if (path)
		ask(volume, first, path);
}

static void start_timer(struct volume *volume)
{
	const struct proof *proof = &volume->proof;
	uint64_t now = clock_ns(), next = UINT64_MAX;

	loop_timer_stop(&volume->proof.timer);
	for (unsigned i = 0; i < proof->n; i++) {
		const struct predecessor *p = &proof->predecessors[i];

		if (proof_has_time(p))
			next = MIN(next, proof_over_ns(p));
		if (!proof->asked && proof_source_for(volume, p))
			next = MIN(next, due_ns(p));
	}
	if (next != UINT64_MAX)
		loop_timer_start(volume->control, &volume->proof.timer,
				 next > now ? next - now : 0);
}

static void go_on(struct volume *volume)
{
	prove_by_time(volume);
	ask_next(volume);
	start_timer(volume);
}

static void on_timer(struct loop_timer *timer)
{
	go_on(container_of(timer, struct volume, proof.timer));
}

/* ---- associations come and go ---- */

static void next_serial(struct proof *proof)
{
	if (!++proof->serial)
		proof->serial = 1; /* 0 is of I/O that was not sent */
}

/* A question to the controller of this path is of no use. */
static bool is_helpless(const struct path *path, const struct predecessor *p)
{
	return !p->subject.ciu || !path->controller.id.uniquifier;
}

/* Takes what the new association of the path tells without a question. */
static void consider(struct path *path, struct predecessor *p)
{
	struct volume *volume = path->volume;

	p->refused_by &= ~(1u << path->index);
	if (volume->config.fence == VOLUME_FENCE_OFF)
		prove(volume, p, FENCING_CONNECT);
	else if (!is_helpless(path, p) && p->subject.cntlid == path->controller.cntlid)
		prove(volume, p, FENCING_RESET);
	else if (p->state == PREDECESSOR_REFUSED || p->state == PREDECESSOR_NEW) {
		move(p, PREDECESSOR_NEW);
		p->delay_ns = 0;
		if (is_helpless(path, p))
			refuse(path, p, no_reset);
	} else if (proof_source_for(volume, p) == path) {
		p->delay_ns = p->look_ns = 0;
	}
}

/* Associations that may change something, this one among them, each have a place in the table. */
static bool has_place(const struct path *path)
{
	const struct volume *volume = path->volume;
	unsigned n = volume->proof.n + 1;

	for_each_path(other, volume) n += other != path && other->may_change;
	return n < UNPROVEN_MAX;
}

void proof_on_live(struct path *path)
{
	struct volume *volume = path->volume;
	struct proof *proof = &volume->proof;

	next_serial(proof);
	path->serial = proof->serial;
	path->n_taken_back = 0;
	proof_subject_of(&path->controller, &path->subject);
	for (unsigned i = proof->n; i--;)
		consider(path, &proof->predecessors[i]);
	if (!has_place(path))
		set_closed(volume, true);
	path->may_change = !is_closed(volume);
	proof_file_write(volume);
	go_on(volume);
}

/* p was lost just now: which of the paths that are live can be asked. */
static void consider_all(struct volume *volume, struct predecessor *p)
{
	struct path *last = NULL;

	if (volume->config.fence == VOLUME_FENCE_OFF && volume_n_paths_live(volume)) {
		prove(volume, p, FENCING_CONNECT);
		return;
	}
	for_each_path(path, volume)
	{
		if (path->phase != PATH_LIVE || !is_helpless(path, p))
			continue;
		p->refused_by |= 1u << path->index;
		last = path;
	}
	if (last && !find_source(volume, p))
		refuse(last, p, no_reset);
}

/* Another controller goes on with what this one was asked. */
static void forget_source(struct volume *volume, const struct path *path)
{
	struct proof *proof = &volume->proof;

	if (proof->asked == path)
		proof->asked = NULL;
	for (unsigned i = 0; i < proof->n; i++) {
		struct predecessor *p = &proof->predecessors[i];

		if (p->source != path)
			continue;
		p->source = NULL;
		p->delay_ns = 0;
		if (p->state != PREDECESSOR_REFUSED)
			move(p, PREDECESSOR_NEW);
	}
}

void proof_on_lost(struct path *path)
{
	struct volume *volume = path->volume;
	struct proof *proof = &volume->proof;
	uint64_t now = clock_ns();

	forget_source(volume, path);
	if (!proof->n)
		proof->since_ns = now;
	if (path->may_change) {
		check(proof->n < UNPROVEN_MAX);
		proof->predecessors[proof->n++] = (struct predecessor){
			.subject = path->subject, .serial = path->serial, .lost_ns = now};
		path->may_change = false;
		publish(volume);
		if (path->wish == PATH_WISH_GO)
			return; /* mostly there is nothing to ask for */
		consider_all(volume, &proof->predecessors[proof->n - 1]);
	}
	go_on(volume);
}

void proof_on_idle(struct path *path)
{
	struct volume *volume = path->volume;
	struct proof *proof = &volume->proof;

	if (path->wish != PATH_WISH_GO)
		return;
	for (unsigned i = proof->n; i--;) {
		struct predecessor *p = &proof->predecessors[i];

		if (p->serial != path->serial)
			continue;
		if (!path->n_taken_back)
			forget(volume, p);
		else if (p->state == PREDECESSOR_NEW) /* not of a path that was lost before */
			consider_all(volume, p);
	}
	go_on(volume);
}

bool proof_awaits(const struct volume *volume, const union addr *address)
{
	const struct proof *proof = &volume->proof;

	for (unsigned i = 0; i < proof->n; i++)
		if (addr_is_equal(&proof->predecessors[i].subject.address, address))
			return true;
	return false;
}

void proof_vouch(struct volume *volume, const union addr *address)
{
	struct proof *proof = &volume->proof;

	for (unsigned i = proof->n; i--;)
		if (addr_is_equal(&proof->predecessors[i].subject.address, address))
			prove(volume, &proof->predecessors[i], FENCING_WORD);
	go_on(volume);
}

void proof_abandon(struct volume *volume)
{
	if (volume->proof.n)
		set_closed(volume, true);
}

void proof_begin(struct volume *volume)
{
	struct proof *proof = &volume->proof;

	proof->timer.on_expiry = on_timer;
	proof->since_ns = clock_ns();
	if (volume->config.fence == VOLUME_FENCE_OFF)
		return;
	proof_file_read(volume);
	if (!proof->n)
		return;
	for (unsigned i = 0; i < proof->n; i++) {
		next_serial(proof);
		proof->predecessors[i].serial = proof->serial;
	}
	log_info(VOLUME_FMT
		 ": an earlier process has left %u associations: writes wait until they are over",
		 VOLUME_ARG(volume), proof->n);
	set_closed(volume, true);
	publish(volume);
	start_timer(volume);
}

void proof_end(struct volume *volume)
{
	loop_timer_stop(&volume->proof.timer);
	volume->proof.asked = NULL;
	if (!volume->proof.n)
		proof_file_remove(volume);
}
