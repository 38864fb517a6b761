/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Admin commands: what their files share. Poller of the admin queue, except where noted. The
 * parsers are like those of request.h.
 */
#pragma once

#include "target/engine/command_table.h"
#include "target/engine/controller.h"
#include "target/engine/parse.h"

/* property.c */
void property_reset_done(struct loop_msg *msg);

/* keep_alive.c */
void keep_alive_start(struct controller *controller);
void keep_alive_stop(struct controller *controller);

/* async_event.c */
void async_event_raise(struct controller *controller, enum controller_event event);
/* The host has read the log page (without RAE): the event may be sent again. */
void async_event_unmask(struct controller *controller, enum controller_event event);
void async_event_ns_changed(struct controller *controller, uint32_t nsid);
/* Completes one held request. */
void async_event_end(struct request *r, enum nvme_status status);
/* Completes all held requests with a status, or drops them when their queue dies. */
void async_event_end_all(struct controller *controller, enum nvme_status status);

/* ns_features.c: features of a namespace */
bool ns_features_is_one(unsigned feature);
enum nvme_status ns_features_get(struct request *r, unsigned feature);
enum nvme_status ns_features_parse_set(struct request *r, unsigned feature);
bool write_protect_is_offered(const struct target *target);

/* identify.c */
/* Under RCU. */
uint32_t controller_oaes(struct queue *queue);
/* Whether a namespace of the controller has a volatile write cache. Under RCU. */
bool controller_has_cache(struct queue *queue);
/* Left-justified, padded with spaces. */
void put_ascii(uint8_t *field, size_t n, const char *s);

/* log_page.c */
enum request_state log_page_execute(struct request *r);

/* cross_reset.c */
/* Fills a zeroed page: 1Eh, then 1Fh. must_remove: completed entries go. The number of entries. */
unsigned cross_reset_build_log(struct controller *source, void *page, bool must_remove);
void lost_host_build_log(struct controller *controller, void *page, bool must_remove);
/* The controller was reset: the log begins anew. */
void cross_reset_forget(struct controller *source);

/* event_page.c */
/* Fills r->length bytes of log page 0Dh from this offset; the buffer is zeroed. */
enum nvme_status event_page_fill(struct request *r, uint64_t offset);
/* Whether the command reads that page without length and offset; if so, its parser. */
bool event_page_has_no_length(const struct request *r);
enum nvme_status event_page_parse(struct request *r);
/* Ends the reporting context, if there is one. On control, too, once the queues are gone. */
void event_page_release(struct controller *controller);

/* discovery.c */
/* Fills r->length bytes of the discovery log from this offset; the buffer is zeroed. */
enum nvme_status discovery_fill_log(struct request *r, uint64_t offset);
