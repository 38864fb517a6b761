/* SPDX-License-Identifier: BSD-3-Clause */
/* Rate limits of a namespace or a host: operations and bytes a second. throttle.c applies them. */
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
	struct line lines[QOS_KINDS][POLLERS_MAX]; /* of struct request (turn); flows are queues */
};

/* Control. Without limits. */
void qos_init(struct qos *qos);
/* Control. Sets new limits; waiting commands follow them within 100 ms. */
void qos_set(struct qos *qos, const struct config_qos *config);
