/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See lease.h. One thread renews the leases of all images, and waits for none of them: an OSD that
 * hangs delays its own images alone. With each renewal it asks for the
 * holder of the exclusive lock.
 *
 *   renewed --> renewed ...
 *      |------> lost: the cluster refuses the client (-108), another client has the lock, or no
 *               renewal that was sent within the lease has come through
 *
 * A lost image holds back what the cluster has refused. Hosts must not hear of it before their
 * associations are over: they may have gone on by the next owner.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "target/store/rbd/image.h"
#include "target/store/rbd/lease.h"

enum {
	KEY_BYTES = LEASE_ADDRESS_BYTES + 16,
	RENEWALS = 3,	  /* in a lease */
	OWN_PERCENT = 90, /* of a lease, after which its owner gives it up: before others do */
	ANSWER_BYTES = 512,
};

struct lease {
	/* Protected by all.lock */
	struct list node;
	uint64_t sent_ns;    /* when the latest renewal began; 0: none did */
	uint64_t renewed_ns; /* when the latest one that came through began */
	uint64_t n_renewals;
	unsigned n_renewing, n_asking; /* calls under way, of each at most one */
	bool is_let_go;
	struct list held; /* of backend_io.node */

	/* Constant */
	struct image *image;
	uint64_t length_ns, client;
	char address[LEASE_ADDRESS_BYTES];

	/* The question's, while it is under way */
	char answer[ANSWER_BYTES];
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed; /* leases; calls under way */
	struct list leases;
	bool has_keeper;
} all = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.changed = PTHREAD_COND_INITIALIZER,
	.leases = LIST_INIT(all.leases),
};

/* ---- lines ---------------------------------------------------------------------------------- */

static void make_key(char key[KEY_BYTES], const char *address)
{
	snprintf(key, KEY_BYTES, "lease#%s", address);
}

static void make_line(char text[LEASE_LINE_BYTES], uint64_t length_ns, uint64_t n)
{
	struct life own;
	char life[LIFE_TEXT_BYTES];

	life_read_own(&own);
	life_format(&own, life);
	snprintf(text, LEASE_LINE_BYTES, "%s %" PRIu64 " %" PRIu64, life,
		 (uint64_t)(length_ns / NSEC_PER_MSEC), n);
}

static bool parse_line(struct lease_line *line)
{
	const char *rest;
	uint64_t ms = 0, n;

	if (!life_parse(line->text, &line->life, &rest) ||
	    sscanf(rest, " %" SCNu64 " %" SCNu64, &ms, &n) != 2 || ms < LEASE_LEAST_MS ||
	    ms > LEASE_MOST_MS)
		return false;
	line->length_ns = ms * NSEC_PER_MSEC;
	return true;
}

/* NULL: no memory. */
static rados_write_op_t new_write(const char *address, const char *text)
{
	char key[KEY_BYTES];
	const char *keys[] = {key};
	size_t n_key, n_text = strlen(text);
	rados_write_op_t op = rados_create_write_op();

	make_key(key, address);
	n_key = strlen(key);
	if (!op)
		return NULL;
	rados_write_op_create(op, LIBRADOS_CREATE_IDEMPOTENT, NULL);
	rados_write_op_omap_set2(op, keys, &text, &n_key, &n_text, 1);
	return op;
}

int lease_announce(rados_ioctx_t pool, const char *object, const char *address, uint64_t length_ns)
{
	char text[LEASE_LINE_BYTES];
	rados_write_op_t op;
	int r;

	make_line(text, length_ns, 0);
	op = new_write(address, text);
	if (!op)
		return -ENOMEM;
	r = rados_write_op_operate(op, pool, object, NULL, 0);
	rados_release_write_op(op);
	return r;
}

static void make_fenced_key(char key[KEY_BYTES], const char *address)
{
	snprintf(key, KEY_BYTES, LEASE_FENCED "%s", address);
}

/* text: what `to` has from then on; NULL: it is not there. */
static void replace(rados_ioctx_t pool, const char *object, const char *key, const char *to,
		    const char *text)
{
	rados_write_op_t op = rados_create_write_op();
	size_t n_key = strlen(key), n_to = strlen(to), n_text = text ? strlen(text) : 0;

	if (!op)
		return;
	rados_write_op_omap_rm_keys2(op, &key, &n_key, 1);
	if (text)
		rados_write_op_omap_set2(op, &to, &text, &n_to, &n_text, 1);
	(void)rados_write_op_operate(op, pool, object, NULL, 0); /* no harm: its client is over */
	rados_release_write_op(op);
}

void lease_forget(rados_ioctx_t pool, const char *object, const char *address)
{
	char key[KEY_BYTES];

	make_key(key, address);
	replace(pool, object, key, "", NULL);
}

void lease_note_fenced(rados_ioctx_t pool, const char *object, const char *address,
		       const char *text)
{
	char key[KEY_BYTES], to[KEY_BYTES];

	make_key(key, address);
	make_fenced_key(to, address);
	replace(pool, object, key, to, text);
}

