/* SPDX-License-Identifier: BSD-3-Clause */
/* See patience.h. */
#include "base/patience.h"

#include "base/bits.h"

void patience_init(struct patience *p, uint64_t spin_ns, uint64_t wake_ns)
{
	*p = (struct patience){.spin_ns = spin_ns, .wake_ns = wake_ns};
}

void patience_begin_pause(struct patience *p, uint64_t now_ns, struct patience_pause pause)
{
	p->since_ns = now_ns;
	p->polled_ns = 0;
	p->pause = pause;
	p->has_slept = false;
}

/* A look that falls due while the loop works or sleeps is left out: it would see the threads that
 * the loop has just woken, and that are about to sleep. */
bool patience_must_look(struct patience *p, uint64_t now_ns)
{
	bool has_polled = p->polled_ns != 0;

	p->polled_ns = now_ns;
	if (spin_is_time(p->spin_ns) || now_ns < p->look_ns || now_ns < p->crowded_until_ns)
		return false;
	p->look_ns = now_ns + (has_polled ? PATIENCE_LOOK_NS : PATIENCE_RETRY_NS);
	return has_polled;
}

void patience_looked(struct patience *p, uint64_t now_ns, enum crowd_verdict verdict)
{
	if (verdict == CROWD_WAITS)
		p->crowded_until_ns = now_ns + PATIENCE_CROWDED_NS;
	else if (verdict == CROWD_FULL)
		p->full_until_ns = now_ns + PATIENCE_CROWDED_NS;
}

/* How long to poll, in the pause that is current at now_ns: as the user says, or by forecast. */
static uint64_t limit_ns(const struct patience *p, uint64_t now_ns)
{
	unsigned near = p->near[p->pause.n_in_flight > 0];

	if (spin_is_time(p->spin_ns))
		return p->spin_ns;
	if (now_ns < p->crowded_until_ns)
		return 0;
	if (p->spin_ns == SPIN_ALWAYS && now_ns >= p->crowded_until_ns + PATIENCE_VERDICT_NS)
		return UINT64_MAX;
	if (p->pause.is_local && now_ns < p->full_until_ns)
		return p->pause.n_in_flight == 1 ? PATIENCE_LONE_NS : 0;
	return near > PATIENCE_ONE / 2 ? PATIENCE_SHARE * p->wake_ns : p->wake_ns;
}

bool patience_lasts(const struct patience *p, uint64_t now_ns)
{
	return now_ns - p->since_ns < limit_ns(p, now_ns);
}

void patience_sleeps(struct patience *p)
{
	p->has_slept = true;
	p->polled_ns = 0;
}

/* The share with one more pause. */
static unsigned share(unsigned before, bool is_so)
{
	unsigned one = is_so ? PATIENCE_ONE : 0;

	return (before * (PATIENCE_WEIGHT - 1) + one) / PATIENCE_WEIGHT;
}

void patience_found(struct patience *p, uint64_t now_ns)
{
	unsigned *near = &p->near[p->pause.n_in_flight > 0];
	uint64_t pause_ns;

	if (!p->since_ns)
		return;
	pause_ns = now_ns - p->since_ns;
	if (p->has_slept)
		pause_ns -= MIN(pause_ns, p->wake_ns);
	*near = share(*near, pause_ns <= PATIENCE_SHARE * p->wake_ns);
	p->since_ns = 0;
}
