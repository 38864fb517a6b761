/* SPDX-License-Identifier: BSD-3-Clause */
/* The meaning of a status for the I/O that it ends. Pure. */
#pragma once

#include "initiator/io/volume_io.h"
#include "transport/wire/nvme.h"

/* The status of an answer; NVME_OK whatever stands beside a success (More, CRD). */
enum nvme_status io_status_in(const struct nvme_cqe *cqe);

/* The result that volume_io.done reports: 0 or -errno. */
int io_status_errno(enum nvme_status status, enum volume_op op);

enum io_retry {
	IO_RETRY_NO,
	IO_RETRY_COUNTED,    /* passes by itself: a few times */
	IO_RETRY_WHILE_LOST, /* the path or namespace is away: as long as a reconnect may last */
};
/*
 * The status of both answers to a Compare and Write together: NVME_OK, or the status of the half
 * that failed by itself. *ret_may_repeat: nothing was written, so it may be sent again, if
 * io_status_retry says so for this status. Pure.
 */
enum nvme_status io_status_of_pair(enum nvme_status compare, enum nvme_status write,
				   bool *ret_may_repeat);
/* How an I/O that ended in this status is tried again. Pure. */
enum io_retry io_status_retry(enum nvme_status status);
/* The path is to blame: another one may serve the I/O. Pure. */
bool io_status_is_of_path(enum nvme_status status);
