/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Most pages are built whole, at most 4 KiB, and the requested part is copied; beyond the page
 * there are zeroes. Any offset up to the page's size is legal. The discovery log and the ANA log
 * are generated piece by piece instead (discovery.c, ana.c), and the event log is read from the
 * context that the host has established (event_page.c).
 */
#include <string.h>

#include "base/bits.h"
#include "target/command/admin/async_event.h"
#include "target/command/admin/cross_reset.h"
#include "target/command/admin/discovery.h"
#include "target/command/admin/event_page.h"
#include "target/command/admin/log_page.h"
#include "target/engine/record/command_table.h"
#include "target/engine/record/controller.h"
#include "target/engine/request/parse.h"
#include "target/export/ana.h"
#include "target/command/io/resv_notice.h"
#include "target/export/health/health.h"
#include "target/engine/record/portal.h"
#include "target/engine/queue/queue_path.h"
#include "target/export/health/smart.h"

enum {
	PAGE_BYTES = 4096,
	RETAIN_EVENT = 1 << 15, /* cdw10 */
	CHANGED_MAX = 1024,
};

struct page {
	_Alignas(8) uint8_t bytes[PAGE_BYTES];
	size_t n;
};

/* ---- error information (01h) --------------------------------------------------------------- */

/* Newest first. */
static void build_errors(struct controller *controller, struct page *page)
{
	struct nvme_error_entry *out = (struct nvme_error_entry *)(void *)page->bytes;

	pthread_mutex_lock(&controller->errors_lock);
	for (uint64_t i = 0; i < MIN(controller->n_errors, CONTROLLER_ERRORS); i++)
		out[i] = controller->errors[(controller->n_errors - i) % CONTROLLER_ERRORS];
	pthread_mutex_unlock(&controller->errors_lock);
	page->n = sizeof(controller->errors);
}

/* ---- SMART (02h) --------------------------------------------------------------------------- */

/* For the whole subsystem, over its whole life: health.h. */
static void build_smart(struct request *r, struct page *page)
{
	const struct subsystem *subsystem = queue_subsystem(r->queue);
	struct nvme_smart_log *smart = (struct nvme_smart_log *)(void *)page->bytes;
	struct namespace *ns = NULL;

	health_fill_smart(r->queue->controller->health, smart);
	for (uint32_t nsid = 0; subsystem && (ns = subsystem_next_namespace(subsystem, nsid));
	     nsid = ns->nsid)
		if (atomic_load(&ns->backend->has_failed))
			smart->critical_warning |= NVME_CRITICAL_READ_ONLY;
	page->n = sizeof(*smart);
}

/* ---- firmware (03h), changed namespaces (04h), reservations (80h) ---------------------------- */

static void build_firmware(struct page *page)
{
	page->bytes[0] = 1; /* slot 1 is active */
	memset(page->bytes + 8, ' ', 8);
	memcpy(page->bytes + 8, RBLK_VERSION, MIN(strlen(RBLK_VERSION), 8));
	page->n = 512;
}

/* Reading it without RAE clears it. */
static void build_changed(struct controller *controller, struct page *page, bool must_clear)
{
	unsigned n = 0;
	le32 *list = (le32 *)(void *)page->bytes;

	for (uint32_t nsid = 1; nsid <= NSID_MAX; nsid++)
		if (n < CHANGED_MAX && controller->changed_ns[nsid / 64] >> nsid % 64 & 1)
			list[n++] = put_le32(nsid);
	page->n = CHANGED_MAX * sizeof(le32);
	if (!must_clear)
		return;
	memset(controller->changed_ns, 0, sizeof(controller->changed_ns));
	async_event_unmask(controller, EVENT_NS_CHANGED);
}

/* Takes one notification; if more wait behind it, they raise the event again. */
static void build_notification(struct controller *controller, struct page *page, bool must_clear)
{
	struct nvme_resv_log *log = (struct nvme_resv_log *)(void *)page->bytes;

	page->n = sizeof(*log);
	resv_notice_take(controller, log);
	if (!must_clear)
		return;
	async_event_unmask(controller, EVENT_RESERVATION);
	if (log->n_pages)
		async_event_raise(controller, EVENT_RESERVATION);
}

/* ---- ANA (0Ch) ------------------------------------------------------------------------------ */

static enum nvme_status fill_ana(struct request *r, uint64_t offset)
{
	struct controller *controller = r->queue->controller;
	const struct ana *ana = queue_ana(r->queue);
	uint32_t cdw10 = get_le32(r->sqe.cdw10);

	if (!ana)
		return NVME_LOG_PAGE_INVALID | NVME_DNR;
	if (offset > ana_fill_log(ana, controller->portal->index, !(cdw10 & NVME_ANA_RGO), offset,
				  r->data, r->length))
		return NVME_INVALID_FIELD | NVME_DNR;
	if (!(cdw10 & RETAIN_EVENT))
		async_event_unmask(controller, EVENT_ANA_CHANGED);
	return NVME_OK;
}

