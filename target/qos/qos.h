/* SPDX-License-Identifier: BSD-3-Clause */
/* Limits of a namespace or a host: operations and bytes a second. throttle.c keeps commands to them. */
#pragma once

#include "target/config/config.h"
#include "target/qos/bucket.h"
#include "target/qos/fair.h"

enum {
	QOS_LINES = 8, /* one a poller */
};

enum qos_kind {
	QOS_OPERATIONS,
	QOS_READ,
	QOS_WRITE,
	QOS_KINDS,
};

struct qos_line {
	/* Thread: its poller */
	_Alignas(64) struct list node; /* poller->throttled, while somebody waits */
	struct fair waiters;	       /* of struct request (turn); flows are queues */
	struct purse purses[QOS_KINDS];
};

struct qos {
	_Atomic bool is_on; /* control sets */
	struct bucket buckets[QOS_KINDS];
	struct qos_line lines[QOS_LINES];
};

/* Control. Without limits. */
void qos_init(struct qos *qos);
/* Control. From now on these; who waits is looked at when its time has come. */
void qos_set(struct qos *qos, const struct config_qos *config);
