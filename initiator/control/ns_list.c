/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See ns_list.h: an association without a namespace (nsid 0) and without I/O queues, and one
 * command.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "initiator/control/controller_command.h"
#include "initiator/control/errors.h"
#include "initiator/control/inquiry.h"
#include "initiator/control/ns_list.h"

struct listing {
	struct inquiry inquiry;
	struct ns_list *into; /* the caller's */
};

/* A list that does not ascend is taken up to there: the target wrote it. */
static void on_list(void *context, const struct admin_answer *answer)
{
	struct controller *c = context;
	struct listing *l = container_of(c->context, struct listing, inquiry);
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
	inquiry_succeed(&l->inquiry);
}

static void ask(struct inquiry *inquiry)
{
	struct controller *c = &inquiry->controller;
	struct admin_command command = controller_identify(c, NVME_CNS_NS_LIST, 0);

	command.done = on_list;
	controller_submit(c, &command);
}

int ns_list_read(const struct volume_config *config, struct ns_list *ret_list, struct error *error)
{
	struct listing *l = calloc(1, sizeof(*l));
	struct volume_config without_namespace = *config;
	int r;

	if (!l)
		return inquiry_out_of_resources(error, -ENOMEM);
	without_namespace.nsid = 0;
	l->inquiry.ask = ask;
	l->into = ret_list;
	r = inquiry_run(&l->inquiry, &without_namespace, CONTROLLER_KIND_IO, error);
	free(l);
	return r;
}
