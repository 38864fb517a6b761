/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See ns_list.h: a temporary loop, one association without a namespace (nsid 0) and without I/O
 * queues, one command, and the normal shutdown.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "initiator/control/controller.h"
#include "initiator/control/errors.h"
#include "initiator/control/ns_list.h"

struct listing {
	struct loop loop;
	struct cm *cm;
	struct volume_config config;
	struct controller controller;
	struct ns_list *into; /* the caller's */
	bool is_done, is_good;
};

/* A list that does not ascend is taken up to there: the target wrote it. */
static void on_list(void *context, const struct admin_answer *answer)
{
	struct controller *c = context;
	struct listing *l = c->context;
	uint32_t last = 0;

	if (answer->status != NVME_OK) {
		error_from_status(&c->error, "Identify (active namespaces)", answer->status);
		controller_fail(c);
		return;
	}
	l->into->n = 0;
	for (unsigned i = 0; i < NS_LIST_MAX; i++) {
		le32 wire;

		memcpy(&wire, (const uint8_t *)answer->data + i * sizeof(wire), sizeof(wire));
		if (get_le32(wire) <= last || get_le32(wire) >= NVME_NSID_ALL - 1)
			break;
		last = get_le32(wire);
		l->into->nsids[l->into->n++] = last;
	}
	l->is_good = true;
	controller_shut_down(c);
}

static void on_live(struct controller *c)
{
	struct admin_command command = controller_identify(c, NVME_CNS_NS_LIST, 0);

	command.done = on_list;
	controller_submit(c, &command);
}

static void on_down(struct controller *c)
{
	controller_stop(c);
}

static void on_stopped(struct controller *c)
{
	struct listing *l = c->context;

	if (!l->is_good && controller_may_ask_again(c)) {
		controller_close_domain(c);
		controller_start(c);
		return;
	}
	l->is_done = true;
}

static const struct controller_ops ops = {
	.on_live = on_live,
	.on_down = on_down,
	.on_stopped = on_stopped,
};

static int out_of_resources(struct error *error, int r)
{
	error_set(error, EXIT_FAILED, NULL, "cannot start: %s", strerror(-r));
	return -1;
}

static void run(struct listing *l)
{
	controller_init(&l->controller, &l->loop, l->cm, &l->config, false, &ops, l);
	controller_start(&l->controller);
	while (!l->is_done)
		loop_turn(&l->loop, UINT64_MAX);
	controller_close_domain(&l->controller);
}

int ns_list_read(const struct volume_config *config, struct ns_list *ret_list, struct error *error)
{
	struct listing *l = calloc(1, sizeof(*l));
	int r;

	if (!l)
		return out_of_resources(error, -ENOMEM);
	l->config = *config;
	l->config.nsid = 0;
	l->into = ret_list;
	r = loop_init(&l->loop, 0, NULL);
	if (r == 0)
		r = cm_new(&l->loop, &l->cm);
	if (r < 0) {
		loop_deinit(&l->loop);
		free(l);
		return out_of_resources(error, r);
	}
	run(l);
	cm_free(l->cm);
	loop_deinit(&l->loop);
	if (!l->is_good)
		*error = l->controller.error;
	r = l->is_good ? 0 : -1;
	free(l);
	return r;
}
