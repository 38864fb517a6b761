/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Notifications of what one host did to a namespace: reservation notifications (log page 80h) and
 * changed attributes (log page 04h). The poller that did it sends them to the control thread, which
 * knows all controllers and sends them on to the poller of each.
 */
#pragma once

#include "target/engine/request.h"
#include "transport/wire/nvme_reservation.h"

struct reservation;

/* Poller of the turn. Notifies the registrants of `before` of what has become of them. */
void resv_notice_send(const struct request *r, const struct reservation *before,
		      const struct reservation *after);
/* Any poller. Notifies all hosts that the namespace's attributes have changed. */
void resv_notice_attributes(const struct request *r);

/* Poller of the admin queue. Get Log Page 80h: the oldest notification, which leaves the log.
 * *ret_log is untouched if there is none. */
void resv_notice_take(struct controller *controller, struct nvme_resv_log *ret_log);
