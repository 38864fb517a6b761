/* SPDX-License-Identifier: BSD-3-Clause */
/* NBD_CMD_WRITE_ZEROES, NBD_CMD_TRIM, NBD_CMD_FLUSH: as struct nbd_command_rule describes. Thread:
 * the worker's. */
#pragma once

#include "nbd_bridge/io/nbd_request.h"

/* Filling with zeros may take long and much memory: it leaves some to the requests behind it. */
enum {
	NBD_ZERO_PARTS = 3,
};

bool nbd_zero_issue_one(struct nbd_request *request);
bool nbd_zero_trim_one(struct nbd_request *request);
bool nbd_zero_flush_one(struct nbd_request *request);
