/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See records.h. A record is two entries of the object's omap: NAME has the contents, and NAME#
 * their version, a random number for each change. One operation compares the version and sets both,
 * so it happens as a whole or not at all. A number that counts would begin again with a new object,
 * and a rblkd that knows the old one would take it for its own.
 *
 * librados calls back on a thread of its own; the result goes to the caller's loop from there.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "target/store/rbd/cluster.h"
#include "target/store/rbd/lease.h"
#include "target/store/rbd/records.h"

enum {
	KEY_BYTES = RECORD_NAME_BYTES + 1,
	VERSION_BYTES = 17,
	TEXT_MAX = 1024 * 1024,
};

#define OWN "guard"

struct records {
	struct record_store store;
	rados_ioctx_t pool;  /* borrowed */
	struct lease *lease; /* borrowed; NULL: no other rblkd stands by for the image */
	char *object, *place;

	/* The opener's thread, then control: what the first load without a loop gets */
	bool has_first;
	char *first; /* owned */
	uint64_t first_version;
};

/* One operation, from its start until the callback has ended. */
struct call {
	struct records *records;
	struct record_op *op;
	rados_completion_t completion;
	rados_write_op_t write; /* NULL: it reads */
	rados_read_op_t read;	/* NULL: it writes */
	/* The callback takes what is read, into the record_op. */
	int (*take)(struct call *call);
	rados_omap_iter_t found; /* owned */
	unsigned char has_more;
	int found_result, set_result;
	uint64_t version; /* that a change makes */
	char key[KEY_BYTES], version_key[KEY_BYTES + 1], text[VERSION_BYTES];
};

static struct records *records_of(struct record_store *store)
{
	return container_of(store, struct records, store);
}

/* ---- calls ---------------------------------------------------------------------------------- */

static void free_call(struct call *call)
{
	if (call->found)
		rados_omap_get_end(call->found);
	if (call->write)
		rados_release_write_op(call->write);
	if (call->read)
		rados_release_read_op(call->read);
	if (call->completion)
		rados_aio_release(call->completion);
	free(call);
}

static struct call *new_call(struct records *records, struct record_op *op)
{
	struct call *call = calloc(1, sizeof(*call));

	if (!call)
		return NULL;
	call->records = records;
	call->op = op;
	snprintf(call->key, sizeof(call->key), "%s", op->name);
	snprintf(call->version_key, sizeof(call->version_key), "%s#", op->name);
	return call;
}

static void on_let_go(struct loop_msg *msg)
{
	struct backend_io *io = container_of(msg, struct backend_io, msg);
	struct record_op *op = container_of(io, struct record_op, io);

	op->done(op);
}

static bool is_held(struct record_op *op)
{
	struct lease *lease = container_of(op->store, struct records, store)->lease;

	op->io.loop = op->loop;
	op->io.msg.run = on_let_go;
	return lease_holds(lease, &op->io);
}

/* Any thread. The operation is over. */
static void give_back(struct record_op *op, int error)
{
	op->error = error;
	if (error == -ESHUTDOWN && is_held(op))
		return;
	op->msg.run = record_run_done;
	rbd_host->send(op->loop, &op->msg);
}

/* The client was cut off: its last operations may have happened. */
static bool is_unknown(int error)
{
	return error == -ESHUTDOWN || error == -ETIMEDOUT;
}

static int result(struct call *call)
{
	struct record_op *op = call->op;
	int r = rados_aio_get_return_value(call->completion);

	if (r >= 0)
		r = call->take ? call->take(call) : 0;
	if (call->read && r == -ENOENT) { /* the object: it has no records */
		op->version = RECORD_NONE;
		r = 0;
	}
	if (call->write && r == -ENOENT) /* a removal, where there is no object */
		r = op->version == RECORD_NONE ? 0 : -ECANCELED;
	if (call->write && r == 0)
		op->version = call->version;
	op->is_old = r < 0 && !is_unknown(r);
	return r;
}

/* A thread of librados. */
static void on_complete(rados_completion_t completion, void *context)
{
	struct call *call = context;
	struct record_op *op = call->op;
	int r = result(call);

	free_call(call);
	give_back(op, r);
}

static int submit(struct call *call)
{
	struct records *records = call->records;

	if (call->write)
		return rados_aio_write_op_operate(call->write, records->pool, call->completion,
						  records->object, NULL, 0);
	return rados_aio_read_op_operate(call->read, records->pool, call->completion,
					 records->object, 0);
}

