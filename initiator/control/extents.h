/* SPDX-License-Identifier: BSD-3-Clause */
/* Questions of front ends about holes (volume_extents_ask); see extents.c. Control loop. */
#pragma once

struct volume;

/* The association ends: questions that are open are answered, as all may hold data. */
void extents_fail(struct volume *volume);
