/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See resv_notice.h.
 *
 *   acting poller: a list of hosts, and the type of notification for each
 *     -> control: for each controller of such a host at this subsystem, a letter
 *       -> its poller: an entry in its log, and an event
 *
 * The control thread sends the letters and also the message that ends a controller, so a letter
 * arrives while the controller exists. Without memory a notification is lost, as it is when the log
 * of a controller is full: the host finds the gap in the log's count.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "target/command/admin/async_event.h"
#include "target/command/admin/notice.h"
#include "target/engine/record/command_table.h"
#include "target/engine/record/controller.h"
#include "target/engine/request/parse.h"
#include "target/export/guard/reservation.h"
#include "target/command/io/resv_notice.h"
#include "transport/wire/strings.h"

struct addressee {
	uint8_t hostid[HOSTID_BYTES];
	uint8_t type; /* enum nvme_resv_notice */
};

struct resv_notice {
	struct loop_msg msg;
	struct target *target;
	char subnqn[NVMF_NQN_MAX + 1];
	uint32_t nsid;
	bool is_ns_changed; /* for all hosts; else for the addressees */
	unsigned n;
	struct addressee addressees[];
};

struct resv_letter {
	struct loop_msg msg;
	struct controller *controller;
	uint32_t nsid;
	uint8_t type; /* enum nvme_resv_notice */
};

/* ---- the controller's poller ---------------------------------------------------------------- */

static void add_to_log(struct controller *controller, uint32_t nsid, uint8_t type)
{
	struct resv_notices *log = &controller->resv_notices;
	struct nvme_resv_log *entry;

	if (++log->count == 0)
		log->count = 1;
	if (log->n == RESV_NOTICES)
		return; /* the next entry's count shows the gap */
	entry = &log->entries[(log->first + log->n++) % RESV_NOTICES];
	*entry = (struct nvme_resv_log){
		.count = put_le64(log->count), .type = type, .nsid = put_le32(nsid)};
	async_event_raise(controller, EVENT_RESERVATION);
}

static void on_letter(struct loop_msg *msg)
{
	struct resv_letter *letter = container_of(msg, struct resv_letter, msg);
	struct controller *controller = letter->controller;

	if (controller->admin_queue && !(controller->resv_mask[letter->nsid] >> letter->type & 1))
		add_to_log(controller, letter->nsid, letter->type);
	free(letter);
}

void resv_notice_take(struct controller *controller, struct nvme_resv_log *ret_log)
{
	struct resv_notices *log = &controller->resv_notices;

	if (!log->n)
		return;
	*ret_log = log->entries[log->first];
	log->first = (log->first + 1) % RESV_NOTICES;
	log->n--;
	ret_log->n_pages = (uint8_t)log->n;
}

/* ---- control -------------------------------------------------------------------------------- */

static void send_letter(struct controller *controller, uint32_t nsid, uint8_t type)
{
	struct resv_letter *letter = malloc(sizeof(*letter));

	if (!letter) {
		log_warn_about(LOG_ABOUT(.subsystem = controller->subnqn, .nsid = nsid,
					 .host = controller->hostnqn),
			       "host %s: a notification is lost: out of memory",
			       hostnqn_label(controller->hostnqn));
		return;
	}
	*letter = (struct resv_letter){.controller = controller, .nsid = nsid, .type = type};
	letter->msg.run = on_letter;
	loop_send(&controller->poller->loop, &letter->msg);
}

static void send_letters(const struct resv_notice *notice, struct controller *controller)
{
	for (unsigned i = 0; i < notice->n; i++)
		if (!memcmp(notice->addressees[i].hostid, controller->hostid, HOSTID_BYTES))
			send_letter(controller, notice->nsid, notice->addressees[i].type);
}

static void on_notice(struct loop_msg *msg)
{
	struct resv_notice *notice = container_of(msg, struct resv_notice, msg);

	if (notice->is_ns_changed)
		notice_namespace(notice->target, notice->subnqn, notice->nsid);
	list_for_each (node, &notice->target->controllers) {
		struct controller *controller = list_entry(node, struct controller, node);

		if (!controller->is_discovery && controller_state(controller) != CONTROLLER_DYING &&
		    !strcmp(controller->subnqn, notice->subnqn))
			send_letters(notice, controller);
	}
	free(notice);
}

/* ---- the acting poller ---------------------------------------------------------------------- */

static struct resv_notice *notice_new(struct target *target, const char *subnqn, uint32_t nsid,
				      unsigned n_addressees)
{
	struct resv_notice *notice = calloc(
		1, sizeof(*notice) + n_addressees * sizeof(notice->addressees[0]));

	if (!notice) {
		log_warn_about(LOG_ABOUT(.subsystem = subnqn, .nsid = nsid),
			       "namespace %u: notifications are lost: out of memory", nsid);
		return NULL;
	}
	notice->msg.run = on_notice;
	notice->target = target;
	snprintf(notice->subnqn, sizeof(notice->subnqn), "%s", subnqn);
	notice->nsid = nsid;
	return notice;
}

static void send_off(struct resv_notice *notice)
{
	loop_send(&notice->target->loop, &notice->msg);
}

void resv_notice_attributes(const struct request *r)
{
	struct resv_notice *notice = notice_new(r->queue->target, r->queue->controller->subnqn,
						r->ns->nsid, 0);

	if (!notice)
		return;
	notice->is_ns_changed = true;
	send_off(notice);
}

void resv_notice_send(const struct resv_news *news)
{
	const struct reservation *before = news->before, *after = news->after;
	struct resv_notice *notice = before ? notice_new(news->target, news->subnqn, news->nsid,
							 before->n)
					    : NULL;

	if (!notice)
		return;
	for (unsigned i = 0; i < before->n; i++) {
		struct addressee *to = &notice->addressees[notice->n];

		to->type = (uint8_t)reservation_notice(before, after, news->actor, i);
		memcpy(to->hostid, before->registrants[i].hostid, HOSTID_BYTES);
		notice->n += to->type != NVME_RESV_NOTICE_NONE;
	}
	if (notice->n)
		send_off(notice);
	else
		free(notice);
}
