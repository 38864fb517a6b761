/* SPDX-License-Identifier: BSD-3-Clause */
/* Questions of front ends about holes (volume_extents_ask); see extents.c. Control loop. */
#pragma once

struct path;

/* The path is not LIVE any more: what was asked through it is answered, as all may hold data. */
void extents_fail(struct path *path);
