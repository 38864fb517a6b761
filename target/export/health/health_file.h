/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * health.json in the state directory:
 *
 *   {"version": 1, "subsystems": [{"nqn": "...", "is_on": true, "boot_id": "UUID",
 *     "power_cycles": 3, "unsafe_shutdowns": 1, "power_on_seconds": 7200, "reads": 10,
 *     "writes": 10, "read_units": 80, "written_units": 80, "media_errors": 0, "errors": 2,
 *     "crashes": 1}]}
 *
 * An earlier rblkd wrote neither boot_id nor crashes.
 *
 * The file also has subsystems that are no longer exported, as long as there is room, in case they
 * come back. A file that this rblkd could not have written stops the start: wrong numbers are worse
 * than none.
 */
#pragma once

enum {
	HEALTH_FORMAT = 1,
	HEALTH_RECORDS_MAX = 1024, /* records in the file */
};

#define HEALTH_FILE "health.json"

struct error;
struct health;

/* Restores the saved records. 0; or -errno and *error, but -EUCLEAN without: the file is damaged,
 * and some records may be restored. */
int health_load(struct health *health, struct error *error);
/* The text for the file now; the caller frees it. NULL: no memory. */
char *health_format(struct health *health);
