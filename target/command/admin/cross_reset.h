/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cross-Controller Reset, and its log page (1Eh). Poller of the admin queue of the source: the
 * controller through which the host requests the reset.
 */
#pragma once

#include <stdbool.h>

struct controller;

/* Fills a zeroed page: 1Eh, then 1Fh. must_remove: completed entries go. The number of entries. */
unsigned cross_reset_build_log(struct controller *source, void *page, bool must_remove);
void lost_host_build_log(struct controller *controller, void *page, bool must_remove);
/* The controller was reset: the log begins anew. */
void cross_reset_forget(struct controller *source);
