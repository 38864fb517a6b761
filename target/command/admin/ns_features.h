/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Features of a namespace: Error Recovery (05h), Reservation Notification Mask (82h), Reservation
 * Persistence (83h), Namespace Write Protection (84h). Poller of the admin queue.
 */
#pragma once

#include <stdbool.h>

#include "transport/wire/nvme.h"

struct request;
struct target;

/* Features of a namespace */
bool ns_features_is_one(unsigned feature);
enum nvme_status ns_features_get(struct request *r, unsigned feature);
enum nvme_status ns_features_parse_set(struct request *r, unsigned feature);
bool write_protect_is_offered(const struct target *target);
