/* SPDX-License-Identifier: BSD-3-Clause */
/* See metrics.h. Built without libmicrohttpd, the configuration refuses the key. */
#include "base/http.h"
#include "base/log.h"
#include "target/operations/stats/metrics.h"
#include "target/operations/stats/prometheus.h"

static char *make(void *context, size_t *ret_n)
{
	return prometheus_text(context, ret_n);
}

int metrics_start(struct target *target)
{
	struct http_config config = {
		.loop = &target->loop,
		.where = target->config->metrics.listen,
		.program = "rblkd",
		.if_taken = "another program listens there: choose another port in metrics.listen",
		.make = make,
		.context = target,
	};
	struct error error = {0};
	int r;

	if (!config.where)
		return 0;
	r = addr_parse_numeric(config.where, METRICS_PORT, &config.address);
	if (r < 0)
		return log_errno(r, "metrics: cannot listen on %s", config.where);
	r = http_start(&config, &target->http, &error);
	if (r < 0)
		log_err("%s%s%s", error.message, *error.hint ? "; " : "", error.hint);
	return r;
}

void metrics_stop(struct target *target)
{
	http_stop(target->http);
	target->http = NULL;
}
