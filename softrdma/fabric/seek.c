/* SPDX-License-Identifier: BSD-3-Clause */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "softrdma/fabric/peer.h"
#include "softrdma/fabric/seek.h"
#include "softrdma/process/part.h"
#include "softrdma/process/timer.h"

enum {
	SOUGHT = 64,
	ABSENT = 16,
};

#define ABSENT_NS 50000000ULL /* so long a process is not looked for again */

/* A number whose owner is looked for, and the slot of the queue pair that waits. */
struct sought {
	uint32_t qpn, slot;
};

/* Guards all below. Leaf. */
static pthread_mutex_t seek_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sought sought[SOUGHT];
static unsigned n_sought, next_absent;
static bool seeks; /* the thread runs */
static struct {
	uint64_t until_ns;
	uint16_t base;
} absent[ABSENT];

/* Whether that number had no owner a moment ago. Under seek_lock. */
static bool is_absent(uint16_t base, uint64_t now)
{
	for (unsigned i = 0; i < ABSENT; i++)
		if (absent[i].base == base && now < absent[i].until_ns)
			return true;
	return false;
}

static void note_absence(uint16_t base)
{
	pthread_mutex_lock(&seek_lock);
	absent[next_absent].base = base;
	absent[next_absent].until_ns = sr_now_ns() + ABSENT_NS;
	next_absent = (next_absent + 1) % ABSENT;
	pthread_mutex_unlock(&seek_lock);
}

/* False: there is none, and the thread ends. */
static bool next_sought(struct sought *ret)
{
	bool any;

	pthread_mutex_lock(&seek_lock);
	any = n_sought;
	seeks = any;
	if (any)
		*ret = sought[--n_sought];
	pthread_mutex_unlock(&seek_lock);
	return any;
}

static void *seek(void *arg)
{
	struct sought s;

	while (next_sought(&s)) {
		struct sr_peer *p;

		if (sr_peer_by_qpn(s.qpn, &p))
			note_absence((uint16_t)(s.qpn >> 8));
		else
			sr_peer_unref(p);
		sr_peer_kick_qp(sr_peer_self, s.slot, SEG_EV_RESUME);
	}
	return NULL;
}

/* Under seek_lock. */
static bool start_seeking(void)
{
	sigset_t all, old;
	pthread_t thread;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old); /* inherited by the thread */
	seeks = !pthread_create(&thread, NULL, seek, NULL);
	if (seeks)
		pthread_detach(thread);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return seeks;
}

bool sr_peer_seek(uint32_t qpn, uint32_t slot)
{
	bool accepted;

	pthread_mutex_lock(&seek_lock);
	accepted = n_sought < SOUGHT && !is_absent((uint16_t)(qpn >> 8), sr_now_ns());
	if (accepted)
		sought[n_sought++] = (struct sought){qpn, slot};
	if (accepted && !seeks && !start_seeking()) {
		n_sought = 0;
		accepted = false;
	}
	pthread_mutex_unlock(&seek_lock);
	return accepted;
}

void sr_peer_meet_all(void)
{
	static const char prefix[] = "@softrdma.node.";
	FILE *f = fopen("/proc/net/unix", "re");
	char line[512];

	while (f && fgets(line, sizeof(line), f)) {
		const char *name = strstr(line, prefix);
		unsigned base;
		struct sr_peer *p;

		if (name && sscanf(name + sizeof(prefix) - 1, "%x", &base) == 1 &&
		    !sr_peer_by_qpn(base << 8, &p))
			sr_peer_unref(p);
	}
	if (f)
		fclose(f);
}

static void forget(void)
{
	pthread_mutex_init(&seek_lock, NULL);
	n_sought = 0;
	seeks = false;
	memset(absent, 0, sizeof(absent));
}

static const struct sr_part part = {.forget = forget};
SR_PART(part);
