/* SPDX-License-Identifier: BSD-3-Clause */
/* What was counted, as text for Prometheus (exposition format 0.0.4). */
#pragma once

#include "target/engine/target.h"

/* Control thread. Owned text of *ret_n bytes; NULL without memory. */
char *prometheus_text(struct target *target, size_t *ret_n);
