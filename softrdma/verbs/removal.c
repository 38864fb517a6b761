/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Removal of the device.
 *
 *   PRESENT -- requested --> LEAVING -- not held --> AWAY -- no longer requested --> PRESENT
 *
 * From LEAVING on the device is in no list and cannot be opened or bound to. Existing objects stay
 * until their owner has released them, as with rxe and siw: the kernel waits in `rdma link delete`
 * for the last descriptor. A context's descriptor is one end of a pair of sockets; the helper has
 * the other, which hangs up.
 *
 * Each return makes a new struct ibv_device, which exposes a program that keeps a pointer to the
 * old one.
 */
#include "softrdma/verbs/removal.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
#include <limits.h>

#include "softrdma/verbs/context.h"
#include "softrdma/process/likeness.h"
#include "softrdma/process/part.h"

enum state {
	PRESENT,
	LEAVING,
	AWAY
};

static const char *const names[N_HOLDS] = {
	[HOLD_CONTEXT] = "contexts", [HOLD_PD] = "pds",	    [HOLD_MR] = "mrs",	 [HOLD_MW] = "mws",
	[HOLD_CHANNEL] = "channels", [HOLD_CQ] = "cqs",	    [HOLD_SRQ] = "srqs", [HOLD_QP] = "qps",
	[HOLD_ID] = "ids",	     [HOLD_XRCD] = "xrcds",
};

/* Guards all below. Leaf. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static enum state state;
static bool is_wanted_away;
static unsigned n_held[N_HOLDS], n_all, n_returns;
static char report_path[PATH_MAX]; /* empty: no report */

static void print_holders(FILE *f)
{
	fprintf(f, "leaving, held by");
	for (unsigned i = 0; i < N_HOLDS; i++)
		if (n_held[i])
			fprintf(f, " %u %s", n_held[i], names[i]);
	fputc('\n', f);
}

/* Moved into place, so that a reader sees a whole line. */
static void report(void)
{
	char temporary[sizeof(report_path) + 4];
	FILE *f;

	if (!*report_path)
		return;
	snprintf(temporary, sizeof(temporary), "%s.new", report_path);
	f = fopen(temporary, "we");
	if (!f)
		return;
	if (state == LEAVING)
		print_holders(f);
	else
		fputs(state == AWAY ? "removed\n" : "present\n", f);
	if (!fclose(f))
		rename(temporary, report_path);
}

static void look(void)
{
	if (state == LEAVING && !n_all)
		state = AWAY;
	if (state == AWAY && !is_wanted_away) {
		state = PRESENT;
		n_returns++;
	}
}

void sr_removal_hold(enum sr_hold what)
{
	pthread_mutex_lock(&lock);
	n_held[what]++;
	n_all++;
	pthread_mutex_unlock(&lock);
}

void sr_removal_unhold(enum sr_hold what)
{
	pthread_mutex_lock(&lock);
	assert(n_held[what] > 0 && n_all > 0);
	n_held[what]--;
	n_all--;
	if (state == LEAVING) {
		look();
		report();
	}
	pthread_mutex_unlock(&lock);
}

struct ibv_device *sr_removal_device(void)
{
	struct ibv_device *device;

	pthread_mutex_lock(&lock);
	device = state == PRESENT ? sr_incarnation(n_returns) : NULL;
	pthread_mutex_unlock(&lock);
	return device;
}

bool sr_removal_want(bool is_away)
{
	bool begins;

	pthread_mutex_lock(&lock);
	begins = is_away && state == PRESENT;
	is_wanted_away = is_away;
	if (begins)
		state = LEAVING;
	look();
	report();
	pthread_mutex_unlock(&lock);
	return begins;
}

/* The helper does not know yet whether the device is away; it reports again then. */
static void start(void)
{
	const char *control = getenv("SOFTRDMA_CONTROL");

	if (!control || !*control)
		return;
	pthread_mutex_lock(&lock);
	snprintf(report_path, sizeof(report_path), "%s.device", control);
	report();
	pthread_mutex_unlock(&lock);
}

static void forget(void)
{
	pthread_mutex_init(&lock, NULL);
	memset(n_held, 0, sizeof(n_held));
	n_all = 0;
	*report_path = '\0';
}

static const struct sr_part part = {.start = start, .forget = forget};
SR_PART(part);