void lease_forget_fenced(rados_ioctx_t pool, const char *object, const char *address)
{
	char key[KEY_BYTES];

	make_fenced_key(key, address);
	replace(pool, object, key, "", NULL);
}

const char *lease_fenced_address(const char *key, size_t n_key)
{
	static const char allowed[] = "0123456789abcdefABCDEF.:/[]";
	size_t n = strlen(LEASE_FENCED);

	if (n_key <= n || n_key >= KEY_BYTES || memcmp(key, LEASE_FENCED, n) != 0 ||
	    strspn(key + n, allowed) != n_key - n)
		return NULL;
	return key + n;
}

static int take_line(rados_omap_iter_t found, struct lease_line *line)
{
	char *key, *value;
	size_t n_key, n;
	int r = rados_omap_get_next2(found, &key, &value, &n_key, &n);

	if (r < 0)
		return r;
	if (!key)
		return -ENOENT;
	if (n >= sizeof(line->text) || memchr(value, 0, n))
		return -EBADMSG;
	memcpy(line->text, value, n);
	line->text[n] = '\0';
	return parse_line(line) ? 0 : -EBADMSG;
}

int lease_read(rados_ioctx_t pool, const char *object, const char *address,
	       struct lease_line *ret_line)
{
	char key[KEY_BYTES];
	const char *keys[] = {key};
	size_t n_key;
	rados_omap_iter_t found = NULL;
	rados_read_op_t op = rados_create_read_op();
	int found_result = 0, r;

	if (!op)
		return -ENOMEM;
	make_key(key, address);
	n_key = strlen(key);
	rados_read_op_omap_get_vals_by_keys2(op, keys, 1, &n_key, &found, &found_result);
	r = rados_read_op_operate(op, pool, object, 0);
	if (r == 0)
		r = found_result;
	if (r == 0)
		r = take_line(found, ret_line);
	if (found)
		rados_omap_get_end(found);
	rados_release_read_op(op);
	return r;
}

/* ---- what is lost --------------------------------------------------------------------------- */

static const char in_blocklist[] = "this client is in the cluster's blocklist",
		  not_renewed[] = "the cluster has taken no renewal of its lease in time",
		  not_locked[] = "its exclusive lock is not this client's any more";

/* Caller holds the lock. */
static void lose(struct lease *lease, const char *why)
{
	struct image *image = lease->image;

	if (atomic_load(&image->backend.lost_why))
		return;
	atomic_store(&image->backend.lost_why, why);
	cluster_lose(image->cluster);
	if (atomic_load(&image->is_taken))
		rbd_host->changed(&image->backend);
}

bool lease_holds(struct lease *lease, struct backend_io *io)
{
	bool is_held;

	if (!lease)
		return false;
	pthread_mutex_lock(&all.lock);
	lose(lease, in_blocklist);
	is_held = !lease->is_let_go;
	if (is_held)
		list_add_tail(&lease->held, &io->node);
	pthread_mutex_unlock(&all.lock);
	return is_held;
}

void lease_let_go(struct lease *lease)
{
	struct list *node;

	pthread_mutex_lock(&all.lock);
	lease->is_let_go = true;
	while ((node = list_take_first(&lease->held))) {
		struct backend_io *io = list_entry(node, struct backend_io, node);

		rbd_host->send(io->loop, &io->msg);
	}
	pthread_mutex_unlock(&all.lock);
}

/* ---- the renewal and the question ----------------------------------------------------------- */

/* A thread of librados. */
static void on_renewed(rados_completion_t completion, void *context)
{
	struct lease *lease = context;
	int r = rados_aio_get_return_value(completion);

	rados_aio_release(completion);
	pthread_mutex_lock(&all.lock);
	if (r == 0)
		lease->renewed_ns = lease->sent_ns;
	else if (r == -ESHUTDOWN)
		lose(lease, in_blocklist);
	lease->n_renewing--;
	pthread_cond_broadcast(&all.changed);
	pthread_mutex_unlock(&all.lock);
}

/*
 * The answer of the OSDs' class "lock" to get_info: the head of the struct, the number of holders,
 * then of each the head, the kind and the number of the client. A client is known by its number. An
 * answer of another form tells nothing.
 */
static bool is_of_another(const struct lease *lease, int n_bytes)
{
	enum {
		HEAD = 6,
		COUNT = 4,
		KIND = 1
	};
	const uint8_t *at = (const uint8_t *)lease->answer;
	uint64_t client = 0;

	if (n_bytes < HEAD + COUNT || at[0] != 1)
		return false;
	if (!at[HEAD])
		return true; /* it is free */
	if (n_bytes < 2 * HEAD + COUNT + KIND + 8)
		return false;
	for (unsigned i = 0; i < 8; i++)
		client |= (uint64_t)at[2 * HEAD + COUNT + KIND + i] << 8 * i;
	return client != lease->client;
}