/* prepare fills the call. Every failure comes by way of the loop, too. */
static void start(struct record_store *store, struct record_op *op, int (*prepare)(struct call *))
{
	struct call *call = new_call(records_of(store), op);
	int r = call ? prepare(call) : -ENOMEM;

	op->store = store;
	op->found = NULL;
	op->is_old = true;
	if (r == 0)
		r = rados_aio_create_completion2(call, on_complete, &call->completion);
	if (r == 0)
		r = submit(call);
	if (r == 0)
		return;
	if (call)
		free_call(call);
	give_back(op, r);
}

/* ---- load ------------------------------------------------------------------------------------ */

static bool parse_version(const char *value, size_t n, uint64_t *ret_version)
{
	char text[VERSION_BYTES] = "";

	if (n != VERSION_BYTES - 1)
		return false;
	memcpy(text, value, n);
	*ret_version = strtoull(text, NULL, 16);
	return strspn(text, "0123456789abcdef") == n && *ret_version != RECORD_NONE;
}

/* One entry of the omap. 0 or -errno. */
static int take_entry(struct call *call, const char *key, size_t n_key, const char *value, size_t n)
{
	struct record_op *op = call->op;

	if (n_key == strlen(call->version_key) && !memcmp(key, call->version_key, n_key))
		return parse_version(value, n, &op->version) ? 0 : -EBADMSG;
	if (n_key != strlen(call->key) || memcmp(key, call->key, n_key) != 0)
		return 0;
	if (n > TEXT_MAX)
		return -EFBIG;
	if (memchr(value, 0, n))
		return -EBADMSG;
	op->found = malloc(n + 1);
	if (!op->found)
		return -ENOMEM;
	memcpy(op->found, value, n);
	op->found[n] = 0;
	return 0;
}

static int take_all(struct call *call)
{
	char *key, *value;
	size_t n_key, n;
	int r = call->found_result;

	while (r == 0) {
		r = rados_omap_get_next2(call->found, &key, &value, &n_key, &n);
		if (r < 0 || !key)
			return r;
		r = take_entry(call, key, n_key, value, n);
	}
	return r;
}

/* Both entries, or none. */
static int take_record(struct call *call)
{
	struct record_op *op = call->op;
	int r;

	op->version = RECORD_NONE;
	r = take_all(call);
	if (r == 0 && !op->found != (op->version == RECORD_NONE))
		r = -EBADMSG;
	if (r == 0)
		return 0;
	free(op->found);
	op->found = NULL;
	return r;
}

static int prepare_load(struct call *call)
{
	const char *keys[] = {call->key, call->version_key};
	const size_t lengths[] = {strlen(call->key), strlen(call->version_key)};

	call->take = take_record;
	call->read = rados_create_read_op();
	if (!call->read)
		return -ENOMEM;
	rados_read_op_omap_get_vals_by_keys2(call->read, keys, 2, lengths, &call->found,
					     &call->found_result);
	return 0;
}

/* Without a loop, control takes what open has read. */
static void take_first(struct records *records, struct record_op *op)
{
	bool is_there = records->has_first && !strcmp(op->name, OWN);

	op->error = is_there ? 0 : -EWOULDBLOCK;
	op->found = NULL;
	if (!is_there)
		return;
	op->found = records->first;
	op->version = records->first_version;
	records->has_first = false;
	records->first = NULL;
}

static void start_load(struct record_store *store, struct record_op *op)
{
	if (op->loop)
		start(store, op, prepare_load);
	else
		take_first(records_of(store), op);
}

int records_read_first(struct records *records)
{
	struct record_op op = {.name = OWN};
	struct call *call = new_call(records, &op);
	int r = call ? prepare_load(call) : -ENOMEM;

	if (r == 0)
		r = rados_aio_create_completion2(NULL, NULL, &call->completion);
	if (r == 0)
		r = submit(call);
	if (r == 0) {
		rados_aio_wait_for_complete(call->completion);
		r = result(call);
	}
	if (call)
		free_call(call);
	records->has_first = r == 0;
	records->first = op.found;
	records->first_version = op.version;
	return r;
}

/* ---- changes --------------------------------------------------------------------------------- */

/* Fails the operation with -ECANCELED unless the record has the version of op. */
static int prepare_change(struct call *call)
{
	const struct record_op *op = call->op;
	char expected[VERSION_BYTES] = "";

	if (op->version != RECORD_NONE)
		snprintf(expected, sizeof(expected), "%016" PRIx64, op->version);
	call->write = rados_create_write_op();
	if (!call->write)
		return -ENOMEM;
	if (op->text)
		rados_write_op_create(call->write, LIBRADOS_CREATE_IDEMPOTENT, NULL);
	/* An entry that is missing compares as empty. */
	rados_write_op_omap_cmp2(call->write, call->version_key, LIBRADOS_CMPXATTR_OP_EQ, expected,
				 strlen(call->version_key), strlen(expected), &call->set_result);
	return 0;
}

