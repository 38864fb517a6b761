/* SPDX-License-Identifier: BSD-3-Clause */
/* Get Log Page. Poller of the admin queue. */
#pragma once

#include "target/engine/request/request.h"

enum request_state log_page_execute(struct request *r);
