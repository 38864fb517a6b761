/* SPDX-License-Identifier: BSD-3-Clause */
/* The metrics rblk_* of a volume, for Prometheus. Control thread, but for metrics_up. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct bridge;
struct error;

/* The caller owns the text, of *ret_n bytes. NULL: no memory. */
char *bridge_metrics_text(const struct bridge *bridge, size_t *ret_n);
/* Any thread. The text of a volume of which no more is known than whether its process answers.
 * Owned and NULL as above. */
char *bridge_metrics_up(const char *volume, bool is_up);
/* Listens, if configured. 0, or -errno with *error. */
int bridge_metrics_start(struct bridge *bridge, struct error *error);
/* Once the loop has stopped. Accepts what was not started. */
void bridge_metrics_stop(struct bridge *bridge);
