/* SPDX-License-Identifier: BSD-3-Clause */
/* NBD_CMD_READ. Thread: the worker's. */
#pragma once

#include "nbd_bridge/io/nbd_request.h"

/* Chooses how the data are sent, and makes the first parts. */
void nbd_read_start(struct nbd_request *request);
/* As struct nbd_command_rule describes. */
bool nbd_read_issue_one(struct nbd_request *request);
void nbd_read_finish(struct nbd_request *request);
