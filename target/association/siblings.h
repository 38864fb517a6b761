/* SPDX-License-Identifier: BSD-3-Clause */
/* The other associations of a host that has lost one: their writes wait while that one is dying
 * (engine/request/aging.c). Control thread. */
#pragma once

struct controller;
struct target;

/* The controller begins to die, or is about to be freed: counts again what its host is losing. */
void siblings_update(struct controller *controller);
/* After a defect: queues that are stranded are waited for no more. */
void siblings_update_all(struct target *target);
