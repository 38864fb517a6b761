/* SPDX-License-Identifier: BSD-3-Clause */
/* See fuzz_records.h. */
#include <stdio.h>

#include "base/check.h"
#include "base/loop.h"
#include "target/store/record.h"
#include "tests/fuzz/fuzz_disk.h"
#include "tests/fuzz/fuzz_records.h"

enum {
	TEXT_MAX = 1 << 10,
};

static struct {
	struct loop *loop;
	struct loop_call call;
	struct list submitted; /* of struct backend_io (node), in struct record_op */
	uint64_t version, last_version;
	char text[TEXT_MAX], late[TEXT_MAX];
	bool has_late;
} records;

/* ---- the record ------------------------------------------------------------------------------ */

static void put(const char *text)
{
	snprintf(records.text, sizeof(records.text), "%s", text);
	records.version = *text ? ++records.last_version : RECORD_NONE;
}

static void put_late(void)
{
	if (records.has_late)
		put(records.late);
	records.has_late = false;
}

void records_change(const uint8_t *text, size_t n, bool is_late)
{
	snprintf(records.late, sizeof(records.late), "%.*s", (int)n, (const char *)text);
	records.has_late = true;
	if (!is_late)
		put_late();
}

/* ---- operations ------------------------------------------------------------------------------ */

static int load(struct record_op *op)
{
	int r = disk_take_error();

	if (r < 0) /* only a change is overtaken */
		return r == -ECANCELED ? -EIO : r;
	op->version = records.version;
	op->found = records.version ? strdup(records.text) : NULL;
	return 0;
}

static int change(struct record_op *op)
{
	int r = disk_take_error();

	op->is_old = true;
	if (r < 0)
		return r;
	put_late();
	if (op->version != records.version)
		return -ECANCELED;
	put(op->text ? op->text : "");
	op->version = records.version;
	op->is_old = false;
	return 0;
}

static void run(struct loop_call *call)
{
	struct list now, *node;

	list_init(&now);
	list_splice_tail(&now, &records.submitted);
	while ((node = list_take_first(&now))) {
		struct record_op *op = container_of(list_entry(node, struct backend_io, node),
						    struct record_op, io);

		op->error = op->work(op);
		op->done(op);
	}
}

void records_resume(void)
{
	if (records.loop)
		loop_defer(records.loop, &records.call);
}

static void submit(struct record_op *op, int (*work)(struct record_op *op))
{
	check(op->loop == records.loop);
	op->work = work;
	list_add_tail(&records.submitted, &op->io.node);
	if (!disk_is_held())
		records_resume();
}

static void submit_load(struct record_store *store, struct record_op *op)
{
	submit(op, load);
}

static void submit_change(struct record_store *store, struct record_op *op)
{
	submit(op, change);
}

struct record_store *records_open(struct loop *loop)
{
	static const struct record_ops ops = {
		.load = submit_load,
		.store = submit_change,
		.remove = submit_change,
	};
	static struct record_store store = {
		.ops = &ops, .place = "nowhere", .own = "record", .is_shared = true};

	records.loop = loop;
	records.call.run = run;
	records.has_late = false;
	put("");
	list_init(&records.submitted);
	return &store;
}
