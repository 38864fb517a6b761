/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Notifications of what one host did to a namespace: reservation notifications (log page 80h) and
 * changed attributes (log page 04h). The acting poller sends them to the control thread, which
 * knows all controllers and sends them on to the poller of each.
 */
#pragma once

#include "target/engine/request/request.h"
#include "transport/wire/nvme_reservation.h"

struct controller;
struct reservation;
struct target;

/* A change of the reservations of a namespace. All is borrowed. */
struct resv_news {
	struct target *target;
	const char *subnqn;
	uint32_t nsid;
	const uint8_t *actor; /* the identifier of the host that made it; all zeroes: none did */
	const struct reservation *before, *after;
};
/* Poller of the turn. Notifies the registrants of `before` of how the change concerns them. */
void resv_notice_send(const struct resv_news *news);
/* Any poller. Notifies all hosts that the namespace's attributes have changed. */
void resv_notice_attributes(const struct request *r);

/* Poller of the admin queue, for Get Log Page 80h: takes the oldest notification out of the log.
 * Leaves *ret_log alone if there is none. */
void resv_notice_take(struct controller *controller, struct nvme_resv_log *ret_log);
