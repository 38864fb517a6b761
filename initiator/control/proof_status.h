/* SPDX-License-Identifier: BSD-3-Clause */
/* The knowledge of lost associations, for status: see proof.c, which finds it out. Control loop. */
#pragma once

struct volume;
struct volume_fencing;

void proof_get(const struct volume *volume, struct volume_fencing *ret_fencing);
