/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The paths of a volume by persistent discovery; see volume_discovery.c. Control loop only.
 */
#pragma once

struct volume;
struct volume_service_status;

/* The volume serves for the first time: begins, if config wants it. */
void volume_discovery_begin(struct volume *volume);
/* Ends all services; then reconnect_look_whether_over, not from inside. */
void volume_discovery_end(struct volume *volume);
/* Up to VOLUME_SERVICES_MAX; returns how many there are. */
unsigned volume_discovery_get(const struct volume *volume, struct volume_service_status *ret);