/* A thread of librados. */
static void on_answer(rados_completion_t completion, void *context)
{
	struct lease *lease = context;
	int r = rados_aio_get_return_value(completion);

	rados_aio_release(completion);
	pthread_mutex_lock(&all.lock);
	if (r == -ESHUTDOWN)
		lose(lease, in_blocklist);
	else if (r > 0 && is_of_another(lease, MIN(r, ANSWER_BYTES)))
		lose(lease, not_locked);
	lease->n_asking--;
	pthread_cond_broadcast(&all.changed);
	pthread_mutex_unlock(&all.lock);
}

/* Caller holds the lock, here and below. A call that does not start is one that does not end in
 * time. */
static void renew(struct lease *lease)
{
	char text[LEASE_LINE_BYTES];
	rados_completion_t completion;
	rados_write_op_t op;

	make_line(text, lease->length_ns, ++lease->n_renewals);
	op = new_write(lease->address, text);
	if (!op || rados_aio_create_completion2(lease, on_renewed, &completion) < 0)
		return;
	lease->n_renewing++;
	if (rados_aio_write_op_operate(op, lease->image->pool, completion, lease->image->object,
				       NULL, 0) < 0) {
		lease->n_renewing--;
		rados_aio_release(completion);
	}
	rados_release_write_op(op);
}

static void ask_for_lock(struct lease *lease)
{
	/* The head of the struct, then the name of librbd's lock with its length. */
	static const char question[] = "\1\1\x0c\0\0\0\x08\0\0\0rbd_lock";
	struct image *image = lease->image;
	rados_completion_t completion;

	if (rados_aio_create_completion2(lease, on_answer, &completion) < 0)
		return;
	lease->n_asking++;
	if (rados_aio_exec(image->pool, image->header, completion, "lock", "get_info", question,
			   sizeof(question) - 1, lease->answer, sizeof(lease->answer)) < 0) {
		lease->n_asking--;
		rados_aio_release(completion);
	}
}

/* ---- the keeper ----------------------------------------------------------------------------- */

/* When the lease has to be looked at again. */
static uint64_t look(struct lease *lease, uint64_t now_ns)
{
	uint64_t every_ns = lease->length_ns / RENEWALS;
	uint64_t end_ns = lease->renewed_ns + lease->length_ns / 100 * OWN_PERCENT;

	if (atomic_load(&lease->image->backend.lost_why))
		return UINT64_MAX;
	if (now_ns >= end_ns) {
		lose(lease, not_renewed);
		return UINT64_MAX;
	}
	if (now_ns < lease->sent_ns + every_ns)
		return MIN(end_ns, lease->sent_ns + every_ns);
	if (lease->n_renewing)
		return end_ns; /* the end of the call wakes the keeper, too */
	lease->sent_ns = now_ns;
	renew(lease);
	if (!lease->n_asking)
		ask_for_lock(lease);
	return MIN(end_ns, now_ns + every_ns);
}

static void *keep(void *context)
{
	pthread_mutex_lock(&all.lock);
	for (;;) {
		uint64_t now_ns = rbd_host->now_ns(), next_ns = now_ns + 60 * NSEC_PER_SEC;
		struct timespec until;

		list_for_each (node, &all.leases)
			next_ns = MIN(next_ns, look(list_entry(node, struct lease, node), now_ns));
		until = cluster_time(next_ns);
		pthread_cond_clockwait(&all.changed, &all.lock, CLOCK_MONOTONIC, &until);
	}
	return NULL;
}

/* Caller holds the lock. It stays until the process ends, and without leases it only waits. */
static bool start_keeper(void)
{
	pthread_t thread;

	if (all.has_keeper)
		return true;
	all.has_keeper = pthread_create(&thread, NULL, keep, NULL) == 0;
	if (all.has_keeper)
		pthread_detach(thread);
	return all.has_keeper;
}

struct lease *lease_start(struct image *image, const char *address, uint64_t length_ns)
{
	struct lease *lease = calloc(1, sizeof(*lease));
	bool is_kept;

	if (!lease)
		return NULL;
	lease->image = image;
	lease->length_ns = length_ns;
	lease->client = rados_get_instance_id(cluster_handle(image->cluster));
	snprintf(lease->address, sizeof(lease->address), "%s", address);
	list_init(&lease->held);
	lease->renewed_ns = rbd_host->now_ns();
	pthread_mutex_lock(&all.lock);
	is_kept = start_keeper();
	if (is_kept)
		list_add_tail(&all.leases, &lease->node);
	pthread_cond_broadcast(&all.changed);
	pthread_mutex_unlock(&all.lock);
	if (is_kept)
		return lease;
	free(lease);
	return NULL;
}

void lease_stop(struct lease *lease)
{
	if (!lease)
		return;
	pthread_mutex_lock(&all.lock);
	list_remove(&lease->node);
	while (lease->n_renewing || lease->n_asking)
		pthread_cond_wait(&all.changed, &all.lock);
	pthread_mutex_unlock(&all.lock);
	free(lease);
}
