/* SPDX-License-Identifier: BSD-3-Clause */
/* Changes of a namespace's reservation, for reservation commands and Set Features. */
#pragma once

#include "target/engine/request/request.h"
#include "target/export/guard/reservation.h"

/* Poller of the queue; the command has the turn. Changes the reservation and ends the turn. */
void resv_change(struct request *r, reservation_action *action,
		 const struct reservation_wish *wish);
