/* SPDX-License-Identifier: BSD-3-Clause */
#include "softrdma/cm/cm_id.h"
#include "softrdma/cm/cm_mad_held.h"

#include <string.h>

#include "softrdma/cm/cm_mad_conn.h"
#include "softrdma/cm/sr_cm.h"

enum {
	MAX_HELD = 32,
	STEP_MS = 5,
	N_STEPS = 10,
};

struct held {
	unsigned n_left; /* 0: free */
	struct ib_cm_ends ends;
	struct mad m;
};

/* Under sr_cm_lock. */
static struct held held[MAX_HELD];
static sr_cm_serve *serve;
static struct sr_timer timer;

static void on_timer(uint64_t arg)
{
	bool is_any_left = false;

	pthread_mutex_lock(&sr_cm_lock);
	for (unsigned i = 0; i < MAX_HELD; i++) {
		struct held *h = &held[i];

		if (!h->n_left)
			continue;
		if (serve(&h->ends, &h->m, --h->n_left == 0))
			h->n_left = 0;
		is_any_left = is_any_left || h->n_left;
	}
	if (is_any_left)
		sr_timer_start(&timer, STEP_MS * 1000000ULL, on_timer, 0);
	pthread_mutex_unlock(&sr_cm_lock);
}

static bool is_same(const struct held *h, const struct ib_cm_ends *ends, const struct mad *m)
{
	return h->n_left && h->m.local_id == m->local_id && !memcmp(&h->ends, ends, sizeof(*ends));
}

bool sr_cm_hold_request(const struct ib_cm_ends *ends, const struct mad *m, sr_cm_serve *fn)
{
	struct held *room = NULL;

	for (unsigned i = 0; i < MAX_HELD; i++) {
		if (is_same(&held[i], ends, m))
			return true; /* sent twice */
		if (!held[i].n_left)
			room = &held[i];
	}
	if (!room)
		return false;
	*room = (struct held){.n_left = N_STEPS, .ends = *ends, .m = *m};
	serve = fn;
	sr_timer_start(&timer, STEP_MS * 1000000ULL, on_timer, 0);
	return true;
}

static void forget(void)
{
	memset(held, 0, sizeof(held));
	memset(&timer, 0, sizeof(timer));
}

static const struct sr_part part = {.forget = forget};
SR_PART(part);
