/* SPDX-License-Identifier: BSD-3-Clause */
/* Log page 0Ch as a target sends it: the walk to our group; see ana_log.h. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "initiator/control/ana_log.h"

/* Pure; the page is untrusted. data: n bytes of it from cursor->at on, 64 or more. */
enum ana_walk ana_log_walk(struct ana_cursor *cursor, const void *data, size_t n);

/* Pure. data: the page's header. */
uint64_t ana_log_change_count(const void *data);
