/* SPDX-License-Identifier: BSD-3-Clause */
/* The Persistent Event log (0Dh). Poller of the admin queue. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "transport/wire/nvme.h"

struct controller;
struct request;

/* Fills r->length bytes of log page 0Dh from this offset; the buffer is zeroed. */
enum nvme_status event_page_fill(struct request *r, uint64_t offset);
/* Whether the command reads that page without length and offset; if so, its parser. */
bool event_page_has_no_length(const struct request *r);
enum nvme_status event_page_parse(struct request *r);
/* Ends the reporting context, if there is one. On control, too, once the queues are gone. */
void event_page_release(struct controller *controller);
