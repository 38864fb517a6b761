/* SPDX-License-Identifier: BSD-3-Clause */
/* Events of subsystems: which ones are recorded, and which ones make room. See event_log.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "target/export/health/event_file.h"
#include "target/export/health/event_log.h"
#include "target/export/health/health_impl.h"
#include "target/export/health/record.h"
#include "target/export/health/smart.h"

/* A host that does nothing but reset its controller must not displace the events of a year. */
enum {
	RESETS_AT_ONCE = 16,
	RESET_EVERY_S = 600,
};

/* ---- images --------------------------------------------------------------------------------- */

struct event_image *event_image_take(struct health_record *record)
{
	struct event_image *image;

	pthread_mutex_lock(&record->health->lock);
	image = record->events.image;
	if (image)
		atomic_fetch_add(&image->n_refs, 1);
	pthread_mutex_unlock(&record->health->lock);
	return image;
}

void event_image_give(struct event_image *image)
{
	unsigned before = image ? atomic_fetch_sub(&image->n_refs, 1) : 0;

	check(!image || before > 0);
	if (before == 1)
		free(image);
}

static void set_image(struct health_record *record, struct event_image *image)
{
	struct event_image *before;

	pthread_mutex_lock(&record->health->lock);
	before = record->events.image;
	record->events.image = image;
	pthread_mutex_unlock(&record->health->lock);
	event_image_give(before);
}

static uint32_t event_bytes(const uint8_t *event)
{
	const struct nvme_event *header = (const void *)event;

	return header->ehl + 3u + get_le16(header->el);
}

/* The number of the newest events that fit into `room` bytes; returns their size. */
static uint32_t fit(const struct event_image *image, uint32_t room, uint32_t *ret_n)
{
	uint32_t at = 0;

	for (*ret_n = 0; *ret_n < image->n_events; (*ret_n)++) {
		uint32_t n = event_bytes(image->bytes + at);

		if (at + n > room)
			break;
		at += n;
	}
	return at;
}

/* The event, followed by the older ones that still fit. NULL: no memory. */
static struct event_image *put_before(const struct event_image *image,
				      const struct nvme_event *header, const void *data, uint16_t n)
{
	uint32_t n_kept, first = (uint32_t)sizeof(*header) + n;
	uint32_t kept = fit(image, EVENT_LOG_BYTES - first, &n_kept);
	struct event_image *after = malloc(sizeof(*after) + first + kept);

	if (!after)
		return NULL;
	atomic_init(&after->n_refs, 1);
	after->generation = (uint16_t)(image->generation + 1);
	after->n_events = n_kept + 1;
	after->n_bytes = first + kept;
	memcpy(after->bytes, header, sizeof(*header));
	memcpy(after->bytes + sizeof(*header), data, n);
	memcpy(after->bytes + first, image->bytes, kept);
	return after;
}

/* ---- open and closed ------------------------------------------------------------------------ */

int event_log_open(struct health_record *record, struct error *error)
{
	const struct state_directory *directory = record->health->directory;
	struct event_image *image;

	if (!directory || record->events.image)
		return 0;
	image = event_file_read(directory, record->nqn, error);
	if (!image)
		return -EINVAL;
	record->events.n_tokens = RESETS_AT_ONCE;
	record->events.tokens_ns = clock_ns();
	set_image(record, image);
	return 0;
}

void event_log_close(struct health_record *record)
{
	event_image_give(record->events.saving);
	record->events.saving = NULL;
	set_image(record, NULL);
}

/* ---- events --------------------------------------------------------------------------------- */

uint64_t event_time_ms(void)
{
	return clock_wall_ns() / NSEC_PER_MSEC;
}

static void add(struct health_record *record, enum nvme_event_type type, uint16_t cntlid,
		const void *data, uint16_t n)
{
	struct nvme_event header = {
		.type = (uint8_t)type,
		.revision = NVME_EVENT_REVISION,
		.ehl = NVME_EVENT_EHL,
		.ehai = NVME_EVENT_NO_PORT,
		.cntlid = put_le16(cntlid),
		.timestamp = put_le64(event_time_ms()),
		.el = put_le16(n),
	};
	struct event_image *image;

	if (!record->events.image)
		return;
	image = put_before(record->events.image, &header, data, n);
	if (!image) {
		log_err_about(LOG_ABOUT(.subsystem = record->nqn),
			      "%s: out of memory: its event log lacks an event", record->nqn);
		return;
	}
	set_image(record, image);
	record->events.is_news = true;
	record->health->has_news = true;
}

static struct nvme_event_power_on running_firmware(void)
{
	struct nvme_event_power_on data;

	memset(data.firmware, ' ', sizeof(data.firmware));
	memcpy(data.firmware, RBLK_VERSION, MIN(strlen(RBLK_VERSION), sizeof(data.firmware)));
	return data;
}

/* No controller exists before its host connects, so the event lists none. */
void event_log_add_power_on(struct health_record *record)
{
	struct nvme_event_power_on data = running_firmware();

	add(record, NVME_EVENT_POWER_ON, NVME_EVENT_NO_CONTROLLER, &data, sizeof(data));
}

void event_log_add_smart(struct health_record *record)
{
	struct nvme_smart_log smart;

	if (!record->events.image)
		return;
	health_fill_smart(record, &smart);
	smart.critical_warning = health_critical_warning(record);
	record->events.snapshot_ns = clock_ns();
	add(record, NVME_EVENT_SMART, NVME_EVENT_NO_CONTROLLER, &smart, sizeof(smart));
}

static bool take_token(struct event_log *log)
{
	uint64_t n_new = (clock_ns() - log->tokens_ns) / (RESET_EVERY_S * NSEC_PER_SEC);

	log->tokens_ns += n_new * RESET_EVERY_S * NSEC_PER_SEC;
	log->n_tokens = (unsigned)MIN(log->n_tokens + n_new, RESETS_AT_ONCE);
	if (!log->n_tokens)
		return false;
	log->n_tokens--;
	return true;
}

void event_log_add_reset(struct health_record *record, uint16_t cntlid)
{
	struct {
		struct nvme_event_power_on power_on;
		struct nvme_event_reset reset;
	} data = {.power_on = running_firmware()};
	uint64_t on_ns = record->state == HEALTH_ON ? clock_ns() - record->on_since_ns : 0;
	struct health_figures figures;

	if (!record->events.image || !take_token(&record->events))
		return;
	health_read(record, &figures);
	data.reset.cntlid = put_le16(cntlid);
	data.reset.power_cycle = put_le32((uint32_t)MIN(figures.power_cycles, UINT32_MAX));
	data.reset.power_on_ms = put_le64(on_ns / NSEC_PER_MSEC);
	data.reset.timestamp = put_le64(event_time_ms());
	add(record, NVME_EVENT_POWER_ON, cntlid, &data, sizeof(data));
}
