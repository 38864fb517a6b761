/* SPDX-License-Identifier: BSD-3-Clause */
/* The endpoint for Prometheus (metrics.listen of the configuration). Control thread. */
#pragma once

#include "target/engine/record/target.h"

/* Listens, if configured. 0 or -errno (logged). */
int metrics_start(struct target *target);
/* Once the loop has stopped. Accepts one that was not started. */
void metrics_stop(struct target *target);
