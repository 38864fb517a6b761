/* SPDX-License-Identifier: BSD-3-Clause */
/* The fencing of rblkd as JSON: whether an old write of a host can land after a newer one. */
#pragma once

struct json_object;
struct target;

/* {"level", "why", "quiesce_ms", "cross_controller_resets", "subsystems": [...], "quiescing":
 * [...]}. Control thread; the caller owns it. */
struct json_object *control_show_fencing(const struct target *target);
