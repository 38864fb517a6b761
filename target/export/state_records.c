/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See state_records.h. The lock on the directory keeps other rblkd out, so versions live in memory:
 * each change of a file gets the next number. Worker threads do the work; one that changes a record
 * holds the lock of that record alone, so slow syncs of several namespaces run side by side.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "target/export/state_file.h"
#include "target/export/state_records.h"
#include "target/store/pool.h"

struct known {
	struct list node; /* of state_records.known, under its lock; never removed */
	pthread_mutex_t lock;
	uint64_t version; /* under lock */
	char name[RECORD_NAME_BYTES];
};

struct state_records {
	struct record_store store;
	struct state_directory *directory; /* borrowed */
	_Atomic uint64_t last_version;
	pthread_mutex_t lock; /* a leaf */
	struct list known;    /* of struct known */
};

static struct state_records *records_of(struct record_store *store)
{
	return container_of(store, struct state_records, store);
}

/* ---- what is known of a record --------------------------------------------------------------- */

/* Caller holds the lock. */
static struct known *find(struct state_records *records, const char *name)
{
	list_for_each (node, &records->known) {
		struct known *known = list_entry(node, struct known, node);

		if (!strcmp(known->name, name))
			return known;
	}
	return NULL;
}

/* Caller holds the lock. NULL: no memory. */
static struct known *add(struct state_records *records, const char *name)
{
	struct known *known = calloc(1, sizeof(*known));

	check(strlen(name) < sizeof(known->name));
	if (!known)
		return NULL;
	strcpy(known->name, name);
	pthread_mutex_init(&known->lock, NULL);
	list_add_tail(&records->known, &known->node);
	return known;
}

static struct known *get(struct state_records *records, const char *name)
{
	struct known *known;

	pthread_mutex_lock(&records->lock);
	known = find(records, name);
	if (!known)
		known = add(records, name);
	pthread_mutex_unlock(&records->lock);
	return known;
}

static uint64_t next_version(struct state_records *records)
{
	return atomic_fetch_add(&records->last_version, 1) + 1;
}

/* ---- the work: a worker thread, or control --------------------------------------------------- */

/* Caller holds the record's lock. Sets found and version. */
static int read_file(struct state_records *records, struct known *known, struct record_op *op)
{
	int r = state_file_read(records->directory, op->name, &op->found);

	if (r < 0)
		return r;
	if (!op->found)
		known->version = RECORD_NONE;
	else if (!known->version)
		known->version = next_version(records);
	op->version = known->version;
	return 0;
}

static int load(struct record_op *op)
{
	struct state_records *records = records_of(op->store);
	struct known *known = get(records, op->name);
	int r;

	if (!known)
		return -ENOMEM;
	pthread_mutex_lock(&known->lock);
	r = read_file(records, known, op);
	pthread_mutex_unlock(&known->lock);
	return r;
}

/* Caller holds the record's lock. */
static int replace(struct state_records *records, struct known *known, struct record_op *op)
{
	int r;

	if (op->version != known->version) {
		op->version = known->version;
		return -ECANCELED;
	}
	r = state_file_write(records->directory, op->name, op->text,
			     op->text ? strlen(op->text) : 0, &op->is_old);
	if (!op->is_old)
		known->version = op->text ? next_version(records) : RECORD_NONE;
	op->version = known->version;
	return r;
}

static int change(struct record_op *op)
{
	struct state_records *records = records_of(op->store);
	struct known *known = get(records, op->name);
	int r;

	op->is_old = true;
	if (!known)
		return -ENOMEM;
	pthread_mutex_lock(&known->lock);
	r = replace(records, known, op);
	pthread_mutex_unlock(&known->lock);
	return r;
}

static int list(struct record_op *op)
{
	return state_file_list(records_of(op->store)->directory, op->name, RECORD_LIST_MAX,
			       &op->found);
}

/* ---- the table ------------------------------------------------------------------------------- */

static int work(struct backend_io *io)
{
	struct record_op *op = container_of(io, struct record_op, io);

	return op->work(op);
}

static void on_worked(struct backend_io *io, int error)
{
	struct record_op *op = container_of(io, struct record_op, io);

	op->error = error;
	op->done(op);
}

static void start(struct record_store *store, struct record_op *op,
		  int (*work_of)(struct record_op *op))
{
	op->store = store;
	op->work = work_of;
	op->found = NULL;
	op->is_old = false;
	if (op->thread) {
		op->io.done = on_worked;
		backend_run(op->thread, &op->io, work);
		return;
	}
	op->error = work_of(op);
	if (!op->loop)
		return;
	op->msg.run = record_run_done;
	loop_send(op->loop, &op->msg);
}

static void start_load(struct record_store *store, struct record_op *op)
{
	start(store, op, load);
}

static void start_store(struct record_store *store, struct record_op *op)
{
	check(op->text);
	start(store, op, change);
}

static void start_remove(struct record_store *store, struct record_op *op)
{
	op->text = NULL;
	start(store, op, change);
}

static void start_list(struct record_store *store, struct record_op *op)
{
	start(store, op, list);
}

static const struct record_ops ops = {
	.load = start_load,
	.store = start_store,
	.remove = start_remove,
	.list = start_list,
};

struct record_store *state_records_new(struct state_directory *directory)
{
	struct state_records *records = calloc(1, sizeof(*records));

	if (!records)
		return NULL;
	records->store = (struct record_store){
		.ops = &ops,
		.place = state_directory_path(directory),
	};
	records->directory = directory;
	pthread_mutex_init(&records->lock, NULL);
	list_init(&records->known);
	return &records->store;
}

struct record_store *state_records_new_of_groups(struct state_directory *directory,
						 const char *boot_id)
{
	struct record_store *store = state_records_new(directory);

	if (store)
		store->boot_id = boot_id;
	return store;
}

void state_records_free(struct record_store *store)
{
	struct state_records *records = store ? records_of(store) : NULL;
	struct list *node;

	while (records && (node = list_take_first(&records->known))) {
		struct known *known = list_entry(node, struct known, node);

		pthread_mutex_destroy(&known->lock);
		free(known);
	}
	free(records);
}
