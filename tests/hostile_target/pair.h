/* SPDX-License-Identifier: BSD-3-Clause */
/* Compare and Write of the fake target: fused pairs. */
#pragma once

#include "tests/hostile_target/fake.h"

/* Identify Controller. */
void pair_identify(uint8_t *data);
/* True: the command is half of a pair, and is executed and answered here. Also checks that nothing
 * comes between the halves of a pair. */
bool pair_start(struct slot *slot);
/* The data of a half has come. */
void pair_have_data(struct slot *slot);
