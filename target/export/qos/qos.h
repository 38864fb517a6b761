/* SPDX-License-Identifier: BSD-3-Clause */
/* Limits of a namespace or a host: operations and bytes a second. throttle.c keeps commands to
 * them. */
#pragma once

#include "target/config/config.h"
#include "target/export/qos/line.h"

enum qos_kind {
	QOS_OPERATIONS,
	QOS_READ,
	QOS_WRITE,
	QOS_KINDS,
};

struct qos {
	_Atomic bool is_on; /* control sets */
	struct rate rates[QOS_KINDS];
	struct line lines[QOS_KINDS][LINES_MAX]; /* of struct request (turn); flows are queues */
};

/* Control. Without limits. */
void qos_init(struct qos *qos);
/* Control. From now on these; those that wait are looked at within 100 ms. */
void qos_set(struct qos *qos, const struct config_qos *config);
