/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See stand.h. The image is not open meanwhile, so that no watch of it is in the owner's way.
 *
 *   looks --lock is free-----------------------------------------------------> announces, acquires
 *     |   --its holder renews its lease--> looks again                           |        |
 *     |   --it does not--> blocklist --> newest map --> its lock is broken       |        |
 *     <-----------------------------------------------------'        refused <---'     owner
 *
 * Only a lock that was acquired makes an owner. A lease that ends, a process that is gone and a
 * blocklist make none: each error on the way leads back to the look. It breaks the lock of the
 * client that it has fenced, by its name and cookie, and never that of another one; a
 * holder that announces no lease is no rblkd with an owner, and stays.
 *
 * The holder is fenced first, without an end (the blocklist forgets it in ten years), and then this
 * client waits for the map with that entry. All its operations name a map at least as new from then
 * on, and an OSD takes none of them before it has that map itself. So what the holder has sent is
 * done before all that this client does, or never.
 *
 * Time is this machine's, from when a line was seen for the first time. While this client cannot
 * read lines it believes nothing: that time does not count. The look that may find the lease over
 * begins just when it is, and the one after a break at once.
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "target/store/rbd/entries.h"
#include "target/store/rbd/stand.h"

enum {
	FENCED_FOR_S = 10 * 365 * 24 * 3600,
	LOOKS = 20, /* in a lease */
	LOOK_LEAST_MS = 100,
	LOOK_MOST_MS = 500,
	AGAIN_MS = 1000, /* after an error that time may not mend */
	STEP_MS = 50,
};

#define LOCK "rbd_lock" /* librbd's name for the exclusive lock */

struct locker {
	char client[64], cookie[128], address[LEASE_ADDRESS_BYTES];
};

struct stander {
	struct image *image;
	const struct backend_config *config;
	struct standing *standing;
	struct image look; /* of the same cluster; not open: its names, its pool */
	char own[LEASE_ADDRESS_BYTES];

	/* The holder as it was seen last */
	struct locker holder;
	char line[LEASE_LINE_BYTES];
	uint64_t since_ns, read_ns; /* the line counts from here; the latest time it was there */
	unsigned n_ended;	    /* clients that had ended when entries were looked at */
	uint64_t entries_ns;	    /* when to do that again, in any case */
	uint64_t end_ns;	    /* when its lease is over if it stays; 0: not known */

	int result; /* what it waits for */
	struct error why;
};

/* Clients that this process has fenced. Their addresses do not come back. */
static struct {
	pthread_mutex_t lock;
	char (*addresses)[LEASE_ADDRESS_BYTES];
	unsigned n;
} fenced = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool is_fenced(const char *address)
{
	bool is_in = false;

	pthread_mutex_lock(&fenced.lock);
	for (unsigned i = 0; i < fenced.n; i++)
		is_in |= !strcmp(fenced.addresses[i], address);
	pthread_mutex_unlock(&fenced.lock);
	return is_in;
}

/* Without memory it is fenced once more for the next image. */
static void note_fenced(const char *address)
{
	void *more;

	pthread_mutex_lock(&fenced.lock);
	more = realloc(fenced.addresses, (fenced.n + 1) * sizeof(*fenced.addresses));
	if (more) {
		fenced.addresses = more;
		snprintf(fenced.addresses[fenced.n++], LEASE_ADDRESS_BYTES, "%s", address);
	}
	pthread_mutex_unlock(&fenced.lock);
}

/* ---- waiting -------------------------------------------------------------------------------- */

