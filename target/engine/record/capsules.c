/* SPDX-License-Identifier: BSD-3-Clause */
/* See capsules.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/check.h"
#include "target/engine/record/capsule_text.h"
#include "target/engine/record/capsules.h"
#include "target/engine/record/target.h"

enum {
	DUMP_LINES = 2048, /* of all queues together; each queue has one anyway */
	LOG_BURST = 2,
};

struct capsules {
	/* Thread: control */
	struct capsule_ring *rings; /* owned mapping; unused rings have no memory yet */
	unsigned n, n_fresh;	    /* rings from n_fresh on were never used */
	struct capsule_ring *free;
};

/* ---- rings ---------------------------------------------------------------------------------- */

int capsules_init(struct target *target)
{
	unsigned n = (unsigned)target->config->limits.connections;
	struct capsules *c = calloc(1, sizeof(*c));
	void *memory;

	if (!c)
		return -ENOMEM;
	memory = mmap(NULL, n * sizeof(*c->rings), PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED) {
		free(c);
		return -ENOMEM;
	}
	c->rings = memory;
	c->n = n;
	target->capsules = c;
	return 0;
}

void capsules_deinit(struct target *target)
{
	struct capsules *c = target->capsules;

	if (!c)
		return;
	target->capsules = NULL;
	munmap(c->rings, c->n * sizeof(*c->rings));
	free(c);
}

struct capsule_ring *capsules_take(struct target *target, uint16_t qid, const char *remote)
{
	struct capsules *c = target->capsules;
	struct capsule_ring *ring = c->free;

	check(c->n_fresh <= c->n);
	if (!ring && c->n_fresh == c->n)
		return NULL;
	if (ring)
		c->free = ring->next;
	else
		ring = &c->rings[c->n_fresh++];
	memset(ring, 0, sizeof(*ring));
	ring->qid = qid;
	snprintf(ring->remote, sizeof(ring->remote), "%s", remote);
	ring->is_used = true;
	return ring;
}

void capsules_give(struct target *target, struct capsule_ring *ring)
{
	if (!ring)
		return;
	check(ring->is_used);
	ring->is_used = false;
	ring->next = target->capsules->free;
	target->capsules->free = ring;
}

unsigned capsules_sort(const struct capsule_ring *ring, unsigned max,
		       const struct capsule *ret_sorted[CAPSULES_KEPT])
{
	unsigned newest = 0, n = 0;

	for (unsigned i = 1; i < CAPSULES_KEPT; i++)
		if (ring->capsules[i].received >= ring->capsules[newest].received)
			newest = i;
	for (unsigned i = MIN(max, CAPSULES_KEPT); i-- > 0;) {
		unsigned at = (newest + CAPSULES_KEPT - i) % CAPSULES_KEPT;

		if (ring->capsules[at].received)
			ret_sorted[n++] = &ring->capsules[at];
	}
	return n;
}

/* ---- poller --------------------------------------------------------------------------------- */

void capsules_name(struct capsule_ring *ring, uint16_t cntlid, const char *hostnqn)
{
	ring->cntlid = cntlid;
	snprintf(ring->hostnqn, sizeof(ring->hostnqn), "%s", hostnqn);
}

void capsules_keep_last(struct capsule_ring *ring)
{
	const struct capsule *sorted[CAPSULES_KEPT];

	ring->n_last = capsules_sort(ring, CAPSULES_SAID, sorted);
	for (unsigned i = 0; i < ring->n_last; i++)
		ring->last[i] = *sorted[i];
}

/* ---- control -------------------------------------------------------------------------------- */

/* Its copy from when the queue failed. Where control found the failure there is none: then the ring
 * as it is, which the poller may be writing. */
static unsigned sort_for_log(const struct capsule_ring *ring,
			     const struct capsule *ret_sorted[CAPSULES_KEPT])
{
	if (!ring->n_last)
		return capsules_sort(ring, CAPSULES_SAID, ret_sorted);
	for (unsigned i = 0; i < ring->n_last; i++)
		ret_sorted[i] = &ring->last[i];
	return ring->n_last;
}

void capsules_log(const struct capsule_ring *ring, struct log_limit *limit)
{
	const struct capsule *sorted[CAPSULES_KEPT];
	unsigned n = sort_for_log(ring, sorted);
	uint64_t now = ticks_now();
	char line[CAPSULE_LINE_MAX];

	if (!n || (limit && !log_limit_pass(limit, LOG_BURST)))
		return;
	log_warn_about(LOG_ABOUT(.host = ring->hostnqn),
		       "%s: queue %u: its last capsules, oldest first:", ring->remote, ring->qid);
	for (unsigned i = 0; i < n; i++) {
		capsule_line(sorted[i], ring->qid == 0, now, line);
		log_warn_about(LOG_ABOUT(.host = ring->hostnqn), "  %s", line);
	}
}

/* ---- the end of the program ----------------------------------------------------------------- */

static bool dump_text(int fd, const char *before, char *text, size_t n)
{
	text[n] = '\n';
	return write(fd, before, strlen(before)) >= 0 && write(fd, text, n + 1) >= 0;
}

/* Whether the write succeeded. Pollers may write records meanwhile, which it accepts. */
__attribute__((no_sanitize("thread"))) static bool dump_ring(const struct capsule_ring *ring,
							     unsigned max, int fd)
{
	char text[CAPSULE_LINE_MAX + NVMF_NQN_MAX + 2];
	const struct capsule *sorted[CAPSULES_KEPT];
	unsigned n = capsules_sort(ring, max, sorted);
	uint64_t now = ticks_now();

	if (!dump_text(fd, "rblkd: capsules of ", text,
		       capsule_heading(ring, text, sizeof(text) - 1)))
		return false;
	for (unsigned i = 0; i < n; i++)
		if (!dump_text(fd, "rblkd:   ", text,
			       capsule_line(sorted[i], ring->qid == 0, now, text)))
			return false;
	return true;
}

__attribute__((no_sanitize("thread"))) void capsules_dump(const struct target *target, int fd)
{
	const struct capsules *c = target->capsules;
	unsigned n_used = 0;

	for (unsigned i = 0; c && i < c->n_fresh; i++)
		n_used += c->rings[i].is_used;
	for (unsigned i = 0; n_used && i < c->n_fresh; i++)
		if (c->rings[i].is_used &&
		    !dump_ring(&c->rings[i], MAX(1, DUMP_LINES / n_used), fd))
			return;
}
