/* SPDX-License-Identifier: BSD-3-Clause */
/* See qos.h. */
#include "base/clock.h"
#include "target/export/qos/qos.h"

void qos_init(struct qos *qos)
{
	atomic_store(&qos->is_on, false);
	for (unsigned i = 0; i < QOS_KINDS; i++)
		rate_init(&qos->rates[i], qos->lines[i]);
}

void qos_set(struct qos *qos, const struct config_qos *config)
{
	uint64_t now_ns = clock_ns(), burst_ns = config->burst_ns;

	rate_set(&qos->rates[QOS_OPERATIONS], config->iops, burst_ns, now_ns);
	rate_set(&qos->rates[QOS_READ], config->read_bandwidth, burst_ns, now_ns);
	rate_set(&qos->rates[QOS_WRITE], config->write_bandwidth, burst_ns, now_ns);
	atomic_store(&qos->is_on,
		     config->iops || config->read_bandwidth || config->write_bandwidth);
}