__attribute__((format(printf, 3, 4))) static int wait_for(struct stander *s, int r, const char *fmt,
							  ...)
{
	char what[ERROR_MESSAGE_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	s->result = rbd_host->refuse(&s->why, r, "%s: %s", s->config->path, what);
	return r;
}

static bool goes_on(struct stander *s)
{
	return s->standing->goes_on(s->standing, s->result, &s->why);
}

/* False: nothing asks any more. */
static bool pause_until(struct stander *s, uint64_t end_ns)
{
	for (uint64_t now_ns; (now_ns = rbd_host->now_ns()) < end_ns;) {
		if (!goes_on(s))
			return false;
		rbd_host->sleep_ns(MIN(end_ns - now_ns, STEP_MS * NSEC_PER_MSEC));
	}
	return goes_on(s);
}

/* Where the time of a take-over goes. */
static void note_step(const struct stander *s, const char *step)
{
	uint64_t ms = (rbd_host->now_ns() - s->since_ns) / NSEC_PER_MSEC;

	if (s->since_ns)
		rbd_host->write_log(LOG_DEBUG,
				    "%s: %s, %llu ms after the last renewal that was seen",
				    s->config->path, step, (unsigned long long)ms);
}

/* ---- the way to the cluster ----------------------------------------------------------------- */

static void detach(struct stander *s)
{
	image_release(&s->look);
	s->holder = (struct locker){0};
	s->n_ended = UINT_MAX;
}

/* The names, and the connection, which stays. */
static int attach(struct stander *s)
{
	struct backend_config config = *s->config;
	char *address = NULL;
	int r;

	if (s->look.cluster && !cluster_is_lost(s->look.cluster))
		return 0;
	detach(s);
	config.role = BACKEND_LOOKS;
	r = image_open(&s->look, &config, &s->why);
	if (r == 0 && rados_getaddrs(cluster_handle(s->look.cluster), &address) < 0)
		r = -ENOTCONN;
	if (r < 0) {
		if (r == -ESHUTDOWN && s->look.cluster)
			cluster_lose(s->look.cluster);
		detach(s);
		s->result = r == -EBUSY ? -EIO : r;
		return r;
	}
	snprintf(s->own, sizeof(s->own), "%s", address);
	rados_buffer_free(address);
	rbd_close(s->look.rbd);
	s->look.rbd = NULL;
	return 0;
}

/* An answer of the cluster that is no answer to the question. */
static int note_error(struct stander *s, int r, const char *what)
{
	s->holder = (struct locker){0};
	if (r == -ESHUTDOWN) {
		cluster_lose(s->look.cluster);
		return wait_for(s, -EAGAIN,
				"this client is in the cluster's blocklist: it begins anew");
	}
	if (r == -EACCES || r == -EPERM)
		return wait_for(s, r,
				"client.%s may not %s: it must have mon and osd 'profile rbd'",
				rbd_config(s->config)->user, what);
	return wait_for(s, r, "cannot %s: %s", what, strerror(-r));
}

/* ---- the holder ----------------------------------------------------------------------------- */

/* librados names the protocol before the address, librbd and the blocklist do not. */
static void drop_protocol(char *address)
{
	const char *rest = address;

	if (address[0] == 'v' && address[1] && address[2] == ':')
		rest = address + 3;
	else if (!strncmp(address, "any:", 4))
		rest = address + 4;
	memmove(address, rest, strlen(rest) + 1);
}

/* 1: there is one; 0: the lock is free; or -errno. */
static int find_locker(struct stander *s, struct locker *ret_locker)
{
	char tag[128];
	int is_exclusive;
	size_t n_tag = sizeof(tag), n_client = sizeof(ret_locker->client);
	size_t n_cookie = sizeof(ret_locker->cookie), n_address = sizeof(ret_locker->address);
	ssize_t n = rados_list_lockers(s->look.pool, s->look.header, LOCK, &is_exclusive, tag,
				       &n_tag, ret_locker->client, &n_client, ret_locker->cookie,
				       &n_cookie, ret_locker->address, &n_address);

	if (n > 0)
		drop_protocol(ret_locker->address);
	return n < 0 ? (int)n : n > 0;
}

static bool is_another(const struct stander *s, const struct locker *locker,
		       const struct lease_line *line)
{
	return strcmp(s->holder.address, locker->address) != 0 || strcmp(s->line, line->text) != 0;
}

/* Whether the line was there for the whole lease. The time between two reads that are far apart
 * does not count: what kept this client from reading may have kept the owner from writing. */
static bool is_silent(struct stander *s, const struct locker *locker, const struct lease_line *line,
		      uint64_t asked_ns)
{
	uint64_t now_ns = rbd_host->now_ns();

	if (is_another(s, locker, line)) {
		s->holder = *locker;
		memcpy(s->line, line->text, sizeof(s->line));
		s->since_ns = now_ns;
	} else if (asked_ns - s->read_ns > line->length_ns / 2) {
		s->since_ns += now_ns - s->read_ns;
	}
	s->read_ns = now_ns;
	s->end_ns = s->since_ns + line->length_ns;
	return asked_ns >= s->end_ns;
}

/* Why the holder may be fenced, and its line; NULL, and s->why: it may not. */
static const char *judge(struct stander *s, const struct locker *locker, struct lease_line *line)
{
	uint64_t asked_ns = rbd_host->now_ns();
	int r = lease_read(s->look.pool, s->look.object, locker->address, line);

	s->end_ns = 0;
	if (r == -ENOENT || r == -EBADMSG) {
		wait_for(
			s, -EBUSY,
			"is locked by %s at %s, which is no rblkd that shares its group (rbd lock ls %s)",
			locker->client, locker->address, s->config->path);
		return NULL;
	}
	if (r < 0) {
		note_error(s, r, "read the lease of its owner");
		return NULL;
	}
	wait_for(s, -EBUSY, "is in use by another rblkd: %s at %s", locker->client,
		 locker->address);
	if (life_is_over(&line->life))
		return "its process has ended";
	return is_silent(s, locker, line, asked_ns) ? "it has not renewed its lease" : NULL;
}

/* ---- fencing -------------------------------------------------------------------------------- */

/* Afterwards nothing of the client is ahead of what this one does. 0 or -errno. */
static int fence(struct stander *s, const struct locker *locker, const char *why)
{
	rados_t handle = cluster_handle(s->look.cluster);
	char address[LEASE_ADDRESS_BYTES];
	int r;

	if (is_fenced(locker->address))
		return rados_wait_for_latest_osdmap(handle);
	rbd_host->write_log(LOG_WARN, "%s: its owner %s at %s is fenced: %s", s->config->path,
			    locker->client, locker->address, why);
	note_step(s, "it is to be fenced");
	snprintf(address, sizeof(address), "%s", locker->address);
	r = rados_blocklist_add(handle, address, FENCED_FOR_S);
	if (r == 0)
		r = rados_wait_for_latest_osdmap(handle);
	note_step(s, "it is fenced");
	if (r == 0)
		note_fenced(locker->address);
	return r;
}

/* line: "": it was fenced for another image. -ERESTART: look again at once; or another -errno. -ENOENT of the break: it has released its lock,
 * or another client is faster. */
static int fence_and_break(struct stander *s, const struct locker *locker, const char *line,
			   const char *why)
{
	int r = fence(s, locker, why);

	if (r < 0) {
		note_error(s, r, "fence its owner");
		return -EAGAIN;
	}
	r = rados_break_lock(s->look.pool, s->look.header, LOCK, locker->client, locker->cookie);
	note_step(s, "its lock is broken");
	if (r < 0 && r != -ENOENT) {
		note_error(s, r, "break the lock of its owner");
		return -EAGAIN;
	}
	if (*line)
		lease_note_fenced(s->look.pool, s->look.object, locker->address, line);
	else
		lease_forget(s->look.pool, s->look.object, locker->address);
	return -ERESTART;
}

/* ---- taking --------------------------------------------------------------------------------- */

/* The image is open and has the lock. */
static int begin_lease(struct stander *s)
{
	struct image *image = s->image;

	if (image->cluster != s->look.cluster)
		return -EAGAIN; /* the line has another address */
	snprintf(image->address, sizeof(image->address), "%s", s->own);
	image->lease = lease_start(image, s->own, s->config->lease_ns);
	records_set_lease(image->records, image->lease);
	return image->lease ? 0 : -ENOMEM;
}

/* The line is there before the lock. */
static int acquire(struct stander *s)
{
	int r = lease_announce(s->look.pool, s->look.object, s->own, s->config->lease_ns);

	if (r < 0)
		return note_error(s, r, "announce itself as its owner");
	r = image_open(s->image, s->config, &s->why);
	note_step(s, "its image is open");
	if (r == 0)
		r = begin_lease(s);
	if (r == 0)
		return 0;
	if (r == -ESHUTDOWN)
		cluster_lose(s->look.cluster);
	image_release(s->image);
	lease_forget(s->look.pool, s->look.object, s->own);
	s->result = r;
	return r;
}

/* 0: it is the owner; -ERESTART, -EAGAIN: look again at once, or soon; or -errno. */
static int look(struct stander *s, uint64_t *length_ns)
{
	struct lease_line line = {.text = "", .length_ns = *length_ns};
	struct locker locker;
	const char *why;
	int r = find_locker(s, &locker);

	if (r < 0)
		return note_error(s, r, "look at its lock");
	if (r == 0)
		return acquire(s);
	if (!strcmp(locker.address, s->own)) {
		wait_for(s, -EBUSY, "is in use by this rblkd, which closes it");
		return -EBUSY;
	}
	if (!image_lock_is_automatic(locker.cookie))
		return wait_for(s, -EBUSY, "is locked by %s at %s as %s (rbd lock ls %s)",
				locker.client, locker.address, locker.cookie, s->config->path);
	if (is_fenced(locker.address))
		return fence_and_break(s, &locker, "", "");
	why = judge(s, &locker, &line);
	*length_ns = line.length_ns;
	return why ? fence_and_break(s, &locker, line.text, why) : s->result;
}

static uint64_t pause_after(int r, uint64_t length_ns)
{
	uint64_t ms = length_ns / NSEC_PER_MSEC / LOOKS;

	if (r == -ERESTART)
		return 0;
	if (r == -EAGAIN)
		return STEP_MS;
	if (r != -EBUSY)
		return AGAIN_MS;
	return MAX(MIN(ms, (uint64_t)LOOK_MOST_MS), (uint64_t)LOOK_LEAST_MS);
}

/* When to look again: not after the moment at which the lease that was read ends. */
static uint64_t next_look_ns(const struct stander *s, int r, uint64_t length_ns)
{
	uint64_t now_ns = rbd_host->now_ns();
	uint64_t next_ns = now_ns + pause_after(r, length_ns) * NSEC_PER_MSEC;

	return r == -EBUSY && s->end_ns > now_ns ? MIN(next_ns, s->end_ns) : next_ns;
}

/* While another one is the owner there is time for it. A client of this process may end later. */
static void look_at_entries(struct stander *s)
{
	unsigned n = cluster_n_ended();

	if (s->n_ended == n && rbd_host->now_ns() < s->entries_ns)
		return;
	s->n_ended = n;
	s->entries_ns = entries_look(&s->look);
}

int stand_by_for_image(struct image *image, const struct backend_config *config,
		       struct standing *standing)
{
	struct stander s = {.image = image,
			    .config = config,
			    .standing = standing,
			    .look.path = image->path,
			    .n_ended = UINT_MAX,
			    .result = -EINPROGRESS};
	uint64_t length_ns = config->lease_ns;
	int r;

	do {
		r = attach(&s);
		if (r == 0)
			r = look(&s, &length_ns);
		if (r == -EBUSY)
			look_at_entries(&s);
	} while (r < 0 && pause_until(&s, next_look_ns(&s, r, length_ns)));
	detach(&s);
	return r < 0 ? -ECANCELED : 0;
}
