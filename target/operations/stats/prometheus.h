/* SPDX-License-Identifier: BSD-3-Clause */
/* The counters as text for Prometheus (exposition format 0.0.4). */
#pragma once

#include "target/engine/record/target.h"

/* Control thread. The caller owns the text, of *ret_n bytes. NULL: no memory. */
char *prometheus_text(struct target *target, size_t *ret_n);
