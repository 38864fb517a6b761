/* SPDX-License-Identifier: BSD-3-Clause */
/* BLOCK_STATUS, for the meta context "base:allocation". Thread: the worker's. */
#pragma once

#include "nbd_bridge/io/nbd_request.h"

/* A checked request, whose length is not 0: its reply follows, never from inside. */
void nbd_extents_start(struct nbd_request *request);