/* ---- effects (05h) -------------------------------------------------------------------------- */

static void build_effects(struct page *page)
{
	le32 *admin = (le32 *)(void *)page->bytes, *io = admin + 256;

	for (unsigned opcode = 0; opcode <= UINT8_MAX; opcode++) {
		admin[opcode] = put_le32(command_of(COMMANDS_ADMIN, (uint8_t)opcode)->effects);
		io[opcode] = put_le32(command_of(COMMANDS_IO, (uint8_t)opcode)->effects);
	}
	page->n = PAGE_BYTES;
}

/* ---- the command --------------------------------------------------------------------------- */

/* Builds the whole page. */
static enum nvme_status build(struct request *r, unsigned id, bool must_clear, struct page *page)
{
	struct controller *controller = r->queue->controller;
	uint32_t nsid = get_le32(r->sqe.nsid);

	switch (id) {
	case NVME_LOG_ERROR:
		build_errors(controller, page);
		return NVME_OK;
	case NVME_LOG_SMART:
		if (nsid != 0 && nsid != NVME_NSID_ALL) /* LPA: not per namespace */
			return NVME_INVALID_FIELD | NVME_DNR;
		build_smart(r, page);
		return NVME_OK;
	case NVME_LOG_FIRMWARE:
		build_firmware(page);
		return NVME_OK;
	case NVME_LOG_CHANGED_NS:
		build_changed(controller, page, must_clear);
		return NVME_OK;
	case NVME_LOG_EFFECTS:
		build_effects(page);
		return NVME_OK;
	case NVME_LOG_CROSS_RESET:
		cross_reset_build_log(controller, page->bytes,
				      get_le32(r->sqe.cdw10) & NVME_CROSS_RESET_RMC);
		page->n = PAGE_BYTES;
		if (must_clear)
			async_event_unmask(controller, EVENT_CROSS_RESET);
		return NVME_OK;
	case NVME_LOG_LOST_HOST:
		lost_host_build_log(controller, page->bytes, must_clear);
		page->n = PAGE_BYTES;
		if (must_clear)
			async_event_unmask(controller, EVENT_LOST_HOST);
		return NVME_OK;
	case NVME_LOG_RESERVATION:
		build_notification(controller, page, must_clear);
		return NVME_OK;
	default:
		return NVME_LOG_PAGE_INVALID | NVME_DNR;
	}
}

static enum nvme_status copy_part(struct request *r, const struct page *page, uint64_t offset)
{
	if (offset > page->n)
		return NVME_INVALID_FIELD | NVME_DNR;
	memcpy(r->data, page->bytes + offset, MIN(r->length, page->n - offset));
	return NVME_OK;
}

enum request_state log_page_execute(struct request *r)
{
	uint32_t cdw10 = get_le32(r->sqe.cdw10);
	uint64_t offset = get_le32(r->sqe.cdw12) | (uint64_t)get_le32(r->sqe.cdw13) << 32;
	bool is_discovery = r->queue->controller->is_discovery;
	struct page page = {.n = 0};
	enum nvme_status status;

	memset(r->data, 0, r->length);
	if (is_discovery != ((cdw10 & 0xff) == NVME_LOG_DISCOVERY))
		return request_end(r, NVME_LOG_PAGE_INVALID | NVME_DNR);
	if (is_discovery)
		return request_end(r, discovery_fill_log(r, offset));
	if ((cdw10 & 0xff) == NVME_LOG_ANA)
		return request_end(r, fill_ana(r, offset));
	if ((cdw10 & 0xff) == NVME_LOG_EVENTS)
		return request_end(r, event_page_fill(r, offset));
	status = build(r, cdw10 & 0xff, !(cdw10 & RETAIN_EVENT), &page);
	return request_end(r, status == NVME_OK ? copy_part(r, &page, offset) : status);
}

static enum nvme_status parse(struct request *r)
{
	uint32_t cdw10 = get_le32(r->sqe.cdw10), cdw11 = get_le32(r->sqe.cdw11);
	uint64_t n_dwords = (cdw10 >> 16 | (uint64_t)(cdw11 & 0xffff) << 16) + 1;

	if (event_page_has_no_length(r))
		return event_page_parse(r);
	if (get_le32(r->sqe.cdw12) & 3 ||
	    n_dwords * 4 > controller_max_transfer(r->queue->controller))
		return NVME_INVALID_FIELD | NVME_DNR;
	r->direction = DIRECTION_C2H;
	r->length = (uint32_t)n_dwords * 4;
	return parse_check_sgl(r, false);
}

const struct nvme_command log_page_command = {
	.opcode = NVME_ADMIN_GET_LOG_PAGE,
	.name = "Get Log Page",
	.parse = parse,
	.execute = log_page_execute,
	.effects = NVME_EFFECT_CSUPP,
};
