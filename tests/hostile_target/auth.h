/* SPDX-License-Identifier: BSD-3-Clause */
/* An impostor (option "impostor"): wants hosts to prove themselves, and cannot do so itself. */
#pragma once

#include "tests/hostile_target/fake.h"

/* A new association. */
void auth_begin(void);
/* What the host says, in slot->data. */
void auth_take(const struct slot *slot);
/* What it is told next. */
void auth_say(struct slot *slot);
