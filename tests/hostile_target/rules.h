/* SPDX-License-Identifier: BSD-3-Clause */
/* How the fake target misbehaves: rules EVENT[:N]=ACTION[,ARGUMENT]. And the faults of the host. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
	MAX_RULES = 32,
};

enum event {
	EV_CM_ADMIN,
	EV_CM_IO,
	EV_CONNECT_ADMIN,
	EV_CONNECT_IO,
	EV_AUTH_SEND,
	EV_AUTH_RECEIVE,
	EV_GET_CAP,
	EV_GET_CSTS,
	EV_SET_CC,
	EV_IDENTIFY_CTRL,
	EV_IDENTIFY_LIMITS,
	EV_IDENTIFY_IDS,
	EV_IDENTIFY_NS,
	EV_IDENTIFY_LIST,
	EV_SET_QUEUES,
	EV_SET_EVENTS,
	EV_GET_LOG,
	EV_GET_SMART,
	EV_GET_BLOCKS,
	EV_GET_RESETS,
	EV_CROSS_RESET,
	EV_KEEP_ALIVE,
	EV_AER,
	EV_READ,
	EV_WRITE,
	EV_FLUSH,
	EV_ZERO,
	EV_TRIM,
	EV_COMPARE,
	EV_N,
};

enum action {
	ACT_NONE,
	ACT_REJECT,	 /* CM: argument is the status */
	ACT_NO_PRIVATE,	 /* CM: accept without private data */
	ACT_BAD_PRIVATE, /* CM: with an unknown format */
	ACT_SILENCE,	 /* no answer, ever */
	ACT_LATE,	 /* answer after argument ms */
	ACT_HOLD,	 /* answer after the line "release" */
	ACT_DISCONNECT,
	ACT_EXIT,   /* the process dies */
	ACT_STATUS, /* answer with this status (hexadecimal, as in CQE >> 1) */
	ACT_WRONG_CID,
	ACT_OLD_CID,	      /* right slot, another generation */
	ACT_DUPLICATE,	      /* two responses */
	ACT_SHORT,	      /* a response of 8 bytes */
	ACT_INVALIDATE,	      /* SEND with invalidate, requested or not */
	ACT_INVALIDATE_OTHER, /* with the key of another command in flight */
	ACT_GARBAGE,	      /* random data */
	ACT_FATAL,	      /* CSTS.CFS */
	ACT_NOT_READY,	      /* CSTS.RDY stays 0 */
	ACT_WRITE_PAST,	      /* RDMA WRITE far outside of the host's buffer */
	ACT_N,
};

struct rule {
	enum event event;
	unsigned nth; /* 0: every time */
	enum action action;
	uint64_t argument;
};

bool rules_parse(const char *arg);
const struct rule *rules_find(enum event event);
const char *rules_event_name(enum event event);
uint64_t now_ns(void);
/* The host has violated the protocol: prints the message, and sets the exit code to 3. */
__attribute__((format(printf, 1, 2))) void violation(const char *fmt, ...);
unsigned violations(void);
