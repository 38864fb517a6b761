/* SPDX-License-Identifier: BSD-3-Clause */
/* An impostor (option "impostor"): requires hosts to authenticate, and cannot authenticate
 * itself. Part of the fake target, on its one thread. */
#pragma once

#include "tests/hostile_target/fake.h"

/* Starts the exchange of a new association. */
void auth_begin(void);
/* Takes a message of the host, from slot->data. */
void auth_take(const struct slot *slot);
/* Writes the next message to the host into slot->data. */
void auth_say(struct slot *slot);
