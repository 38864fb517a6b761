/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * I/O of a volume that has failed for good: counted, the last one kept for the status, and told in
 * the log. The front end hands an error to a program that may not look at it; the administrator
 * hears of it here. Only an error costs anything: a leaf lock that the volume's queues share.
 */
#pragma once

#include <pthread.h>

#include "base/log.h"
#include "initiator/io/volume_io.h"
#include "transport/wire/nvme.h"

struct volume_queue;

struct volume_io_errors {
	char volume[256];     /* for the log: "subnqn/nsid" */
	pthread_mutex_t lock; /* guards the rest */
	struct volume_io_figures figures;
	struct log_limit limit;
};

/* Control. */
void volume_io_errors_init(struct volume_io_errors *errors, const char *subnqn, uint32_t nsid);
void volume_io_errors_deinit(struct volume_io_errors *errors);
void volume_io_errors_read(struct volume_io_errors *errors, struct volume_io_figures *ret_figures);
/* I/O loop. The io ends with an error: the target's status, or NVME_HOST_PATH_ERROR where it
 * cannot be reached. words: what is told, or NULL: those of the status. The io is still the
 * queue's. */
void volume_io_errors_add(struct volume_queue *queue, const struct volume_io *io,
			  enum nvme_status status, const char *words);
