/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Admin commands: what their files offer one another. All of it runs on the poller of the admin
 * queue, unless said otherwise. The parsers are like those of request.h.
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
/* Its log page was read (without RAE): the event may be sent again. */
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
/* Some namespace of it has a volatile write cache. Under RCU. */
bool controller_has_cache(struct queue *queue);
/* Left-justified, filled up with spaces */
void put_ascii(uint8_t *field, size_t n, const char *s);

/* log_page.c */
enum request_state log_page_execute(struct request *r);

/* event_page.c */
/* Fills length bytes at data from offset of the log page 0Dh; the rest is zero already. */
enum nvme_status event_page_fill(struct request *r, uint64_t offset);
/* Whether the command is one on that page whose length and offset say nothing; then, its parser. */
bool event_page_has_no_length(const struct request *r);
enum nvme_status event_page_parse(struct request *r);
/* Ends the reporting context, if there is one; also control's, when the queues are gone. */
void event_page_release(struct controller *controller);

/* discovery.c */
/* Fills length bytes at data from offset of the discovery log; the rest is zero already. */
enum nvme_status discovery_fill_log(struct request *r, uint64_t offset);
