/* SPDX-License-Identifier: BSD-3-Clause */
/* The meaning of a status for the I/O that it ends. Pure functions, any thread. */
#include <errno.h>

#include "initiator/io/io_status.h"

enum nvme_status io_status_in(const struct nvme_cqe *cqe)
{
	enum nvme_status status = get_nvme_status(cqe->status);

	return nvme_status_code(status) == NVME_OK ? NVME_OK : status;
}

int io_status_errno(enum nvme_status status, enum volume_op op)
{
	switch ((unsigned)nvme_status_code(status)) {
	case NVME_OK:
		return 0;
	case NVME_LBA_OUT_OF_RANGE:
		return op == VOLUME_WRITE || op == VOLUME_WRITE_ZEROES ||
				       op == VOLUME_COMPARE_AND_WRITE
			       ? -ENOSPC
			       : -EINVAL;
	case NVME_CAPACITY_EXCEEDED:
		return -ENOSPC;
	case NVME_NS_WRITE_PROTECTED:
	case 0x182: /* attempted write to a read-only range */
		return -EPERM;
	case NVME_INVALID_FIELD:
		return -EINVAL;
	case NVME_INVALID_OPCODE:
		return -EOPNOTSUPP;
	default:
		return -EIO;
	}
}

/* Path errors, but those that the host itself makes up (3.70h and on); and a command that came
 * after its association had ended, and was not executed. */
bool io_status_is_of_path(enum nvme_status status)
{
	unsigned code = nvme_status_code(status);

	return code == NVME_KATO_EXPIRED || (code >= 0x300 && code < NVME_HOST_PATH_ERROR);
}

/* Whether the command was refused before it did anything. */
static bool is_untouched(enum nvme_status status)
{
	unsigned code = nvme_status_code(status);

	return code == NVME_NS_NOT_READY || code == NVME_INVALID_NSID ||
	       code == NVME_KATO_EXPIRED ||
	       (code >= NVME_ANA_PERSISTENT_LOSS && code <= NVME_ANA_TRANSITION);
}

/* A target executes the Write only after the Compare, so a Compare that failed by itself means that
 * nothing was written. A Write that failed may have written some or all of its blocks. */
enum nvme_status io_status_of_pair(enum nvme_status compare, enum nvme_status write,
				   bool *ret_may_repeat)
{
	unsigned code = nvme_status_code(compare);

	if (code != NVME_OK && code != NVME_ABORTED_FAILED_FUSED) {
		*ret_may_repeat = write != NVME_OK;
		return compare;
	}
	*ret_may_repeat = is_untouched(write);
	return write == NVME_OK ? compare : write;
}

enum io_retry io_status_retry(enum nvme_status status)
{
	unsigned code = nvme_status_code(status);

	if (status & NVME_DNR)
		return IO_RETRY_NO;
	if (code == NVME_ANA_PERSISTENT_LOSS) /* it does not come back */
		return IO_RETRY_NO;
	if (io_status_is_of_path(status))
		return IO_RETRY_WHILE_LOST;
	switch (code) {
	case NVME_NS_NOT_READY:
		return IO_RETRY_WHILE_LOST;
	case NVME_INTERRUPTED:
	case NVME_TRANSIENT_TRANSPORT:
	case NVME_ABORTED_BY_REQUEST:
	case NVME_ABORTED_SQ_DELETION:
	case NVME_CONNECT_BUSY:
	case 0x84: /* format in progress */
		return IO_RETRY_COUNTED;
	default:
		return IO_RETRY_NO;
	}
}
