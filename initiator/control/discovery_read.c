/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The discovery log, read by a live controller; see discovery_read.h.
 *
 * Happy path: header -> entries, four a command -> header again: if the generation counter is the
 * same, what was read is one state of the log; else everything is read again, at most TRIES times.
 * Each command has RAE 0, so the next change is an event again.
 *
 * Failures: a log that became shorter has no entries where we read on, and the target refuses that
 * read. So a refusal counts only if the generation counter is still the same.
 *
 * The target decides how many records there are, but not how many we take: DISCOVER_RECORDS_MAX.
 */
#include <stdlib.h>

#include "base/bits.h"
#include "initiator/control/controller_impl.h"
#include "initiator/control/controller_command.h"
#include "initiator/control/discovery_read.h"
#include "initiator/control/errors.h"

enum {
	TRIES = 10,
	ENTRY_BYTES = sizeof(struct nvmf_discovery_entry),
	CHUNK = ADMIN_DATA_BYTES / ENTRY_BYTES,
};

static void read_header(struct controller *c);
static void read_entries(struct controller *c);

static void fail(struct controller *c, const char *reason)
{
	c->cause = CAUSE_UNUSABLE;
	controller_fail_connection(c, false, reason);
}

static void refuse(struct controller *c, enum nvme_status status)
{
	c->cause = CAUSE_UNUSABLE;
	error_from_status(&c->error, "Get Log Page (discovery)", status);
	controller_fail(c);
}

static void on_entries(void *context, const struct admin_answer *answer)
{
	struct controller *c = context;
	struct discovery_read *d = &c->discovery_read;
	unsigned n = MIN(d->n_expected - d->n_read, (unsigned)CHUNK);

	if (!controller_is_up(c))
		return;
	if (answer->status != NVME_OK) {
		d->refusal = answer->status;
		read_header(c);
		return;
	}
	for (unsigned i = 0; i < n; i++) {
		struct discover_record *record = &d->result.records[d->result.n_records];

		if (discovery_parse_entry(answer->data + i * ENTRY_BYTES, record) == 0)
			d->result.n_records++;
	}
	d->n_read += n;
	read_entries(c);
}

static void read_entries(struct controller *c)
{
	struct discovery_read *d = &c->discovery_read;
	unsigned n = MIN(d->n_expected - d->n_read, (unsigned)CHUNK);
	struct admin_command command;

	if (!n) {
		read_header(c); /* detects a change during the read */
		return;
	}
	command = controller_get_log(NVME_LOG_DISCOVERY, (d->n_read + 1ull) * ENTRY_BYTES,
				     n * ENTRY_BYTES);
	command.sqe.nsid = put_le32(0);
	command.done = on_entries;
	controller_submit(c, &command);
}

/* The log did not change while it was read. */
static void conclude(struct controller *c)
{
	struct discovery_read *d = &c->discovery_read;

	if (d->refusal == NVME_OK)
		d->done(c);
	else
		refuse(c, d->refusal);
}

static void begin_try(struct controller *c, uint64_t genctr, unsigned n)
{
	struct discovery_read *d = &c->discovery_read;

	free(d->result.records);
	d->result = (struct discover_result){.genctr = genctr};
	d->n_read = 0;
	d->n_expected = n;
	d->refusal = NVME_OK;
	d->result.records = calloc(n ? n : 1, sizeof(*d->result.records));
	if (d->result.records)
		read_entries(c);
	else
		fail(c, "out of memory");
}

static void on_header(void *context, const struct admin_answer *answer)
{
	struct controller *c = context;
	struct discovery_read *d = &c->discovery_read;
	uint64_t genctr;
	unsigned n;

	if (!controller_is_up(c))
		return;
	if (answer->status != NVME_OK) {
		refuse(c, answer->status);
		return;
	}
	if (discovery_parse_header(answer->data, &genctr, &n) < 0) {
		fail(c, "its discovery log has an unknown format");
		return;
	}
	if (d->n_tries && genctr == d->result.genctr && n == d->n_expected) {
		conclude(c);
		return;
	}
	if (d->n_tries++ == TRIES) {
		fail(c, "its discovery log does not stop changing");
		return;
	}
	begin_try(c, genctr, n);
}

static void read_header(struct controller *c)
{
	struct admin_command command = controller_get_log(NVME_LOG_DISCOVERY, 0,
							  sizeof(struct nvmf_discovery_header));

	command.sqe.nsid = put_le32(0);
	command.done = on_header;
	controller_submit(c, &command);
}

void discovery_read(struct controller *c, void (*done)(struct controller *c))
{
	discover_result_release(&c->discovery_read.result);
	c->discovery_read = (struct discovery_read){.done = done};
	read_header(c);
}
