/* SPDX-License-Identifier: BSD-3-Clause */
/* See io_errors.h. */
#include <stdio.h>
#include <time.h>

#include "base/bits.h"
#include "base/clock.h"
#include "initiator/io/io_errors.h"
#include "initiator/io/queue_impl.h"
#include "transport/wire/strings.h"

enum {
	BURST = 5, /* records of a volume at once, and then one a second */
};

static const char *operation_of(const struct volume_io *io)
{
	switch (io->op) {
	case VOLUME_READ:
		return "read";
	case VOLUME_WRITE:
		return io->is_fua ? "write with FUA" : "write";
	case VOLUME_FLUSH:
		return "flush";
	case VOLUME_WRITE_ZEROES:
		return io->is_fua ? "write zeroes with FUA" : "write zeroes";
	case VOLUME_TRIM:
		return "trim";
	case VOLUME_COMPARE_AND_WRITE:
		return "compare and write";
	}
	return "I/O";
}

static void describe(const struct volume_queue *queue, const struct volume_io *io,
		     enum nvme_status status, const char *words, struct volume_io_error *ret_error)
{
	unsigned code = nvme_status_code(status);

	*ret_error = (struct volume_io_error){.time_s = (uint64_t)clock_wall_s()};
	if (io->op != VOLUME_FLUSH) {
		ret_error->lba = io->offset >> queue->block_shift;
		ret_error->blocks = io->length >> queue->block_shift;
	}
	snprintf(ret_error->operation, sizeof(ret_error->operation), "%s", operation_of(io));
	if (!words && code == NVME_HOST_PATH_ERROR)
		words = "the target cannot be reached";
	if (words)
		snprintf(ret_error->words, sizeof(ret_error->words), "%s", words);
	else
		snprintf(ret_error->words, sizeof(ret_error->words), "%s (status %x.%02x)",
			 nvme_status_string(status), code >> 8 & 7, code & 0xff);
}

static void say(const char *volume, const struct volume_io_error *error, unsigned n_unsaid)
{
	char range[64], unsaid[48] = "";

	nvme_range_format(range, sizeof(range), error->lba, error->blocks);
	if (n_unsaid)
		snprintf(unsaid, sizeof(unsaid), "; %u more before", n_unsaid);
	log_warn("%s: %s%s failed: %s%s", volume, error->operation, range, error->words, unsaid);
}

COLD void volume_io_errors_add(struct volume_queue *queue, const struct volume_io *io,
			       enum nvme_status status, const char *words)
{
	struct volume_io_errors *errors = queue->io_errors;
	struct volume_io_error last;
	unsigned n_unsaid;
	bool must_say;

	describe(queue, io, status, words, &last);
	pthread_mutex_lock(&errors->lock);
	errors->figures.n++;
	errors->figures.counts[io->op]++;
	errors->figures.last = last;
	must_say = log_limit_pass(&errors->limit, BURST);
	n_unsaid = errors->limit.suppressed;
	if (must_say)
		errors->limit.suppressed = 0;
	pthread_mutex_unlock(&errors->lock);
	if (must_say)
		say(errors->volume, &last, n_unsaid);
}

void volume_io_errors_init(struct volume_io_errors *errors, const char *subnqn, uint32_t nsid)
{
	snprintf(errors->volume, sizeof(errors->volume), "%s/%u", subnqn, nsid);
	pthread_mutex_init(&errors->lock, NULL);
}

void volume_io_errors_deinit(struct volume_io_errors *errors)
{
	pthread_mutex_destroy(&errors->lock);
}

void volume_io_errors_read(struct volume_io_errors *errors, struct volume_io_figures *ret_figures)
{
	pthread_mutex_lock(&errors->lock);
	*ret_figures = errors->figures;
	pthread_mutex_unlock(&errors->lock);
}
