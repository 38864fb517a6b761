/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections that have not introduced themselves; see callers.h. */
#include "softrdma/fabric/callers.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "softrdma/chaos/chaos.h"
#include "softrdma/process/part.h"
#include "softrdma/process/timer.h"

#define MS 1000000ULL

struct caller {
	struct caller *next;
	uint64_t number;
	int sock; /* owned */
	struct sr_timer timer;
};

/* Thread: helper */
static struct caller *callers;
static struct sr_strangers strangers;
static uint64_t last_number;

bool sr_is_stranger(int sock)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	return getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &len) || cred.uid != geteuid();
}

uint64_t sr_strangers_add(struct sr_strangers *s, uint64_t number)
{
	uint64_t first = s->numbers[s->next];

	s->numbers[s->next] = number;
	s->next = (s->next + 1) % SR_STRANGERS;
	return first;
}

static struct caller **find(uint64_t number)
{
	struct caller **p = &callers;

	while (*p && (*p)->number != number)
		p = &(*p)->next;
	return p;
}

int sr_caller_find(uint64_t number)
{
	const struct caller *c = *find(number);

	return c ? c->sock : -1;
}

int sr_caller_take(uint64_t number)
{
	struct caller **p = find(number), *c = *p;
	int sock;

	if (!c)
		return -1;
	*p = c->next;
	sock = c->sock;
	sr_timer_stop(&c->timer);
	sr_helper_unwatch(sock);
	free(c);
	return sock;
}

static void end(uint64_t number)
{
	int sock = sr_caller_take(number);

	if (sock >= 0)
		close(sock);
}

void sr_caller_new(int sock)
{
	struct caller *c = calloc(1, sizeof(*c));

	if (!c) {
		close(sock);
		return;
	}
	c->number = ++last_number;
	c->sock = sock;
	c->next = callers;
	callers = c;
	sr_timer_start(&c->timer, chaos_cm_timeout_ms(SR_SILENCE_MS) * MS, end, c->number);
	if (sr_is_stranger(sock))
		end(sr_strangers_add(&strangers, c->number));
	if (sr_helper_watch(sock, SR_WATCH_HELLO, c->number))
		end(c->number);
}

/* In a forked child: the connections are the parent's. */
static void forget(void)
{
	struct caller *next;

	for (struct caller *c = callers; c; c = next) {
		next = c->next;
		close(c->sock);
		free(c);
	}
	callers = NULL;
	strangers = (struct sr_strangers){0};
}

static const struct sr_part part = {.forget = forget};
SR_PART(part);
