/* SPDX-License-Identifier: BSD-3-Clause */
/* See sim.h: the clock, the dice, the events, the story. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/loop.h"
#include "base/random.h"
#include "base/ticks.h"
#include "tests/sim/sim.h"

enum {
	EVENTS = 4096,
	LINE_MAX = 160,
};

struct event {
	uint64_t at, order;
	void (*run)(unsigned what);
	unsigned what;
};

static struct {
	uint64_t now, order, dice, digest;
	bool has_story;
	char violation[LINE_MAX];
	struct event heap[EVENTS];
	unsigned n;
} sim;

static uint64_t read_now(void)
{
	return sim.now;
}

static void sleep_ns(uint64_t ns)
{
	sim.now += ns;
}

static const struct clock_source source = {read_now, read_now, sleep_ns};

unsigned sim_dice(unsigned n)
{
	sim.dice = sim.dice * 6364136223846793005ULL + 1442695040888963407ULL;
	return (unsigned)(sim.dice >> 33) % n;
}

void sim_time_begin(uint64_t seed, bool has_story)
{
	sim.now = 3600 * NSEC_PER_SEC;
	sim.order = sim.n = 0;
	sim.has_story = has_story;
	sim.violation[0] = '\0';
	sim.digest = 14695981039346656037ULL;
	sim.dice = seed * 2654435761u + 1;
	random_seed(seed + 1);
	clock_source = &source;
	loop_choose = sim_dice;
	for (unsigned i = 0; i < 8; i++)
		sim_dice(2);
}

uint64_t sim_now(void)
{
	return sim.now;
}

bool sim_chance(unsigned percent)
{
	return sim_dice(100) < percent;
}

uint64_t sim_between_us(unsigned from, unsigned to)
{
	return (from + sim_dice(to - from)) * NSEC_PER_USEC;
}

/* ---- events --------------------------------------------------------------------------------- */

static bool is_earlier(const struct event *a, const struct event *b)
{
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void swap(unsigned a, unsigned b)
{
	struct event e = sim.heap[a];

	sim.heap[a] = sim.heap[b];
	sim.heap[b] = e;
}

void sim_at(uint64_t time_ns, void (*run)(unsigned what), unsigned what)
{
	unsigned i = sim.n++;

	check(i < EVENTS);
	sim.heap[i] = (struct event){.at = time_ns > sim.now ? time_ns : sim.now,
				     .order = sim.order++,
				     .run = run,
				     .what = what};
	for (; i && is_earlier(&sim.heap[i], &sim.heap[(i - 1) / 2]); i = (i - 1) / 2)
		swap(i, (i - 1) / 2);
}

void sim_after(uint64_t ns, void (*run)(unsigned what), unsigned what)
{
	sim_at(sim.now + ns, run, what);
}

static struct event take_first(void)
{
	struct event first = sim.heap[0];
	unsigned i = 0, least;

	sim.heap[0] = sim.heap[--sim.n];
	for (;;) {
		least = i;
		for (unsigned child = 2 * i + 1; child <= 2 * i + 2 && child < sim.n; child++)
			if (is_earlier(&sim.heap[child], &sim.heap[least]))
				least = child;
		if (least == i)
			return first;
		swap(i, least);
		i = least;
	}
}

uint64_t sim_next(void)
{
	return sim.n ? sim.heap[0].at : UINT64_MAX;
}

void sim_move_to(uint64_t time_ns)
{
	check(time_ns >= sim.now);
	sim.now = time_ns;
	while (sim.n && sim.heap[0].at <= sim.now) {
		struct event e = take_first();

		e.run(e.what);
	}
}

/* ---- the story ------------------------------------------------------------------------------ */

void sim_tell(const char *fmt, ...)
{
	char line[LINE_MAX];
	uint64_t us = sim.now / NSEC_PER_USEC - 3600 * 1000000ULL;
	va_list ap;
	int n = snprintf(line, sizeof(line), "%3u.%06u ", (unsigned)(us / 1000000),
			 (unsigned)(us % 1000000));

	va_start(ap, fmt);
	vsnprintf(line + n, sizeof(line) - (size_t)n, fmt, ap);
	va_end(ap);
	for (const char *p = line; *p; p++)
		sim.digest = (sim.digest ^ (uint8_t)*p) * 1099511628211ULL;
	if (sim.has_story)
		puts(line);
}

void sim_wrong(const char *fmt, ...)
{
	va_list ap;

	if (sim.violation[0])
		return;
	va_start(ap, fmt);
	vsnprintf(sim.violation, sizeof(sim.violation), fmt, ap);
	va_end(ap);
	sim_tell("VIOLATION: %s", sim.violation);
}

const char *sim_violation(void)
{
	return sim.violation[0] ? sim.violation : NULL;
}

uint64_t sim_digest(void)
{
	return sim.digest;
}
