/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What one host did to a namespace, and others must hear: reservation notifications (log page 80h) and
 * changed attributes (log page 04h). Told by the poller that did it, carried by the control thread,
 * which knows all controllers, to the poller of each.
 */
#pragma once

#include "target/engine/request.h"
#include "transport/wire/nvme_reservation.h"

struct reservation;

/* Poller that has the turn: tells the registrants of `before` what has become of them. */
void resv_notice_send(const struct request *r, const struct reservation *before,
		      const struct reservation *after);
/* Any poller: everybody hears that the namespace's attributes have changed. */
void resv_notice_attributes(const struct request *r);

/* Get Log Page 80h: the oldest notification; it is gone after that. Poller of the admin queue. */
void resv_log_take(struct controller *controller, struct nvme_resv_log *ret_log);
