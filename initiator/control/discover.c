/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Discovery, blocking: one association with the discovery controller (inquiry.h).
 *
 * Happy path: live -> header -> entries, four a command -> header again: if the
 * generation counter is the same, what was read is one state of the log, and we shut
 * down; else everything is read again, at most TRIES times.
 *
 * Failures: a log that became shorter has no entries where we read on, and the target refuses that
 * read. So a refusal counts only if the generation counter is still the same.
 *
 * The target decides how many records there are, but not how many we take: DISCOVER_RECORDS_MAX.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/conf.h"
#include "initiator/control/discover.h"
#include "initiator/control/discovery_log.h"
#include "initiator/control/errors.h"
#include "initiator/control/inquiry.h"

enum {
	TRIES = 10,
	ENTRY_BYTES = sizeof(struct nvmf_discovery_entry),
	CHUNK = ADMIN_DATA_BYTES / ENTRY_BYTES,
};

struct discovery {
	struct inquiry inquiry;
	struct discover_result result;
	unsigned n_expected, n_read, n_tries;
	enum nvme_status refusal; /* of entries, in this try; NVME_OK: none */
};

static void read_header(struct discovery *d);
static void read_entries(struct discovery *d);

static void fail(struct discovery *d, const char *reason)
{
	controller_fail_connection(&d->inquiry.controller, false, reason);
}

static void refuse(struct discovery *d, enum nvme_status status)
{
	error_from_status(&d->inquiry.controller.error, "Get Log Page (discovery)", status);
	controller_fail(&d->inquiry.controller);
}

static void on_entries(void *context, const struct admin_answer *answer)
{
	struct controller *c = context;
	struct discovery *d = container_of(c->context, struct discovery, inquiry);
	unsigned n = MIN(d->n_expected - d->n_read, (unsigned)CHUNK);

	if (answer->status != NVME_OK) {
		d->refusal = answer->status;
		read_header(d);
		return;
	}
	for (unsigned i = 0; i < n; i++) {
		struct discover_record *record = &d->result.records[d->result.n_records];

		if (discovery_parse_entry(answer->data + i * ENTRY_BYTES, record) == 0)
			d->result.n_records++;
	}
	d->n_read += n;
	read_entries(d);
}

static void read_entries(struct discovery *d)
{
	unsigned n = MIN(d->n_expected - d->n_read, (unsigned)CHUNK);
	struct admin_command command;

	if (!n) {
		read_header(d); /* detects a change during the read */
		return;
	}
	command = controller_get_log(NVME_LOG_DISCOVERY, (d->n_read + 1ull) * ENTRY_BYTES,
				     n * ENTRY_BYTES);
	command.sqe.nsid = put_le32(0);
	command.done = on_entries;
	controller_submit(&d->inquiry.controller, &command);
}

/* The log did not change while it was read. */
static void conclude(struct discovery *d)
{
	if (d->refusal == NVME_OK)
		inquiry_succeed(&d->inquiry);
	else
		refuse(d, d->refusal);
}

static void begin_try(struct discovery *d, uint64_t genctr, unsigned n)
{
	free(d->result.records);
	d->result = (struct discover_result){.genctr = genctr};
	d->n_read = 0;
	d->n_expected = n;
	d->refusal = NVME_OK;
	d->result.records = calloc(n ? n : 1, sizeof(*d->result.records));
	if (d->result.records)
		read_entries(d);
	else
		fail(d, "out of memory");
}

static void on_header(void *context, const struct admin_answer *answer)
{
	struct controller *c = context;
	struct discovery *d = container_of(c->context, struct discovery, inquiry);
	uint64_t genctr;
	unsigned n;

	if (answer->status != NVME_OK) {
		refuse(d, answer->status);
		return;
	}
	if (discovery_parse_header(answer->data, &genctr, &n) < 0) {
		fail(d, "its discovery log has an unknown format");
		return;
	}
	if (d->n_tries && genctr == d->result.genctr && n == d->n_expected) {
		conclude(d);
		return;
	}
	if (d->n_tries++ == TRIES) {
		fail(d, "its discovery log does not stop changing");
		return;
	}
	begin_try(d, genctr, n);
}

static void read_header(struct discovery *d)
{
	struct admin_command command = controller_get_log(NVME_LOG_DISCOVERY, 0,
							  sizeof(struct nvmf_discovery_header));

	command.sqe.nsid = put_le32(0);
	command.done = on_header;
	controller_submit(&d->inquiry.controller, &command);
}

static void ask(struct inquiry *inquiry)
{
	read_header(container_of(inquiry, struct discovery, inquiry));
}

int discover(const struct volume_config *config, struct discover_result *ret_result,
	     struct error *error)
{
	struct discovery *d = calloc(1, sizeof(*d));
	int r;

	if (!d)
		return inquiry_out_of_resources(error, -ENOMEM);
	d->inquiry.ask = ask;
	r = inquiry_run(&d->inquiry, config, true, error);
	if (r == 0)
		*ret_result = d->result;
	else
		free(d->result.records);
	free(d);
	return r;
}

void discover_result_release(struct discover_result *result)
{
	free(result->records);
	*result = (struct discover_result){0};
}

void discover_suggest(const struct volume_config *config, struct error *error)
{
	const char *names[DISCOVER_RECORDS_MAX + 1];
	struct discover_result result;
	struct error ignored;
	const char *close_one;
	unsigned n = 0;

	if (error->code != EXIT_NOT_FOUND || discover(config, &result, &ignored) < 0)
		return;
	for (unsigned i = 0; i < result.n_records; i++)
		if (result.records[i].subtype == NVMF_SUBTYPE_NVM)
			names[n++] = result.records[i].subnqn;
	names[n] = NULL;
	close_one = conf_did_you_mean(config->subnqn, names);
	/* If the log lists the very name, the subsystem exists and only the namespace is
	 * missing. */
	if (close_one && strcmp(close_one, config->subnqn) != 0)
		snprintf(error->hint, sizeof(error->hint), "did you mean '%.220s'?", close_one);
	discover_result_release(&result);
}
