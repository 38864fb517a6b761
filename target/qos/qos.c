/* SPDX-License-Identifier: BSD-3-Clause */
/* See qos.h. */
#include <string.h>

#include "target/qos/qos.h"

void qos_init(struct qos *qos)
{
	memset(qos, 0, sizeof(*qos));
	for (unsigned i = 0; i < QOS_LINES; i++) {
		list_init(&qos->lines[i].node);
		fair_init(&qos->lines[i].waiters);
	}
}

void qos_set(struct qos *qos, const struct config_qos *config)
{
	bucket_set(&qos->buckets[QOS_OPERATIONS], config->iops, config->burst_ns);
	bucket_set(&qos->buckets[QOS_READ], config->read_bandwidth, config->burst_ns);
	bucket_set(&qos->buckets[QOS_WRITE], config->write_bandwidth, config->burst_ns);
	atomic_store(&qos->is_on,
		     config->iops || config->read_bandwidth || config->write_bandwidth);
}