static int prepare_store(struct call *call)
{
	const char *keys[] = {call->key, call->version_key};
	const char *values[] = {call->op->text, call->text};
	const size_t n_keys[] = {strlen(call->key), strlen(call->version_key)};
	const size_t n_values[] = {strlen(call->op->text), VERSION_BYTES - 1};
	int r = random_bytes(&call->version, sizeof(call->version));

	if (n_values[0] > TEXT_MAX)
		return -EFBIG;
	if (r == 0)
		r = prepare_change(call);
	if (r < 0)
		return r;
	call->version += call->version == RECORD_NONE;
	snprintf(call->text, sizeof(call->text), "%016" PRIx64, call->version);
	rados_write_op_omap_set2(call->write, keys, values, n_keys, n_values, 2);
	return 0;
}

static int prepare_remove(struct call *call)
{
	const char *keys[] = {call->key, call->version_key};
	const size_t n_keys[] = {strlen(call->key), strlen(call->version_key)};
	int r = prepare_change(call);

	if (r == 0)
		rados_write_op_omap_rm_keys2(call->write, keys, n_keys, 2);
	return r;
}

static void refuse_waiting(struct record_op *op)
{
	op->error = -EWOULDBLOCK;
	op->is_old = true;
}

static void start_store(struct record_store *store, struct record_op *op)
{
	if (op->loop)
		start(store, op, prepare_store);
	else
		refuse_waiting(op);
}

static void start_remove(struct record_store *store, struct record_op *op)
{
	op->text = NULL;
	if (op->loop)
		start(store, op, prepare_remove);
	else
		refuse_waiting(op);
}

/* ---- list ------------------------------------------------------------------------------------ */

static int list_names(struct call *call, FILE *f)
{
	size_t n_prefix = strlen(call->op->name), n_key, n;
	char *key, *value;
	int r = call->found_result;

	while (r == 0) {
		r = rados_omap_get_next2(call->found, &key, &value, &n_key, &n);
		if (r < 0 || !key)
			return r;
		if (n_key >= n_prefix && !memcmp(key, call->op->name, n_prefix) &&
		    key[n_key - 1] != '#')
			fprintf(f, "%.*s\n", (int)n_key, key);
	}
	return r;
}

static int take_names(struct call *call)
{
	size_t n_bytes;
	FILE *f = call->has_more ? NULL : open_memstream(&call->op->found, &n_bytes);
	int r = f ? list_names(call, f) : -ENOMEM;

	if (call->has_more)
		return -E2BIG;
	if (f && fclose(f) < 0 && r == 0)
		r = -ENOMEM;
	if (r == 0)
		return 0;
	free(call->op->found);
	call->op->found = NULL;
	return r;
}

static int prepare_list(struct call *call)
{
	call->take = take_names;
	call->read = rados_create_read_op();
	if (!call->read)
		return -ENOMEM;
	rados_read_op_omap_get_keys2(call->read, "", 2 * RECORD_LIST_MAX, &call->found,
				     &call->has_more, &call->found_result);
	return 0;
}

static void start_list(struct record_store *store, struct record_op *op)
{
	if (op->loop)
		start(store, op, prepare_list);
	else
		refuse_waiting(op);
}

/* ---- the store ------------------------------------------------------------------------------- */

static const struct record_ops ops = {
	.load = start_load,
	.store = start_store,
	.remove = start_remove,
	.list = start_list,
};

struct records *records_new(rados_ioctx_t pool, const char *object, const char *place)
{
	struct records *records = calloc(1, sizeof(*records));

	if (!records)
		return NULL;
	records->pool = pool;
	records->object = strdup(object);
	records->place = strdup(place);
	records->store = (struct record_store){
		.ops = &ops,
		.place = records->place,
		.own = OWN,
		.is_shared = true,
	};
	if (records->object && records->place)
		return records;
	records_free(records);
	return NULL;
}

void records_free(struct records *records)
{
	if (!records)
		return;
	free(records->first);
	free(records->object);
	free(records->place);
	free(records);
}

struct record_store *records_store(struct records *records)
{
	return records ? &records->store : NULL;
}

void records_set_lease(struct records *records, struct lease *lease)
{
	if (records)
		records->lease = lease;
}
