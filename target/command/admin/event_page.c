/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A host first establishes a reporting context, then reads in any number of pieces, then releases
 * the context. Each controller has a context of its own, so no host prevents another from reading.
 * The context is the header of that time and the image of the log, which never changes
 * (event_log.h): reading copies nothing else and allocates nothing. A reset of the controller also
 * ends the context.
 */
#include <string.h>

#include "base/bits.h"
#include "target/command/admin/event_page.h"
#include "target/command/admin/identify.h"
#include "target/engine/record/command_table.h"
#include "target/engine/record/controller.h"
#include "target/engine/request/parse.h"
#include "target/export/health/health.h"
#include "target/engine/record/portal.h"
#include "target/engine/queue/queue_path.h"
#include "target/export/health/record.h"

static unsigned action_of(const struct request *r)
{
	return get_le32(r->sqe.cdw10) >> NVME_EVENT_ACTION_SHIFT & NVME_EVENT_ACTION_MASK;
}

/* ---- the context ---------------------------------------------------------------------------- */

static void fill_header(struct request *r, const struct event_image *image,
			struct nvme_event_log_header *header)
{
	struct controller *controller = r->queue->controller;
	const struct subsystem *subsystem = queue_subsystem(r->queue);
	struct health_figures figures;
	le64 hours;

	health_read(controller->health, &figures);
	hours = put_le64(figures.power_on_s / 3600);
	*header = (struct nvme_event_log_header){
		.lid = NVME_LOG_EVENTS,
		.tnev = put_le32(image->n_events),
		.tll = put_le64(sizeof(*header) + image->n_bytes),
		.lrev = NVME_EVENT_LOG_REVISION,
		.lhl = put_le16(NVME_EVENT_LHL),
		.timestamp = put_le64(event_time_ms()),
		.pwrcc = put_le64(figures.power_cycles),
		.gnum = put_le16(image->generation),
		.seb[0] = 1 << NVME_EVENT_SMART | 1 << NVME_EVENT_POWER_ON,
	};
	memcpy(header->poh, &hours, sizeof(hours));
	put_ascii(header->sn, sizeof(header->sn), subsystem ? subsystem->serial : "");
	put_ascii(header->mn, sizeof(header->mn), subsystem ? subsystem->model : "");
	memcpy(header->subnqn, controller->subnqn, strlen(controller->subnqn));
}

static void establish(struct request *r)
{
	struct event_context *context = &r->queue->controller->events;

	context->image = event_image_take(r->queue->controller->health);
	fill_header(r, context->image, &context->header);
}

void event_page_release(struct controller *controller)
{
	event_image_give(controller->events.image);
	controller->events.image = NULL;
}

/* ---- reading -------------------------------------------------------------------------------- */

/* Copies what the piece [offset, offset + r->length) of the page has of the n bytes that are at
 * `first` of the page. */
static void copy_to_piece(struct request *r, uint64_t offset, uint64_t first, const void *bytes,
			  uint64_t n)
{
	uint64_t from = MAX(offset, first), to = MIN(offset + r->length, first + n);

	if (from < to)
		memcpy((char *)r->data + (from - offset), (const char *)bytes + (from - first),
		       to - from);
}

/* had_context: for RCI, which concerns this command; the rest is as old as the context. */
static void copy(struct request *r, uint64_t offset, bool had_context)
{
	const struct controller *controller = r->queue->controller;
	const struct event_context *context = &controller->events;
	struct nvme_event_log_header header = context->header;

	if (had_context)
		header.rci = put_le32(NVME_EVENT_RCE | NVME_EVENT_RCPIT_PORT |
				      (controller->portal->index + 1));
	copy_to_piece(r, offset, 0, &header, sizeof(header));
	copy_to_piece(r, offset, sizeof(header), context->image->bytes, context->image->n_bytes);
}

enum nvme_status event_page_fill(struct request *r, uint64_t offset)
{
	struct controller *controller = r->queue->controller;
	bool had_context = controller->events.image;
	unsigned action = action_of(r);

	if (!event_log_is_kept(controller->health))
		return NVME_LOG_PAGE_INVALID | NVME_DNR;
	if (had_context ? action == NVME_EVENT_ESTABLISH : action == NVME_EVENT_READ)
		return NVME_COMMAND_SEQUENCE | NVME_DNR;
	if (action == NVME_EVENT_HEADER)
		offset = 0;
	if (!had_context)
		establish(r);
	if (offset <= get_le64(controller->events.header.tll)) {
		copy(r, offset, had_context);
		return NVME_OK;
	}
	if (!had_context)
		event_page_release(controller);
	return NVME_INVALID_FIELD | NVME_DNR;
}

static enum request_state execute_release(struct request *r)
{
	struct controller *controller = r->queue->controller;

	if (!event_log_is_kept(controller->health))
		return request_end(r, NVME_LOG_PAGE_INVALID | NVME_DNR);
	event_page_release(controller);
	return request_end(r, NVME_OK);
}

/* ---- parsing -------------------------------------------------------------------------------- */

bool event_page_has_no_length(const struct request *r)
{
	return (get_le32(r->sqe.cdw10) & 0xff) == NVME_LOG_EVENTS &&
	       (action_of(r) == NVME_EVENT_RELEASE || action_of(r) == NVME_EVENT_HEADER);
}

enum nvme_status event_page_parse(struct request *r)
{
	if (action_of(r) == NVME_EVENT_RELEASE) {
		r->sgl.length = 0; /* hosts describe a buffer, but there is no data */
		r->execute = execute_release;
		return NVME_OK;
	}
	r->direction = DIRECTION_C2H;
	r->length = sizeof(struct nvme_event_log_header);
	return parse_check_sgl(r, false);
}
