/* SPDX-License-Identifier: BSD-3-Clause */
/* What a target leaves to its successor: export/estate.h. Control thread. */
#pragma once

#include "target/engine/target.h"
#include "target/export/estate.h"

/* Once pollers have stopped, and before the stores are closed. The estate shares the memory of ram
 * namespaces. 0; or -errno, and there is none. */
int collect_estate(const struct target *target, struct estate *ret_estate);
/* Sends it by messages (message.h), which is possible more than once. 0 or -errno. */
int collect_send(const struct estate *estate, int socket);
