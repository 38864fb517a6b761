/* SPDX-License-Identifier: BSD-3-Clause */
/* See entries.h. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "target/store/rbd/entries.h"

enum {
	REMNANTS_S = 3600,  /* of a client in the network and in OSDs, if no option says */
	RECORDS_MAX = 1000, /* in one look */
};

/* A client that is over, since this process knows it. */
struct over {
	char address[LEASE_ADDRESS_BYTES];
	uint64_t since_ns;
	bool is_refused; /* logged: the cluster does not let this user remove it */
};

static struct {
	pthread_mutex_t lock;
	struct over *items;
	unsigned n;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* A client of this machine is over if its process has ended; one of this process, if it has closed
 * that client. */
static bool is_over(const char *address, const char *text)
{
	struct life life;
	const char *rest;

	if (!life_parse(text, &life, &rest))
		return false;
	return life_is_over(&life) || (life_is_own(&life) && cluster_has_ended(address));
}

/* Caller holds the lock. NULL: no memory. */
static struct over *find(const char *address)
{
	struct over *more;

	for (unsigned i = 0; i < all.n; i++)
		if (!strcmp(all.items[i].address, address))
			return &all.items[i];
	more = realloc(all.items, (all.n + 1) * sizeof(*all.items));
	if (!more)
		return NULL;
	all.items = more;
	more += all.n++;
	*more = (struct over){.since_ns = rbd_host->now_ns()};
	snprintf(more->address, sizeof(more->address), "%s", address);
	return more;
}

/* Since when it is over; is_refused: from now on; returns whether it was. */
static bool note(const char *address, bool is_refused, uint64_t *ret_since_ns)
{
	struct over *over;
	bool was_refused = false;

	pthread_mutex_lock(&all.lock);
	over = find(address);
	*ret_since_ns = over ? over->since_ns : rbd_host->now_ns();
	if (over) {
		was_refused = over->is_refused;
		over->is_refused |= is_refused;
	}
	pthread_mutex_unlock(&all.lock);
	return was_refused;
}

static int remove_entry(const struct image *image, const char *address)
{
	char text[LEASE_ADDRESS_BYTES + 128];
	const char *command = text;
	char *said = NULL, *status = NULL;
	size_t n_said, n_status;
	int r;

	snprintf(text, sizeof(text),
		 "{\"prefix\": \"osd blocklist\", \"blocklistop\": \"rm\", \"addr\": \"%s\"}",
		 address);
	r = rados_mon_command(cluster_handle(image->cluster), &command, 1, "", 0, &said, &n_said,
			      &status, &n_status);
	rados_buffer_free(said);
	rados_buffer_free(status);
	return r == -ENOENT ? 0 : r;
}

static void refuse(const struct image *image, const char *address, int r)
{
	uint64_t since_ns;

	if (!note(address, true, &since_ns))
		rbd_host->write_log(
			LOG_WARN,
			"%s: the client at %s is over, and cannot be removed from the blocklist: %s; ceph osd blocklist rm %s",
			image->path, address, strerror(-r), address);
}

/* When to look again at this client, which is over. */
static uint64_t look_at(const struct image *image, const char *address)
{
	unsigned remnants_s = cluster_option(image->cluster, "mon_osd_blocklist_default_expire",
					     REMNANTS_S);
	uint64_t since_ns, end_ns;
	int r;

	if (note(address, false, &since_ns))
		return UINT64_MAX;
	end_ns = since_ns + remnants_s * NSEC_PER_SEC;
	if (rbd_host->now_ns() < end_ns)
		return end_ns;
	r = remove_entry(image, address);
	if (r < 0) {
		refuse(image, address, r);
		return UINT64_MAX;
	}
	rbd_host->write_log(LOG_INFO, "%s: the client at %s is over: removed from the blocklist",
			    image->path, address);
	lease_forget_fenced(image->pool, image->object, address);
	return UINT64_MAX;
}

static uint64_t look_at_all(const struct image *image, rados_omap_iter_t found)
{
	char *key, *value;
	size_t n_key, n;
	uint64_t next_ns = UINT64_MAX;

	while (rados_omap_get_next2(found, &key, &value, &n_key, &n) == 0 && key) {
		char text[LEASE_LINE_BYTES] = "";
		const char *address = lease_fenced_address(key, n_key);

		if (address && n < sizeof(text))
			memcpy(text, value, n);
		if (address && is_over(address, text))
			next_ns = MIN(next_ns, look_at(image, address));
	}
	return next_ns;
}

uint64_t entries_look(const struct image *image)
{
	rados_omap_iter_t found = NULL;
	rados_read_op_t op = rados_create_read_op();
	unsigned char has_more;
	uint64_t next_ns = UINT64_MAX;
	int result = 0;

	if (!op)
		return next_ns;
	rados_read_op_omap_get_vals2(op, "", LEASE_FENCED, RECORDS_MAX, &found, &has_more, &result);
	if (rados_read_op_operate(op, image->pool, image->object, 0) == 0 && result == 0)
		next_ns = look_at_all(image, found);
	if (found)
		rados_omap_get_end(found);
	rados_release_read_op(op);
	return next_ns;
}
