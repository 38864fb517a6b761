/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The history of a subsystem (log page 0Dh): its starts, resets of its controllers, and copies of
 * its SMART data. The control thread adds events. The log is an image: the bytes that hosts read
 * behind the header. An image never changes; another event makes another image. So a host that
 * reads in pieces holds a reference to the image that it began with. event_file.c saves the image
 * in the state directory; without a directory there is no log.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "target/export/health/health_impl.h"
#include "transport/wire/nvme_event.h"

struct error;
struct health;
struct health_record;
struct state_directory;

/* The reading context of log page 0Dh, from when a host establishes it until it releases it. */
struct event_context {
	struct event_image *image; /* holds a reference; NULL: not established */
	struct nvme_event_log_header header;
};

/* ---- control: event_log.c ---- */

/* Restores the saved log; may be called again. 0; or -errno and *error. */
int event_log_open(struct health_record *record, struct error *error);
void event_log_close(struct health_record *record); /* accepts one that was not opened */
/* rblkd has started: records a power-on. */
void event_log_add_power_on(struct health_record *record);
void event_log_add_smart(struct health_record *record);
/* A host has reset the controller of that id. Records it, unless resets come too often. */
void event_log_add_reset(struct health_record *record, uint16_t cntlid);

/* ---- any thread: event_log.c ---- */

/* A reference to the current log; NULL: there is none. */
struct event_image *event_image_take(struct health_record *record);
void event_image_give(struct event_image *image); /* accepts NULL */
/* Milliseconds since 1970. */
uint64_t event_time_ms(void);
/* Whether log page 0Dh exists. Accepts NULL. */
static inline bool event_log_is_kept(const struct health_record *record)
{
	return record && record->health->directory;
}
