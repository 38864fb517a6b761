/* SPDX-License-Identifier: BSD-3-Clause */
/* Rules: which event, which occurrence of it, which action. Also the host's violations. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/hostile_target/fake.h"

static const char *const event_names[EV_N] = {
	"cm-admin",	   "cm-io",	   "connect-admin", "connect-io",    "auth-send",
	"auth-receive",	   "get-cap",	   "get-csts",	    "set-cc",	     "identify-ctrl",
	"identify-limits", "identify-ids", "identify-ns",   "identify-list", "set-queues",
	"set-events",	   "get-log",	   "get-smart",	    "get-blocks",    "get-resets",
	"cross-reset",	   "keep-alive",   "aer",	    "read",	     "write",
	"flush",	   "zero",	   "trim",	    "compare",
};

static const char *const action_names[ACT_N] = {
	"none",	     "reject",	   "no-private", "bad-private",	     "silence",	  "late",
	"hold",	     "disconnect", "exit",	 "status",	     "wrong-cid", "old-cid",
	"duplicate", "short",	   "invalidate", "invalidate-other", "garbage",	  "fatal",
	"not-ready", "write-past",
};

static struct rule rules[MAX_RULES];
static unsigned n_rules, counts[EV_N], n_violations;

const char *rules_event_name(enum event event)
{
	return event_names[event];
}

static int find_name(const char *const *names, int n, const char *s, size_t len)
{
	for (int i = 0; i < n; i++)
		if (strlen(names[i]) == len && memcmp(names[i], s, len) == 0)
			return i;
	return -1;
}

bool rules_parse(const char *arg)
{
	const char *equals = strchr(arg, '='), *colon = strchr(arg, ':'), *comma;
	struct rule *rule = &rules[n_rules];
	int event, action;

	if (!equals || n_rules == MAX_RULES)
		return false;
	if (colon > equals)
		colon = NULL;
	event = find_name(event_names, EV_N, arg, (size_t)((colon ? colon : equals) - arg));
	comma = strchr(equals, ',');
	action = find_name(action_names, ACT_N, equals + 1,
			   comma ? (size_t)(comma - equals - 1) : strlen(equals + 1));
	if (event < 0 || action < 0)
		return false;
	*rule = (struct rule){
		.event = (enum event)event,
		.nth = colon ? (unsigned)strtoul(colon + 1, NULL, 10) : 0,
		.action = (enum action)action,
	};
	if (comma)
		rule->argument = strtoull(comma + 1, NULL, action == ACT_STATUS ? 16 : 10);
	n_rules++;
	return true;
}

const struct rule *rules_find(enum event event)
{
	unsigned nth = ++counts[event];

	for (unsigned i = 0; i < n_rules; i++)
		if (rules[i].event == event && (!rules[i].nth || rules[i].nth == nth))
			return &rules[i];
	return NULL;
}

uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void violation(const char *fmt, ...)
{
	va_list ap;

	n_violations++;
	fputs("violation: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
}

unsigned violations(void)
{
	return n_violations;
}
