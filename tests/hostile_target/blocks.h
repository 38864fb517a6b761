/* SPDX-License-Identifier: BSD-3-Clause */
/* Get LBA Status of the fake target: true, or as opt.told says. */
#pragma once

#include "tests/hostile_target/fake.h"

/* Checks the command, whose SGL describes n_bytes, and fills slot->data, out and n_out. */
void blocks_answer(struct slot *slot, uint32_t n_bytes, uint64_t n_blocks_now);
