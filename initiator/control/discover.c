/* SPDX-License-Identifier: BSD-3-Clause */
/* Discovery, blocking: one association with the discovery controller (inquiry.h), which reads the
 * log (discovery_read.c) and is shut down. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/conf.h"
#include "base/conf_guess.h"
#include "initiator/control/discover.h"
#include "initiator/control/discovery_read.h"
#include "initiator/control/inquiry.h"

static void on_read(struct controller *c)
{
	inquiry_succeed(c->context);
}

static void ask(struct inquiry *inquiry)
{
	discovery_read(&inquiry->controller, on_read);
}

int discover(const struct volume_config *config, struct discover_result *ret_result,
	     struct error *error)
{
	struct inquiry *inquiry = calloc(1, sizeof(*inquiry));
	struct discover_result *result;
	int r;

	if (!inquiry)
		return inquiry_out_of_resources(error, -ENOMEM);
	inquiry->ask = ask;
	r = inquiry_run(inquiry, config, CONTROLLER_KIND_DISCOVERY, error);
	result = &inquiry->controller.discovery_read.result;
	if (r == 0)
		*ret_result = *result;
	else
		discover_result_release(result);
	free(inquiry);
	return r;
}

void discover_suggest(const struct volume_config *config, struct error *error)
{
	const char *names[DISCOVER_RECORDS_MAX + 1];
	struct discover_result result;
	struct error ignored;
	const char *close_one;
	unsigned n = 0;

	if (error->code != EXIT_NOT_FOUND || discover(config, &result, &ignored) < 0)
		return;
	for (unsigned i = 0; i < result.n_records; i++)
		if (result.records[i].subtype == NVMF_SUBTYPE_NVM)
			names[n++] = result.records[i].subnqn;
	names[n] = NULL;
	close_one = conf_did_you_mean(config->subnqn, names);
	/* If the log lists the very name, the subsystem exists and only the namespace is
	 * missing. */
	if (close_one && strcmp(close_one, config->subnqn) != 0)
		snprintf(error->hint, sizeof(error->hint), "did you mean '%.220s'?", close_one);
	discover_result_release(&result);
}
