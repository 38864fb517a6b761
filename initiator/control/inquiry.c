/* SPDX-License-Identifier: BSD-3-Clause */
/* See inquiry.h. Failures end the association and leave the controller's error for the caller. */
#include <string.h>

#include "initiator/control/inquiry.h"
#include "initiator/control/controller.h"

static void on_live(struct controller *c)
{
	struct inquiry *inquiry = c->context;

	inquiry->ask(inquiry);
}

static void on_down(struct controller *c)
{
	controller_stop(c);
}

static void on_stopped(struct controller *c)
{
	struct inquiry *inquiry = c->context;

	if (!inquiry->is_good && controller_may_ask_again(c)) {
		controller_close_domain(c);
		controller_start(c);
		return;
	}
	inquiry->is_done = true;
}

static const struct controller_ops ops = {
	.on_live = on_live,
	.on_down = on_down,
	.on_stopped = on_stopped,
};

void inquiry_succeed(struct inquiry *inquiry)
{
	inquiry->is_good = true;
	controller_shut_down(&inquiry->controller);
}

int inquiry_out_of_resources(struct error *error, int r)
{
	error_set(error, EXIT_FAILED, NULL, "cannot start: %s", strerror(-r));
	return -1;
}

int inquiry_run(struct inquiry *inquiry, const struct volume_config *config,
		enum controller_kind kind, struct error *error)
{
	int r = loop_init(&inquiry->loop, 0, NULL);

	if (r == 0)
		r = cm_new(&inquiry->loop, &inquiry->cm);
	if (r < 0) {
		loop_deinit(&inquiry->loop);
		return inquiry_out_of_resources(error, r);
	}
	controller_init(&inquiry->controller, &inquiry->loop, inquiry->cm, config, kind, &ops,
			inquiry);
	controller_start(&inquiry->controller);
	while (!inquiry->is_done)
		loop_turn(&inquiry->loop, UINT64_MAX);
	controller_close_domain(&inquiry->controller);
	cm_free(inquiry->cm);
	loop_deinit(&inquiry->loop);
	if (inquiry->is_good)
		return 0;
	*error = inquiry->controller.error;
	return -1;
}
